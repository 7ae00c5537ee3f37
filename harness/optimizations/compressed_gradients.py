"""Gradients travel between the ranks as 16-bit numbers: a communication hook of DDP.

Halves the bytes on the wire. Pays where the link is the bottleneck; costs two conversions. `bfloat16` keeps the range
of float32, `float16` overflows beyond 65,504. Seen by the type of the tensors that are reduced.

    model.register_comm_hook(None, default_hooks.bf16_compress_hook)
"""

from harness.core.optimization import LEVEL, Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="compressed_gradients",
    title="Gradients sent as 16-bit numbers",
    stage=Stage.RANKS,
    numerics=Numerics.CLOSE,
    sets={"communication_hook": LEVEL},
    proof={"communication_hook": LEVEL},
    levels=("bfloat16", "float16"),
    requires=("ranks",),
)
