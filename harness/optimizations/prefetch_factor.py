"""Prefetch factor: how many finished batches each loader worker may hold ready.

Evens out batches that take unequally long, so that one slow batch does not stop the step. Does nothing for throughput
when workers are too slow on average, or always ahead; every batch more costs its size in shared memory.

    DataLoader(dataset, batch_size=..., num_workers=4, prefetch_factor=4)
"""

from harness.core.optimization import LEVEL, Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="prefetch_factor",
    title="Batches prefetched by each worker",
    stage=Stage.INPUT,
    numerics=Numerics.EXACT,
    sets={"prefetch_factor": LEVEL},
    proof={"prefetch_factor": LEVEL},
    levels=(4, 1, 2, 8),
    requires=("workers",),
)
