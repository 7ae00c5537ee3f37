"""Gradients are views into the buckets that DDP reduces, instead of copies beside them.

Saves memory of the size of all gradients, and the copy into the bucket and back. Excludes nothing but code that
detaches gradients. Whether it is active is seen by where the gradients of one step lie.

    DistributedDataParallel(model, gradient_as_bucket_view=True)
"""

from harness.core.optimization import Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="gradient_as_bucket_view",
    title="Gradients that lie in their buckets",
    stage=Stage.RANKS,
    numerics=Numerics.EXACT,
    sets={"gradient_as_bucket_view": True},
    proof={"gradient_as_bucket_view": True},
    requires=("ranks",),
)
