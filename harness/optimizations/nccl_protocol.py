"""Tells NCCL how to hand over data: in large chunks with a barrier each, or in lines that carry their own flag.

`Simple` uses the whole width of a link and pays microseconds for each chunk. `LL` sends 4 bytes of flag with every 4 of
data, so that nobody waits for a barrier and half the width is lost; `LL128` sends 8 with every 120 and needs links that
keep stores of 128 bytes together, as NVLink does. NCCL weighs them for each size. Naming LL128 where links do not keep
that promise corrupts data, so it is no level here. Whether NCCL heard it is read from its own log. Not measured yet on
any machine: ranks on several GPUs have not been tried.

    NCCL_PROTO=Simple torchrun --nproc-per-node 8 train.py
"""

from harness.core.optimization import CUDA, LEVEL, Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="nccl_protocol",
    title="NCCL told how to hand over data",
    stage=Stage.RANKS,
    numerics=Numerics.CLOSE,
    sets={"nccl_protocol": LEVEL},
    proof={"nccl_protocol": LEVEL},
    levels=("Simple", "LL"),
    needs=(CUDA,),
    requires=("ranks",),
)
