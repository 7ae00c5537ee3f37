"""A condition: no gradient is reduced, so that each rank trains a model of its own.

Nobody trains like this. The difference to a step with reductions is the communication that the backward pass does not
hide, and the time in which ranks wait for the slowest of them, measured instead of taken from a profile: with a ratio r
over ranks that reduce, 1 - 1/r of their step. DistributedDataParallel leaves out the broadcast of buffers with it:
beside `buffer_broadcast_off` in both arms it is the gradients alone. Ranks whose loaders differ from step to step wait
for each other without any communication.

    model.require_backward_grad_sync = False            # of DistributedDataParallel
"""

from harness.core.optimization import Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="gradients_not_reduced",
    title="No gradients between the ranks",
    stage=Stage.RANKS,
    numerics=Numerics.DIFFERENT,
    sets={"gradient_reduction": "never"},
    proof={"gradient_reduction": "never"},
    requires=("ranks",),
    sought=False,
)
