"""Let the device's memory grow in segments that can be extended, instead of in blocks of fixed size.

PyTorch keeps the memory that it got from CUDA and hands it out in pieces. Where sizes change from step to step, the
pieces left over fit nothing: memory runs out while much of it is free. An expandable segment is a range of addresses
to which physical pages are added as it grows, so neighbouring pieces join again. It pays in memory, and so in the
largest batch that fits, where shapes vary. With constant shapes there is little to gain, and speed hardly changes.
Older PyTorch cannot hand such memory to another process. Today's can, on Linux 5.6 or newer, which lends the file
descriptors of one process to another. The variable is read once, before CUDA is first used.

    PYTORCH_ALLOC_CONF=expandable_segments:True python train.py  # PYTORCH_CUDA_ALLOC_CONF before torch 2.9
"""

from harness.core.optimization import CUDA, Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="expandable_segments",
    title="Device memory in expandable segments",
    stage=Stage.LAUNCH,
    numerics=Numerics.EXACT,
    sets={"expandable_segments": True},
    proof={"expandable_segments": True},
    needs=(CUDA,),
)
