"""TensorFloat-32 for matrix products: float32 products with a ten-bit mantissa on the tensor cores.

A large gain for the linear layers of float32 training on Ampere and later; nothing once autocast has taken the products
to 16 bits, and nothing for convolutions, which have an option of their own. In PyTorch it is off by default.

    torch.set_float32_matmul_precision("high")
"""

from harness.core.optimization import AMPERE, Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="tf32_matmul",
    title="TensorFloat-32 matrix products",
    stage=Stage.DEVICE,
    numerics=Numerics.CLOSE,
    sets={"matmul_precision": "high"},
    proof={"reduced_products": True},
    alone_on=Timing.COMPUTE,
    needs=(AMPERE,),
    pointless_where={
        "bfloat16_layers True": "autocast has taken the products to 16 bits",
        "float16_layers True": "autocast has taken the products to 16 bits",
    },
)
