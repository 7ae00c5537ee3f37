"""Send the next batch to the GPU while the current step runs there.

A copy that is asked for at the beginning of a step delays that step's first kernel, even when the host does not wait
for it. On a stream of its own the next batch travels beside the kernels of this one. It pays where batches are large
for the work that is done on them. It costs a second batch of device memory, and needs pinned batches, since from other
memory a copy holds up the host. It is sent when the backward pass has been queued, so that fetching it is hidden too:
without loader workers the whole loading runs beside the device, and that may be most of what is gained. With workers,
where the copy is a hundredth of the step, no more than that can be gained.

    with torch.cuda.stream(side):
        ahead = [one.to("cuda", non_blocking=True) for one in next(batches)]
    torch.cuda.current_stream().wait_stream(side)  # before they are used; and tensor.record_stream for each
"""

from harness.core.optimization import ASYNCHRONOUS, Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="device_prefetch",
    title="Next batch sent ahead",
    stage=Stage.DEVICE,
    numerics=Numerics.EXACT,
    sets={"device_prefetch": True},
    proof={"device_prefetch": True, "overlapping_copies": True},
    needs=(ASYNCHRONOUS,),
    requires=("pin_memory", "non_blocking"),
)
