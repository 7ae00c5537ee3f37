"""Float32 is seen to be shortened where it is, whatever the options say."""

import pytest
import torch
from torch import Tensor

from harness.core.configuration import inactive
from harness.measure import observed_step as precision
from harness.measure.cuda import Cuda
from harness.measure.devices import Device
from harness.measure.observed_step import of_precision, relative_error

CPU = Device("cpu")
PROOF = {"reduced_products": True, "reduced_convolutions": True}


def cut_to(bits: int, numbers: Tensor) -> Tensor:
    """Float32 numbers rounded to so many bits of mantissa, as tensor cores take them in."""
    dropped = 23 - bits
    return ((numbers.view(torch.int32) + (1 << (dropped - 1))) >> dropped << dropped).view(torch.float32)


def shortened(bits: int, one: Tensor, other: Tensor) -> Tensor:
    """A product whose factors lose their last bits on the way in, if they are float32."""
    if one.dtype == torch.float64:
        return one @ other
    return cut_to(bits, one) @ cut_to(bits, other)


@pytest.mark.parametrize(("bits", "seen"), [(7, True), (10, True), (23 - 1, False)])
def test_a_short_mantissa_is_told_from_a_long_one(bits: int, seen: bool) -> None:
    numbers = torch.Generator().manual_seed(0)
    one, other = (torch.randn(64, 64, generator=numbers) for _ in range(2))
    error = relative_error(lambda x, y: shortened(bits, x, y), one, other)
    assert (error > precision.SHORTENED) is seen


def test_neither_kind_is_near_the_line() -> None:
    numbers = torch.Generator().manual_seed(0)
    one, other = (torch.randn(256, 256, generator=numbers) for _ in range(2))
    assert relative_error(lambda x, y: shortened(10, x, y), one, other) > 10 * precision.SHORTENED
    shown = of_precision(CPU)
    assert 0 < shown["product_error"] < precision.SHORTENED / 10
    assert 0 < shown["convolution_error"] < precision.SHORTENED / 10


def test_a_switch_that_reaches_no_product_is_not_engaged() -> None:
    torch.backends.cudnn.allow_tf32 = True  # read back it would say yes; on a CPU it reaches nothing
    try:
        found = inactive(PROOF, of_precision(CPU))
    finally:
        torch.backends.cudnn.allow_tf32 = False
    assert found == ("reduced_products is False, not True", "reduced_convolutions is False, not True")


def test_a_device_that_shortens_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    full, convolution = torch.mm, precision.conv2d
    monkeypatch.setattr(torch, "mm", lambda one, other: full(cut(one), cut(other)))
    monkeypatch.setattr(precision, "conv2d", lambda x, y, stride: convolution(cut(x), cut(y), stride=stride))
    assert inactive(PROOF, of_precision(CPU)) == ()


def test_a_device_that_shortens_large_convolutions_alone_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """As cuDNN may: it has kernels without tensor cores, and chooses by the shape."""
    convolution = precision.conv2d

    def chosen(x: Tensor, y: Tensor, stride: int) -> Tensor:
        large = len(x) * (x.shape[-1] // stride) ** 2 >= 8192  # outputs of a channel: a tile for each multiprocessor
        return convolution(cut(x), cut(y), stride=stride) if large else convolution(x, y, stride=stride)

    monkeypatch.setattr(precision, "conv2d", chosen)
    assert of_precision(Cuda("cpu"))["reduced_convolutions"] is True


def cut(numbers: Tensor) -> Tensor:
    return numbers if numbers.dtype == torch.float64 else cut_to(10, numbers)


def test_looking_moves_no_random_number() -> None:
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    of_precision(CPU)
    assert torch.equal(torch.random.get_rng_state(), before)
