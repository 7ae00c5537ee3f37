"""Preallocated loss history: the losses so far are written by index into a tensor that was allocated ahead.

The counterpart of a tensor that grows by `torch.cat`: one small write a step, and one copy whenever the place runs out
and doubles. Against no history at all it is a price, a few microseconds on the host and one kernel on a GPU; its worth
is that it needs no read-back, unlike a list of `loss.item()`.

    history = torch.zeros(1024, device=device)
    history[step] = loss.detach()
"""

from harness.core.optimization import Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="preallocated_loss_history",
    title="Loss history written into memory allocated ahead",
    stage=Stage.DEVICE,
    numerics=Numerics.EXACT,
    sets={"loss_history": "preallocated"},
    proof={"loss_history": "preallocated"},
    alone_on=Timing.COMPUTE,
    sought=False,
)
