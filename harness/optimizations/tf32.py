"""TensorFloat-32: float32 products and convolutions with a ten-bit mantissa on the tensor cores.

A large gain for float32 training on Ampere and later; nothing once autocast has taken the products to 16 bits. In
PyTorch it is on by default for convolutions and off for matrix products, so a baseline called float32 often is not.

    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
"""

from harness.core.need import CUDA
from harness.core.optimization import Claim, Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="tf32",
    title="TensorFloat-32 products and convolutions",
    stage=Stage.DEVICE,
    numerics=Numerics.CLOSE,
    sets={"tf32": True},
    proof={"tf32": True},
    needs=(CUDA,),
    claims=(
        Claim(
            name="imagenet tf32",
            metric="throughput",
            gain=(1.05, 1.15),
            where="imagenet, as other pages of the same repository say",
            source="PERFORMANCE_ANALYSIS of an ImageNet trainer (cydal/ImageNet-Full-training)",
        ),
    ),
)
