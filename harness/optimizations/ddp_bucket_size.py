"""DDP's bucket size in MB: how many gradients are reduced together. The default is 25, and 1 for the first bucket.

Small buckets start to travel sooner and hide behind the rest of the backward pass; large ones have less overhead each.
What is not hidden is the last bucket. Whoever names a size has no smaller first bucket. Sums are taken in another order
where there are more than two ranks. A model whose gradients fill the same buckets with this size as with the default
shows nothing, and is reported as inactive.

    DistributedDataParallel(model, bucket_cap_mb=100)
"""

from harness.core.optimization import LEVEL, Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="ddp_bucket_size",
    title="Gradients reduced in buckets of another size",
    stage=Stage.RANKS,
    numerics=Numerics.CLOSE,
    sets={"bucket_mb": LEVEL},
    proof={"bucket_mb": LEVEL},
    levels=(100, 5, 1),
    requires=("ranks",),
)
