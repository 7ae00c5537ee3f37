"""The terms of this system's loss: each a function of probabilities and targets (batch, 1, depth, height, width)."""

import numpy as np
import torch
from scipy.ndimage import distance_transform_edt
from torch import Tensor
from torch.nn import functional

SKELETON_ROUNDS = 3
TOLERANCE = 2.0  # voxels; a place farther off costs no more
COARSE_WINDOW = 5  # voxels a side, in which topology looks for pieces and holes
HOLE = 0.2  # below which a hole counts
SMALL = 1e-6


def dice(probabilities: Tensor, targets: Tensor) -> Tensor:
    """One minus the soft Dice coefficient of each sample (V-Net, arXiv 1606.04797), averaged."""
    axes = tuple(range(1, targets.dim()))
    both = (probabilities * targets).sum(axes)
    return 1 - ((2 * both + 1) / (probabilities.sum(axes) + targets.sum(axes) + 1)).mean()


def skeleton(mask: Tensor) -> Tensor:
    """The soft skeleton of clDice (arXiv 2003.07311): what opening takes away, over erosions of the mask."""
    mask = mask.clamp(0, 1)
    thin = torch.zeros_like(mask)
    for _ in range(SKELETON_ROUNDS):
        ridge = functional.relu(mask - _dilated(_eroded(mask)))
        thin = thin + functional.relu(ridge - thin)
        mask = _eroded(mask)  # once more, as found
    return thin.clamp(0, 1)


def centre_dice(probabilities: Tensor, targets: Tensor) -> Tensor:
    """One minus clDice: how much of either skeleton lies in the other's mask (arXiv 2003.07311)."""
    thin, true_thin = skeleton(probabilities), skeleton(targets)
    precision = ((thin * targets).sum() + 1) / (thin.sum() + 1)
    recall = ((true_thin * probabilities).sum() + 1) / (true_thin.sum() + 1)
    return 1 - 2 * precision * recall / (precision + recall + SMALL)


def skeleton_difference(probabilities: Tensor, targets: Tensor) -> Tensor:
    """The mean difference of the skeletons, which are worked out anew, as found."""
    return functional.l1_loss(skeleton(probabilities), skeleton(targets))


def surface_distance(probabilities: Tensor, targets: Tensor, to_target: Tensor, to_prediction: Tensor) -> Tensor:
    """Where the surface is far and nothing is predicted, and surface far from what is predicted.

    As found: the first part rewards a surface where there is none. The distances, in voxels, carry no gradient.
    """
    away = (to_target / TOLERANCE).clamp(max=1) * (1 - probabilities)
    missed = (to_prediction / TOLERANCE).clamp(max=1) * targets
    return away.mean() + missed.mean()


def edges(probabilities: Tensor, targets: Tensor) -> Tensor:
    """The mean difference of the edges: what stands for the distance in calls that measure none."""
    return functional.l1_loss(_edge(probabilities), _edge(targets))


def topology(probabilities: Tensor, targets: Tensor) -> Tensor:
    """The mean difference of what an erosion leaves, and of the holes that a dilation of the background leaves."""
    pieces = functional.l1_loss(_eroded(probabilities, COARSE_WINDOW), _eroded(targets, COARSE_WINDOW))
    return pieces + (_holes(probabilities) - _holes(targets)).abs()


def distance(mask: Tensor) -> Tensor:
    """Voxels from everywhere to the mask of each sample, zero where it is empty; worked out on the host by scipy."""
    arrays = mask.detach().cpu().numpy()
    distances = [distance_transform_edt(one == 0) if one.any() else np.zeros(one.shape) for one in arrays > 0.5]
    return torch.from_numpy(np.stack(distances).astype(np.float32)).to(mask.device)


def _holes(mask: Tensor) -> Tensor:
    return functional.relu(HOLE - (1 - _dilated(1 - mask, COARSE_WINDOW))).mean()


def _edge(mask: Tensor) -> Tensor:
    padded = functional.pad(mask, (1,) * 6)  # by itself: the pool refuses coarse masks that are smaller than its window
    return (mask - functional.avg_pool3d(padded, 3, 1)).abs()


def _eroded(mask: Tensor, window: int = 3) -> Tensor:
    return -functional.max_pool3d(-mask, window, 1, window // 2)


def _dilated(mask: Tensor, window: int = 3) -> Tensor:
    return functional.max_pool3d(mask, window, 1, window // 2)
