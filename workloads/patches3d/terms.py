"""The terms of this system's loss: each a function of probabilities and targets (batch, 1, depth, height, width)."""

import numpy as np
import torch
from scipy.ndimage import distance_transform_edt
from torch import Tensor
from torch.nn import functional

SKELETON_ROUNDS = 3
TOLERANCE = 2.0  # voxels within which a wrong place costs nothing
FARTHEST = 10.0  # voxels; a place farther off costs no more


def dice(probabilities: Tensor, targets: Tensor) -> Tensor:
    """One minus the soft Dice coefficient of each sample (V-Net, arXiv 1606.04797), averaged."""
    axes = tuple(range(1, targets.dim()))
    both = (probabilities * targets).sum(axes)
    return 1 - ((2 * both + 1) / (probabilities.sum(axes) + targets.sum(axes) + 1)).mean()


def skeleton(mask: Tensor) -> Tensor:
    """The soft skeleton of clDice (arXiv 2003.07311): what opening takes away, over erosions of the mask."""
    thin = functional.relu(mask - _opened(mask))
    for _ in range(SKELETON_ROUNDS):
        mask = _eroded(mask)
        ridge = functional.relu(mask - _opened(mask))
        thin = thin + functional.relu(ridge - thin * ridge)
    return thin


def centre_dice(probabilities: Tensor, targets: Tensor, thin: Tensor, true_thin: Tensor) -> Tensor:
    """One minus clDice: how much of either skeleton lies in the other's mask (arXiv 2003.07311)."""
    precision = ((thin * targets).sum() + 1) / (thin.sum() + 1)
    recall = ((true_thin * probabilities).sum() + 1) / (true_thin.sum() + 1)
    return 1 - 2 * precision * recall / (precision + recall)


def surface_distance(probabilities: Tensor, targets: Tensor, to_target: Tensor, to_prediction: Tensor) -> Tensor:
    """Mass far from the true surface and surface far from the mass, beyond the tolerance.

    A distance-weighted error in the manner of Karimi and Salcudean (arXiv 1904.10030); the distances, in voxels, carry
    no gradient.
    """
    astray = probabilities * (1 - targets) * _beyond(to_target)
    missed = targets * (1 - probabilities) * _beyond(to_prediction)
    return (astray + missed).mean()


def topology(probabilities: Tensor, targets: Tensor) -> Tensor:
    """Relative difference of the soft Euler characteristics, from 0 to 1.

    The characteristic of a cubical complex counts voxels minus adjacent pairs plus squares of four minus cubes of
    eight; a pair is as much there as the weaker of its two (Kong and Rosenfeld, 1989, with minima for products).
    """
    ours, true = euler_characteristic(probabilities), euler_characteristic(targets)
    return ((ours - true).abs() / (ours.abs() + true.abs() + 1)).mean()


def euler_characteristic(mask: Tensor) -> Tensor:
    """Of each sample (batch,): pieces minus tunnels plus cavities where the mask is zeros and ones."""
    total = mask.new_zeros(len(mask))
    for window in np.ndindex(2, 2, 2):
        size = tuple(side + 1 for side in window)
        total = total + (-1) ** sum(window) * _minimum(mask, size).sum((1, 2, 3, 4))
    return total


def distance(mask: Tensor) -> Tensor:
    """Voxels from everywhere to the mask of each sample, zero where it is empty; worked out on the host by scipy."""
    arrays = mask.detach().cpu().numpy()
    distances = [distance_transform_edt(one == 0) if one.any() else np.zeros(one.shape) for one in arrays > 0.5]
    return torch.from_numpy(np.stack(distances).astype(np.float32)).to(mask.device)


def _beyond(distances: Tensor) -> Tensor:
    return (distances - TOLERANCE).clamp(0, FARTHEST) / FARTHEST


def _eroded(mask: Tensor) -> Tensor:
    flat = -functional.max_pool3d(-mask, (1, 3, 3), 1, (0, 1, 1))
    deep = -functional.max_pool3d(-mask, (3, 1, 1), 1, (1, 0, 0))
    return torch.min(flat, deep)


def _opened(mask: Tensor) -> Tensor:
    return functional.max_pool3d(_eroded(mask), 3, 1, 1)


def _minimum(mask: Tensor, window: tuple[int, ...]) -> Tensor:
    return -functional.max_pool3d(-mask, window, 1)
