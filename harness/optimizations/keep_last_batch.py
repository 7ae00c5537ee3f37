"""Keep the last batch of an epoch though it is smaller than the others.

A loader does so unless it is told to drop it. The epochs here would come out even, so half of the last batch is left
out to make one. The small batch costs nearly as much as a whole one where time goes into launching kernels, and its
shape is new: `torch.compile` compiles again, `cudnn_benchmark` searches again, a captured graph cannot take it. None
of that happens with `drop_last=True`, whose price is a few samples an epoch. A mean over fewer samples weighs each of
them more, and a batch of one breaks batch normalization: what is learned differs.

    DataLoader(dataset, batch_size=..., drop_last=False)
"""

from harness.core.optimization import Need, Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="keep_last_batch",
    title="A last batch of half the size",
    stage=Stage.INPUT,
    numerics=Numerics.DIFFERENT,
    sets={"keep_last_batch": True},
    proof={"last_batch": "short"},
    timed_on=Timing.EPOCH,
    needs=(
        Need(
            missing="needs batches of several samples",
            met=lambda _, workload: max(size.batch for size in workload.sizes.values()) > 1,
        ),
    ),
    sought=False,
)
