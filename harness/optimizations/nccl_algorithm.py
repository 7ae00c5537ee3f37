"""Tells NCCL how gradients travel: in a ring of all GPUs, or up and down a tree of them.

A ring moves the fewest bytes over each link and takes a step for every GPU, so it wins for large buckets on few GPUs. A
tree takes as many steps as the logarithm of their number and wins for small buckets on many. NCCL weighs both for each
size, from what it knows of the links; naming one is worth a try where its model is wrong. Whether NCCL heard it is read
from its own log. Not measured yet on any machine: ranks on several GPUs have not been tried.

    NCCL_ALGO=Tree torchrun --nproc-per-node 8 train.py
"""

from harness.core.optimization import CUDA, LEVEL, Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="nccl_algorithm",
    title="NCCL told which way gradients travel",
    stage=Stage.RANKS,
    numerics=Numerics.CLOSE,
    sets={"nccl_algorithm": LEVEL},
    proof={"nccl_algorithm": LEVEL},
    levels=("Tree", "Ring"),
    needs=(CUDA,),
    requires=("ranks",),
)
