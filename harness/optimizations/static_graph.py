"""Tells DDP that every step uses the same parameters in the same order.

DDP then need not look for unused parameters, and allows checkpointing of parts that are passed more than once. Where
no parameters are unused and nothing is checkpointed it should change nothing. A graph that does change is an error.
Whether it is active is read back from DDP's reducer.

    DistributedDataParallel(model, static_graph=True)
"""

from harness.core.optimization import Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="static_graph",
    title="A graph that stays the same, said to DDP",
    stage=Stage.RANKS,
    numerics=Numerics.EXACT,
    sets={"static_graph": True},
    proof={"static_graph": True},
    requires=("ranks",),
)
