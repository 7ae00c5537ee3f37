"""Buffers, such as the running statistics of batch normalisation, stay as each rank has them.

DDP broadcasts those of rank 0 before every forward pass. Training does not read them, so its losses stay the same;
each rank would evaluate with statistics of its own, and rank 0 with those that it would have had anyway. Models
without buffers have nothing to gain: the option is then inactive.

    DistributedDataParallel(model, broadcast_buffers=False)
"""

from harness.core.optimization import Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="buffer_broadcast_off",
    title="Running statistics not broadcast",
    stage=Stage.RANKS,
    numerics=Numerics.EXACT,
    sets={"buffers_not_broadcast": True},
    proof={"buffers_not_broadcast": True},
    requires=("ranks",),
)
