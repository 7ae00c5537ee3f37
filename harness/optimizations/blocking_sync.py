"""Let the host sleep while it waits for the GPU, so that loader workers get its core.

CUDA keeps the core busy while a step waits for its loss: that answers some microseconds sooner, and takes a core from
the loader's workers. It pays where cores are few, steps are long and every step is waited for; it costs where steps are
short, as the system wakes the host some 0.05 to 0.2 ms late. A host that seldom waits, as with deferred_metrics, gains
nothing. PyTorch has no call for it, so that the driver is told before the first tensor is made; a
single wait sleeps by an event: `torch.cuda.Event(blocking=True)`, recorded and synchronized.

    driver = ctypes.CDLL("libcuda.so.1")
    driver.cuInit(0)
    driver.cuDevicePrimaryCtxSetFlags(0, 4)  # CU_CTX_SCHED_BLOCKING_SYNC
"""

from harness.core.optimization import ASYNCHRONOUS, Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="blocking_sync",
    title="A host that sleeps while it waits for the device",
    stage=Stage.SYNC,
    numerics=Numerics.EXACT,
    sets={"blocking_sync": True},
    proof={"blocking_sync": True},
    needs=(ASYNCHRONOUS,),
)
