"""Views: what the model sees of an image in training and in validation.

The crop is that of torchvision's RandomResizedCrop, drawn from a generator of our own, so that it depends on the item
alone and is the same for every decoder.
"""

import io
import math
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2.functional import (
    center_crop,
    horizontal_flip,
    normalize,
    pil_to_tensor,
    resize,
    resized_crop,
)

from workloads.imagenet.decoding import DECODERS, Decoded, Pixels, sides

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
AREA, ASPECT = (0.08, 1.0), (3 / 4, 4 / 3)
MIRRORED = 0.5  # share
ATTEMPTS = 10
SEED = 50_000
BILINEAR = InterpolationMode.BILINEAR


@dataclass(frozen=True, slots=True)
class Crop:
    """A part of an image, in its pixels."""

    left: int
    top: int
    width: int
    height: int


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """How encoded bytes become a tensor (3, px, px) in uint8."""

    px: int
    decoder: str
    draft: bool = False  # let the decoder of JPEG shrink what the crop does not need in full
    log: list[Decoded] | None = None

    def training(self, encoded: bytes, rng: np.random.Generator) -> Tensor:
        """A random part of the image, mirrored half of the time."""
        if self.draft:
            pixels, crop = self._drafted(encoded, rng)
        else:
            pixels = self._decoded(encoded)
            crop = draw_crop(*sides(pixels), rng)
        part = resized_crop(pixels, crop.top, crop.left, crop.height, crop.width, [self.px, self.px], BILINEAR)
        return _tensor(horizontal_flip(part) if rng.random() < MIRRORED else part)

    def validation(self, encoded: bytes) -> Tensor:
        """The middle of the image, its shorter side a little longer than the view: 256 for 224."""
        pixels = self._decoded(encoded)
        return _tensor(center_crop(resize(pixels, [self.px * 256 // 224], BILINEAR), [self.px]))

    def _decoded(self, encoded: bytes) -> Pixels:
        pixels, by = DECODERS[self.decoder](encoded)
        if self.log is not None:
            self.log.append(Decoded(by, 1.0))
        return pixels

    def _drafted(self, encoded: bytes, rng: np.random.Generator) -> tuple[Pixels, Crop]:
        image = Image.open(io.BytesIO(encoded))
        width, height = image.size
        crop = draw_crop(width, height, rng)
        shrink = min(crop.width, crop.height) // self.px
        if shrink > 1:  # libjpeg shrinks by 2, 4 or 8, and Pillow takes the most that leaves so many pixels
            image.draft(image.mode, (width // shrink, height // shrink))
        pixels = image.convert("RGB")
        if self.log is not None:
            self.log.append(Decoded("pillow", pixels.width * pixels.height / (width * height)))
        return pixels, _scaled(crop, pixels.width / width, pixels.height / height)


def generator(index: int) -> np.random.Generator:
    """What an item's crop and mirroring are drawn from."""
    return np.random.default_rng((SEED, index))


def draw_crop(width: int, height: int, rng: np.random.Generator) -> Crop:
    """A share of the area between 8 % and all, of an aspect between 3:4 and 4:3; the middle where none fits."""
    for _ in range(ATTEMPTS):
        area = width * height * rng.uniform(*AREA)
        aspect = math.exp(rng.uniform(math.log(ASPECT[0]), math.log(ASPECT[1])))
        across, down = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < across <= width and 0 < down <= height:
            top, left = rng.integers(height - down + 1), rng.integers(width - across + 1)
            return Crop(int(left), int(top), across, down)
    across = min(width, round(height * ASPECT[1]))
    down = min(height, round(width / ASPECT[0]))
    return Crop((width - across) // 2, (height - down) // 2, across, down)


def normalized(pixels: Tensor) -> Tensor:
    """Tensors (..., 3, height, width) in uint8 to float32, with the mean and deviation of ImageNet removed."""
    finished: Tensor = normalize(pixels.to(torch.float32).div(255), MEAN, DEVIATION)
    return finished


class Normalization:
    """The same on a device, where mean and deviation lie ready: torchvision would send them with every batch."""

    def __init__(self, device: torch.device) -> None:
        self.mean = torch.tensor(MEAN, device=device).view(3, 1, 1)
        self.deviation = torch.tensor(DEVIATION, device=device).view(3, 1, 1)

    def __call__(self, pixels: Tensor) -> Tensor:
        """Batches (B, 3, height, width) in uint8 to float32."""
        return pixels.to(torch.float32).div_(255).sub_(self.mean).div_(self.deviation)


def _tensor(pixels: Pixels) -> Tensor:
    found: Tensor = pixels if isinstance(pixels, Tensor) else pil_to_tensor(pixels)
    return found.contiguous()  # as ToTensor lays it out, whoever decoded


def _scaled(crop: Crop, across: float, down: float) -> Crop:
    return Crop(
        round(crop.left * across),
        round(crop.top * down),
        max(1, int(crop.width * across)),
        max(1, int(crop.height * down)),
    )
