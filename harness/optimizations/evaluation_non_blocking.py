"""Copies of the evaluation that do not block the host.

The host goes on to read the next item while a copy is under way. It pays where results are not asked for after every
item, since asking waits for everything before it. From memory that is not pinned a copy waits all the same.

    inputs = inputs.to("cuda", non_blocking=True)
"""

from harness.core.optimization import CUDA, Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="evaluation_non_blocking",
    title="Copies of evaluations that do not block the host",
    stage=Stage.EVALUATION,
    numerics=Numerics.EXACT,
    sets={"evaluation_non_blocking": True},
    proof={"evaluation_overlapping_copies": True},
    timed_on=Timing.EVALUATION,
    needs=(CUDA,),
    requires=("evaluation_pin_memory",),
)
