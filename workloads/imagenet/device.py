"""What is left to do with a batch once it lies on the device."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from harness.core.recipe import Recipe
from harness.core.workload import Size
from workloads.imagenet.data import shown_px
from workloads.imagenet.device_decoding import DeviceDecoding
from workloads.imagenet.views import Normalization


@dataclass(frozen=True, slots=True)
class DeviceNormalization:
    """Makes float32 inputs of a batch that came over in uint8."""

    normalization: Normalization

    def __call__(self, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Inputs (B, 3, px, px) in float32 and targets (B,); the batch stays as it is."""
        pixels, labels = batch
        return self.normalization(pixels), labels


def device_stage(
    _folder: Path, size: Size, recipe: Recipe, device: torch.device
) -> Callable[[Any], tuple[Tensor, Tensor]] | None:
    """Decoding, or normalization, or nothing, as the recipe says."""
    if recipe.choice("decoder") == "nvjpeg":
        return DeviceDecoding(shown_px(size, recipe.choice("image_size")), device, Normalization(device))
    if recipe.choice("batch_dtype") == "uint8":
        return DeviceNormalization(Normalization(device))
    return None
