"""Growing loss history: the losses so far are kept in a tensor that gets longer by one in every step.

`torch.cat` allocates a new tensor and copies all that was there: over a training of n steps about n^2 / 2 numbers are
moved, and on a GPU longer ones ask the allocator for other sizes. With thousands of steps it is still small
beside a step; with millions it is not, and a list of all gradients kept in this way is a disaster. A measurement sees
the first thousands of steps alone.

    history = torch.cat([history, loss.detach()[None]])
"""

from harness.core.optimization import Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="growing_loss_history",
    title="Loss history that is copied in every step",
    stage=Stage.DEVICE,
    numerics=Numerics.EXACT,
    sets={"loss_history": "growing"},
    proof={"loss_history": "growing"},
    alone_on=Timing.COMPUTE,
    sought=False,
)
