"""Gradients set to None instead of filled with zeros.

Saves one pass over all gradients and the addition to zeros that follows. PyTorch's default since 2.0, so asking for it
changes nothing in code that never asked for the opposite; our baseline reference fills with zeros. A parameter that a
step gives no gradient is then left alone, where zeros would let momentum and weight decay move it.

    optimizer.zero_grad(set_to_none=True)
"""

from harness.core.optimization import Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="set_to_none",
    title="Gradients dropped, not zeroed",
    stage=Stage.HOST,
    numerics=Numerics.EXACT,
    sets={"set_to_none": True},
    proof={"set_to_none": True},
    alone_on=Timing.COMPUTE,
)
