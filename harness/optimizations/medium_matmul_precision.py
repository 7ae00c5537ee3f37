"""Medium precision for matrix products: float32 products may be computed in bfloat16 inside.

`medium` allows the shortest numbers that a device has for float32 products. CPUs with matrix units for bfloat16 (AMX)
use them; on CUDA it is the same as `high`, TensorFloat-32. Pays where linear layers are a large part of float32
training. A processor without such units keeps float32, even one with bfloat16 instructions (AVX-512); under autocast
the products are short already. With seven bits of mantissa the losses move in the third digit.

    torch.set_float32_matmul_precision("medium")
"""

from harness.core.optimization import FAST_BFLOAT16, Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="medium_matmul_precision",
    title="Shortest float32 matrix products",
    stage=Stage.DEVICE,
    numerics=Numerics.CLOSE,
    sets={"matmul_precision": "medium"},
    proof={"reduced_products": True},
    alone_on=Timing.COMPUTE,
    pointless_where={
        "bfloat16_layers True": "autocast has taken the products to 16 bits",
        "float16_layers True": "autocast has taken the products to 16 bits",
    },
    needs=(FAST_BFLOAT16,),
    sought=False,  # on a GPU it is tf32_matmul once more
)
