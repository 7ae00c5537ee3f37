"""Augmentation where the batch is trained on: one resampling by `grid_sample`, and grey levels in place.

The same operations and ranges as on the host, except that patches keep their size and blur has one width. Every sample
draws from a generator of its own seed, so that it does not matter which others share its batch; devices draw
differently.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from harness.core.recipe import Recipe
from harness.core.workload import Size
from workloads.patches3d.augmentation import DEGREES, ELASTIC_VOXELS, STRETCH, ZOOM

PLANES = ((0, 1), (0, 2), (1, 2))  # of the rotation
NODE_VOXELS = 16  # between the nodes of the displacement, which are joined linearly


@dataclass(frozen=True, slots=True)
class Chance:
    """Random numbers of one sample, where its patch lies."""

    generator: torch.Generator
    device: torch.device

    def between(self, low: float, high: float, *shape: int) -> Tensor:
        """Uniform numbers."""
        return low + (high - low) * torch.rand(shape, generator=self.generator, device=self.device)

    def normal(self, *shape: int) -> Tensor:
        """Gaussian numbers of deviation one."""
        return torch.randn(shape, generator=self.generator, device=self.device)


def device_stage(
    _folder: Path, _size: Size, recipe: Recipe, _device: torch.device
) -> Callable[[tuple[Tensor, Tensor, Tensor]], tuple[Tensor, Tensor]] | None:
    """Augmentation on the device if the recipe asks for it; None where the loader's batches are complete."""
    return Augmentation() if recipe.choice("resampling") == "on_device" else None


class Augmentation:
    """The augmentation of a batch on the device, by seeds that the host reads."""

    on_host = (2,)  # the seeds

    def __call__(self, batch: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Augmented patches and targets."""
        return augmented(batch)


def augmented(batch: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Patches and targets (batch, 1, depth, height, width) and seeds (batch,) to augmented patches and targets.

    The seeds lie on the host: to ask a device for them would wait for all that it has still to do.
    """
    pairs = [_pair(image, target, seed) for image, target, seed in zip(*batch[:2], batch[2].tolist(), strict=True)]
    images, targets = zip(*pairs, strict=True)
    return torch.stack(images), torch.stack(targets)


def _pair(image: Tensor, target: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    chance = Chance(torch.Generator(image.device).manual_seed(seed), image.device)
    # The seed is on the host already; a plane drawn on the device would have to be waited for.
    grid = _grid(tuple(image.shape[1:]), chance, PLANES[seed % len(PLANES)])
    moved = functional.grid_sample(image[None], grid, mode="bilinear", align_corners=True)[0]
    surface = functional.grid_sample(target[None], grid, mode="nearest", align_corners=True)[0]
    return _recoloured(moved, chance), surface


def _grid(shape: tuple[int, ...], chance: Chance, plane: tuple[int, int]) -> Tensor:
    """Where each voxel comes from (1, depth, height, width, 3), in the axis order and units of `grid_sample`."""
    # Filled there: numbers sent from the host would wait for all that the device has still to do.
    sides = torch.stack([torch.full((), side - 1, device=chance.device) for side in reversed(shape)])
    # A rotation turns voxels, and not shares of sides that differ in length.
    matrix = _linear(chance, plane) * (sides[None, :] / sides[:, None])
    affine = torch.cat((matrix, torch.zeros(3, 1, device=chance.device)), 1)
    grid = functional.affine_grid(affine[None], [1, 1, *shape], align_corners=True)
    nodes = chance.normal(1, 3, *(math.ceil(side / NODE_VOXELS) + 1 for side in shape)) * ELASTIC_VOXELS
    field = functional.interpolate(nodes, shape, mode="trilinear", align_corners=True)
    return grid + field.permute(0, 2, 3, 4, 1) * 2 / sides


def _linear(chance: Chance, plane: tuple[int, int]) -> Tensor:
    """Flips, a rotation in one plane and a scale of each axis, (3, 3)."""
    first, second = plane
    turn = torch.deg2rad(chance.between(-DEGREES, DEGREES))
    rotation = torch.eye(3, device=chance.device)
    rotation[first, first] = rotation[second, second] = turn.cos()
    rotation[first, second], rotation[second, first] = turn.sin(), -turn.sin()
    flips = torch.where(chance.between(0, 1, 3) < 0.5, -1.0, 1.0)
    return flips[:, None] * rotation / (chance.between(*ZOOM) * chance.between(*STRETCH, 3))


def _recoloured(image: Tensor, chance: Chance) -> Tensor:
    """Jitter, dropout, gamma, gamma noise, Gaussian noise and blur."""
    shape = image.shape
    image = image * chance.between(0.9, 1.1) + chance.between(-0.1, 0.1)
    image = torch.where(chance.between(0, 1, *shape) < 0.02, 0.0, image)
    low, reach = image.amin(), (image.amax() - image.amin()).clamp(min=1e-6)
    image = ((image - low) / reach) ** chance.between(0.7, 1.5) * reach + low
    image = image * (1 + 0.1 * chance.normal(*shape))  # gamma noise of shape 100 is as good as normal
    image = image + chance.between(0, 0.1) * chance.normal(*shape)
    mixed = chance.between(0, 0.5)
    return (1 - mixed) * image + mixed * functional.avg_pool3d(image[None], 3, 1, 1, count_include_pad=False)[0]
