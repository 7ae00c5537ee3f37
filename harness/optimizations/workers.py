"""Loader workers: processes that prepare the next batches while the step runs.

Pays when preparing a batch takes a noticeable part of the step and cores are free: the step then waits only for what
the workers cannot keep up with. Does nothing when the step is the bottleneck; hurts when workers and trainer share too
few cores, or when copying finished batches between processes costs more than making them.

    DataLoader(dataset, batch_size=..., num_workers=4)
"""

from harness.core.optimization import LEVEL, Claim, Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="workers",
    title="Loader worker processes",
    stage=Stage.INPUT,
    numerics=Numerics.EXACT,
    sets={"workers": LEVEL},
    proof={"workers": LEVEL},
    levels=(1, 2, 4, 8, 16),
    # On few cores the trainer keeps one for itself; beyond eight workers batches queue up rather than come sooner.
    usual=lambda environment: max(1, min(8, environment.cores - 1)),
    claims=(
        Claim(
            name="speaker workers",
            metric="throughput",
            gain=(2.0, 3.0),
            where="speaker, with pinned memory, prefetch 3, persistent workers and batch 128",
            source="OPTIMIZATION_GUIDE of a VoxCeleb trainer (dimuthuanuraj/voxceleb_trainer)",
        ),
        Claim(
            name="spoof workers",
            metric="throughput",
            gain=(4.0, 8.0),
            where="spoof, 4 workers with prefetch 2",
            source="PERFORMANCE_OPTIMIZATIONS of a voice anti-spoofing pipeline (gkibria121/ai-pipeline)",
        ),
        Claim(
            name="imagenet workers",
            metric="throughput",
            gain=(1.5, 2.0),
            where="imagenet from S3, 16 workers with prefetch 4",
            source="PERFORMANCE_ANALYSIS of an ImageNet trainer (cydal/ImageNet-Full-training)",
        ),
        Claim(
            name="patches3d workers",
            metric="throughput",
            gain=(2.0, 3.0),
            where="patches3d, 4 to 8 workers",
            source="TRAINING_OPTIMIZATION_ANALYSIS of a 3-D segmentation trainer (TomBombadyl/vesuvius_challenge)",
        ),
    ),
)
