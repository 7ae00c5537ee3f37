"""ZeRO stage 1: each rank holds the optimizer's state of its part of the weights, updates that and broadcasts it.

Each of N ranks keeps a part in N of the optimizer's state and updates as little. Costs a broadcast of all
weights for every update, which is how it is seen.

    optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.Adam, lr=1e-3)
"""

from harness.core.optimization import Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="zero_redundancy_optimizer",
    title="An optimizer whose state is shared out",
    stage=Stage.RANKS,
    numerics=Numerics.EXACT,
    sets={"sharded_optimizer": True},
    proof={"sharded_optimizer": True},
    requires=("ranks",),
)
