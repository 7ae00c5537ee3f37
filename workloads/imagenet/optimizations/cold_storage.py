"""Read every object as if nobody had read it before.

A condition, not an improvement: the first epoch on a mounted bucket, on a fresh machine, or on a store whose cache is
smaller than the set. The real system took 7.6 minutes for its first epoch and about 2 for the next ones; an object then
cost each worker some 72 ms, decoding included, against some 20 ms later.

Use it as a reference to see what the other optimizations are worth where they are needed most. A server on loopback
has no such latency, so that it is added: a read that was quicker sleeps for the rest.

    ./speedmatrix run imagenet --reference cold_storage --only ram_cache --probe loader
"""

from harness.core.optimization import Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="cold_storage",
    title="Object store that was never read before",
    stage=Stage.INPUT,
    numerics=Numerics.EXACT,
    sets={"s3_state": "cold"},
    proof={"s3_state": "cold"},
    sought=False,
)
