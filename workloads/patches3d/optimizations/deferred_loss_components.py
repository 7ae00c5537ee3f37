"""Keep the components of the loss on the device, and leave out the NaN check and the collections of garbage.

As found, every component at every scale is read back for a log, the sum is checked for NaN, and in every fourth step,
which measures distances, Python's garbage collector is called by hand: two dozen waits a step, which keep the host from
queuing the backward pass, and a walk over all Python objects.

It pays on a GPU where the host would otherwise run ahead, in proportion to how short the steps are. It does nothing
while the step waits for its data. A NaN is then seen only when somebody looks at the running loss.

    components = {name: one.detach() for name, one in components.items()}
"""

from harness.core.optimization import Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="deferred_loss_components",
    title="No waits for components of the loss",
    stage=Stage.SYNC,
    numerics=Numerics.EXACT,
    sets={"loss_readback": "deferred"},
    proof={"loss_readback": "deferred"},
    alone_on=Timing.COMPUTE,
)
