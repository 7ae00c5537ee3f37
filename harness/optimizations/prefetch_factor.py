"""Prefetch factor: how many finished batches each loader worker may hold ready.

Evens out batches that take unequally long, so that one slow batch does not stop the step. Does nothing for throughput
when workers are too slow on average, or always ahead; every batch more costs its size in shared memory.

    DataLoader(dataset, batch_size=..., num_workers=4, prefetch_factor=4)
"""

from harness.core.optimization import LEVEL, Claim, Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="prefetch_factor",
    title="Batches prefetched by each worker",
    stage=Stage.INPUT,
    numerics=Numerics.EXACT,
    sets={"prefetch_factor": LEVEL},
    proof={"prefetch_factor": LEVEL},
    levels=(4, 1, 8),
    requires=("workers",),
    claims=(
        Claim(
            name="leak prefetch",
            metric="throughput",
            gain=(1.3, 1.6),
            where="leak, prefetch 8 with half the workers",
            source="PERFORMANCE_ANALYSIS of a leak-detection trainer (eviltwinkie/AILH_MASTER)",
        ),
        Claim(
            name="patches3d prefetch",
            metric="throughput",
            gain=(1.1, 1.2),
            where="patches3d, prefetch 2 with persistent workers",
            source="TRAINING_OPTIMIZATION_ANALYSIS of a 3-D segmentation trainer (TomBombadyl/vesuvius_challenge)",
        ),
    ),
)
