"""What the device makes of float32: how far its products and convolutions lie from float64's."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import conv2d

from harness.core.recipe import Value

# The relative error tells the mantissa: about 2e-7 with float32's 23 bits, 3e-4 with TensorFloat-32's ten, 2e-3 with
# bfloat16's seven. Sums of several short numbers stand for longer mantissas and come close to float32's.
SHORTENED = 2e-5
# Samples, channels and pixels of a side. For a small convolution cuDNN may choose kernels without tensor cores, which
# says nothing of those of a model; a CPU has no such choice, and less time.
CONVOLVED = {"cpu": (4, 64, 16), "cuda": (32, 128, 32)}


def of_precision(device: torch.device) -> dict[str, Value]:
    """Whether float32 products and convolutions keep their mantissa now, and the errors that say so."""
    numbers = torch.Generator().manual_seed(0)  # of its own, so that the model's draws stay what they are

    def drawn(*shape: int) -> Tensor:
        return torch.randn(shape, generator=numbers).to(device)

    product = relative_error(torch.mm, drawn(256, 256), drawn(256, 256))
    # Channels by the eight, for tensor cores; a stride of two, because Winograd's algorithm has an error of its own.
    samples, channels, side = CONVOLVED[device.type]
    image, kernel = drawn(samples, channels, side, side), drawn(channels, channels, 3, 3)
    convolution = relative_error(lambda x, y: conv2d(x, y, stride=2), image, kernel)
    return {
        "reduced_products": product > SHORTENED,
        "reduced_convolutions": convolution > SHORTENED,
        "product_error": product,
        "convolution_error": convolution,
    }


def relative_error(operation: Callable[[Tensor, Tensor], Tensor], one: Tensor, other: Tensor) -> float:
    """The distance of a float32 result from that of float64, as a share of the result's norm."""
    exact = operation(one.double(), other.double())
    return float((operation(one, other).double() - exact).norm() / exact.norm())
