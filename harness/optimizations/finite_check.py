"""NaN check: before each backward pass the loss is read back and tested for NaN.

The training stops at the first bad loss instead of hours later. On a GPU the host must wait for the forward pass before
it can queue the backward pass, so the device idles while the host catches up; with short steps that is seen, with long
ones it is not. On a CPU it is one comparison. A running loss that stays on the device and is looked at once in a while
shows a NaN almost as early, for nothing. On patches3d as found the loss is checked once already.

    if torch.isnan(loss):
        raise RuntimeError("the loss is NaN")
    loss.backward()
"""

from harness.core.optimization import Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="finite_check",
    title="The loss tested for NaN in every step",
    stage=Stage.SYNC,
    numerics=Numerics.EXACT,
    sets={"finite_check": True},
    proof={"finite_check": True},
    alone_on=Timing.COMPUTE,
    sought=False,
)
