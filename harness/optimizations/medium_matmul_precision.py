"""Medium precision for matrix products: float32 products may be computed in bfloat16 inside.

`medium` allows the shortest numbers that a device has for float32 products. CPUs with matrix units for bfloat16 (AMX)
use them; on CUDA it is the same as `high`, TensorFloat-32. Pays where linear layers are a large part of float32
training. A processor without such units keeps float32, even one with bfloat16 instructions (AVX-512); under autocast
the products are short already. With seven bits of mantissa the losses move in the third digit.

    torch.set_float32_matmul_precision("medium")
"""

from harness.core.environment import MATRIX_UNITS, Environment
from harness.core.optimization import CUDA, Need, Numerics, Optimization, Stage


def _may_have_units(environment: Environment) -> bool:
    """Where no flags were recorded the name decides: no AMD has had such units, and of others it is unknown."""
    if environment.cpu_flags is None:
        return "AMD" not in environment.cpu
    return not set(MATRIX_UNITS).isdisjoint(environment.cpu_flags)


SHORT_PRODUCTS = Need(
    missing="needs a GPU, or a CPU with matrix units for bfloat16",
    met=lambda environment, workload: CUDA.met(environment, workload) or _may_have_units(environment),
)

OPTIMIZATION = Optimization(
    name="medium_matmul_precision",
    title="Shortest float32 matrix products",
    stage=Stage.DEVICE,
    numerics=Numerics.CLOSE,
    sets={"matmul_precision": "medium"},
    proof={"reduced_products": True},
    pointless_where={
        "bfloat16_layers True": "autocast has taken the products to 16 bits",
        "float16_layers True": "autocast has taken the products to 16 bits",
    },
    needs=(SHORT_PRODUCTS,),
    sought=False,  # on a GPU it is tf32_matmul once more
)
