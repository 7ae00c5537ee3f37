"""The Dice coefficient, the field's measure of how well two masks agree."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


def dice(found: npt.NDArray[np.bool_], true: npt.NDArray[np.bool_]) -> float:
    """Twice the common voxels over the voxels of both; one where both are empty."""
    total = int(found.sum()) + int(true.sum())
    return 2 * int((found & true).sum()) / total if total else 1.0


def intersection_over_union(dice_coefficient: float) -> float:
    """The common voxels over the voxels of either mask, of two masks with that Dice coefficient (Jaccard's index)."""
    return dice_coefficient / (2 - dice_coefficient)


def dice_of_each(found: Tensor, true: Tensor) -> Tensor:
    """The same for masks (batch, ...) on any device, as float64 (batch,)."""
    found, true = found.flatten(1), true.flatten(1)
    total = (found.sum(1) + true.sum(1)).double()
    return torch.where(total > 0, 2 * (found & true).sum(1) / total, 1.0)
