"""What happens to a batch on the device: segments picked from the whole set that lies there, and masks."""

from pathlib import Path

import torch
from torch import Tensor

from harness.core.recipe import Recipe
from harness.core.workload import Size
from workloads.leak.augmentation import hide_all
from workloads.leak.layouts import training_file
from workloads.leak.readers import load


class Gather:
    """Numbers of segments (B,) to inputs (B, 1, mels, frames) in float32 and class numbers (B,)."""

    def __init__(self, mel: Tensor, labels: Tensor) -> None:
        self.mel = mel  # (segments, 1, mels, frames) in float16, on the device
        self.labels = labels  # (files,) in int64, on the device
        self.file_segments = len(mel) // len(labels)

    def __call__(self, batch: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """One gather for the segments and one for their labels."""
        (numbers,) = batch
        return self.mel.index_select(0, numbers).float(), self.labels.index_select(0, numbers // self.file_segments)


class Masks:
    """A batch that ends with its numbers to inputs with masks and class numbers."""

    def __init__(self, gather: Gather | None) -> None:
        self.gather = gather  # None where the loader brings the segments

    def __call__(self, batch: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """All masks of the batch at once."""
        inputs, targets = self.gather(batch) if self.gather else batch[:2]
        return hide_all(inputs, batch[-1]), targets


def device_stage(folder: Path, _size: Size, recipe: Recipe, device: torch.device) -> Gather | Masks | None:
    """What the recipe leaves to the device, or None."""
    gather = None
    if recipe.choice("data_on_device"):
        arrays = load(training_file(folder, str(recipe.choice("hdf5_layout"))))
        labels = torch.from_numpy(arrays.labels).to(device, torch.int64)
        gather = Gather(torch.from_numpy(arrays.mel).to(device), labels)
    return Masks(gather) if recipe.choice("spec_augment") == "on_device" else gather
