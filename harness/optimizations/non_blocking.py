"""Non-blocking copies: the host goes on while a pinned batch travels to the GPU.

Hides the copy behind work that is already queued. From memory that is not pinned the copy waits all the same, so it
requires pin_memory.

    inputs = inputs.to("cuda", non_blocking=True)
"""

from harness.core.optimization import ASYNCHRONOUS, Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="non_blocking",
    title="Copies that do not block the host",
    stage=Stage.HOST,
    numerics=Numerics.EXACT,
    sets={"non_blocking": True},
    proof={"overlapping_copies": True},
    needs=(ASYNCHRONOUS,),
    requires=("pin_memory",),
)
