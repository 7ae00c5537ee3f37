"""Accumulated gradients are reduced once for an update instead of in every pass.

DDP reduces in each backward pass unless it is told not to. With gradients that are accumulated over several passes,
all but the last reduction are wasted. Sums are taken in another order.

    with model.no_sync():
        (criterion(model(inputs[0]), targets[0]) / 2).backward()
    (criterion(model(inputs[1]), targets[1]) / 2).backward()
"""

from harness.core.optimization import Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="no_sync",
    title="Gradients reduced in the last pass alone",
    stage=Stage.RANKS,
    numerics=Numerics.CLOSE,
    sets={"gradient_reduction": "last_pass"},
    proof={"gradient_reduction": "last_pass"},
    requires=("gradient_accumulation", "ranks"),
)
