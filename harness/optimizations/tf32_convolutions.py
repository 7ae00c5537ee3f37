"""TensorFloat-32 for convolutions: float32 convolutions with a ten-bit mantissa on the tensor cores.

A large gain for float32 convolutional training on Ampere and later; nothing once autocast has taken the convolutions to
16 bits. In PyTorch it is on by default, so a baseline called float32 often is not; our baseline reference has it off.

    torch.backends.cudnn.allow_tf32 = True
"""

from harness.core.optimization import AMPERE, ANY_CONVOLUTIONS, Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="tf32_convolutions",
    title="TensorFloat-32 convolutions",
    stage=Stage.DEVICE,
    numerics=Numerics.CLOSE,
    sets={"tf32_convolutions": True},
    proof={"reduced_convolutions": True},
    alone_on=Timing.COMPUTE,
    needs=(AMPERE, ANY_CONVOLUTIONS),
    pointless_where={
        "bfloat16_layers True": "autocast has taken the convolutions to 16 bits",
        "float16_layers True": "autocast has taken the convolutions to 16 bits",
    },
)
