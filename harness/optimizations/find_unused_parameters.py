"""A cost: DDP walks through the graph after every forward pass, in search of parameters that got no gradient.

Needed where parts of a model are left out in some steps; often left on where they are not. Beside the walk, all ranks
exchange which parameters were used, which is the sign by which it is seen, and buckets are never rebuilt in the order
in which gradients arrive.

    DistributedDataParallel(model, find_unused_parameters=True)
"""

from harness.core.optimization import Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="find_unused_parameters",
    title="A search for unused parameters in every step",
    stage=Stage.RANKS,
    numerics=Numerics.CLOSE,
    sets={"find_unused_parameters": True},
    proof={"find_unused_parameters": True},
    requires=("ranks",),
    sought=False,
)
