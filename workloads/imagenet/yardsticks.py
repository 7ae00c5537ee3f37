"""What a JPEG of ImageNet weighs and costs, against which ours are held."""

import io
from collections.abc import Callable, Iterable
from itertools import cycle, islice
from pathlib import Path
from statistics import mean

import numpy as np
from PIL import Image

from harness.core.workload import Size, Yardstick
from workloads.imagenet.data import FULL_PX
from workloads.imagenet.layout import TRAIN, chosen_files
from workloads.imagenet.storage import Files
from workloads.imagenet.views import View, generator, normalized

REAL_BYTES = 111_000  # the real subset has 107,000, the whole training set about 115,000
SAMPLED = 200
NEUTRAL_SIDES, NEUTRAL_QUALITY = (500, 375), 92
NEUTRALS = 4


def yardsticks(folder: Path, _size: Size) -> Iterable[Yardstick]:
    """A sample as the real system makes it, and by the best path of a CPU; both at 224 px whatever the size."""
    source = Files(folder)
    chosen = chosen_files(TRAIN, source.names(TRAIN))
    ours = [source.read(one.path) for one in islice(chosen, 0, None, max(1, len(chosen) // SAMPLED))]
    neutral = [_neutral(number) for number in range(NEUTRALS)]
    ways = (
        ("a JPEG to a float32 sample, by Pillow as found", View(px=FULL_PX, decoder="pillow"), True, 3.1),
        ("a JPEG to a uint8 sample, by torchvision", View(px=FULL_PX, decoder="torchvision"), False, 1.7),
    )
    for what, view, finished, published_ms in ways:
        yield Yardstick(
            what=what,
            mean_bytes=mean(map(len, ours)),
            target_bytes=REAL_BYTES,
            work=_sampling(view, ours, finished=finished),
            like=_sampling(view, neutral, finished=finished),
            published_ms=published_ms,
        )


def _sampling(view: View, files: list[bytes], *, finished: bool) -> Callable[[], object]:
    """Makes a sample of the next file with each call, every crop another."""
    turns = enumerate(cycle(files))

    def sample() -> object:
        number, encoded = next(turns)
        pixels = view.training(encoded, generator(number))
        return normalized(pixels) if finished else pixels

    return sample


def _neutral(seed: int) -> bytes:
    """A JPEG of nothing but noise whose amplitude falls with the frequency, as that of photographs does."""
    rng = np.random.default_rng(seed)
    width, height = NEUTRAL_SIDES
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width))
    frequency[0, 0] = np.inf
    planes = []
    for slope, deviation in ((1.1, 48), (1.5, 14), (1.5, 14)):
        spectrum = np.fft.rfft2(rng.standard_normal((height, width))) / frequency**slope
        plane = np.fft.irfft2(spectrum, s=(height, width))
        planes.append(128 + deviation * plane / plane.std())
    image = Image.fromarray(np.stack(planes, axis=2).clip(0, 255).astype(np.uint8), mode="YCbCr")
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=NEUTRAL_QUALITY, subsampling="4:2:0")
    return buffer.getvalue()
