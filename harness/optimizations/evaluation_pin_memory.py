"""Pinned batches in the evaluation: a loader of its own puts them where the device can fetch them by itself.

Copies from pinned memory are faster and may overlap with what the device does. Pinning costs a copy on the host, which
does not pay where an evaluation sends little.

    loader = DataLoader(validation_set, batch_size=..., pin_memory=True)
"""

from harness.core.optimization import CUDA, EVALUATION_OPTIONS, Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="evaluation_pin_memory",
    title="Pinned host memory in evaluations",
    stage=Stage.EVALUATION,
    numerics=Numerics.EXACT,
    sets={"evaluation_pin_memory": True},
    proof={"evaluation_pinned": True},
    timed_on=Timing.EVALUATION,
    needs=(CUDA, EVALUATION_OPTIONS),
)
