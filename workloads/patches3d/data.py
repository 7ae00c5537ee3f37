"""Training items: a random patch of a random volume, augmented; every one a function of its index alone."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from harness.core.mistake import Mistake
from harness.core.recipe import Recipe
from harness.core.workload import Size
from workloads.patches3d import augmentation, layout, terms
from workloads.patches3d.augmentation import Geometry, Resample, Resamplings
from workloads.patches3d.cache import VolumeCache
from workloads.patches3d.preparation import STATISTICS, Box, Shape, loader
from workloads.patches3d.synthesis import Bytes, Floats

SEED = 806
TRIES = 8
WANTS_SURFACE = 0.65  # of the patches
ACCEPTS_ANY = 0.95  # of those without surface, which makes the wish nearly void: as found
CACHED, OF_VOLUMES = 50, 806  # what the real system keeps

Item = tuple[Tensor, ...]


@dataclass(frozen=True)
class Patches(Dataset[Item]):
    """Tuples of a patch and its labels, float32 (1, depth, height, width), perhaps the distance as a second label.

    Without a way of resampling they are as they lie in the volume, and a seed follows: augmentation comes later.
    """

    items: int
    patch: Shape
    usual: Shape  # of a patch of this size where the recipe asks for no other
    identifiers: tuple[str, ...]
    volumes: VolumeCache
    resample: Resample | None
    fixed: bool
    with_distance: bool
    resamplings: Resamplings

    def __len__(self) -> int:
        return self.items

    def __getitem__(self, index: int) -> Item:
        """The item, a function of its index alone."""
        if not 0 <= index < self.items:
            raise IndexError(index)
        rng = np.random.default_rng((SEED, index))
        volume = self.volumes[self.identifiers[rng.integers(len(self.identifiers))]]
        box = _chosen(volume.label, self.patch, rng)
        image, label = volume.patch(box), volume.label[box]
        if self.resample is None:
            whole = fitted(image, self.patch), fitted(label, self.patch)
            return *_tensors(*whole), torch.tensor(rng.integers(1 << 62))
        return self._augmented(image, label, rng)

    def _augmented(self, image: Floats, label: Bytes, rng: np.random.Generator) -> Item:
        assert self.resample is not None  # noqa: S101  for the type checker
        geometry = augmentation.drawn(rng)
        image, label = self.resample(fitted(image, self.patch), fitted(label, self.patch), geometry, self.resamplings)
        image = augmentation.recoloured(image, rng)
        if self.fixed:
            image, label = fitted(image, self.patch), fitted(label, self.patch)
        patch, target = _tensors(image, label)
        if self.with_distance:
            target = torch.cat((target, terms.distance(target)))
        return patch, target


def dataset(folder: Path, size: Size, recipe: Recipe) -> Patches:
    """The training items of one timed epoch, made as the recipe says; raises Mistake where files are missing."""
    identifiers = layout.split(layout.read_identifiers(folder)).training
    resampling = recipe.choice("resampling")
    ways = {"four": augmentation.one_after_another, "once": augmentation.all_at_once, "on_device": None}
    return Patches(
        items=size.samples,
        patch=trained_shape(size, recipe),
        usual=patch_shape(size),
        identifiers=identifiers,
        volumes=volumes(folder, len(identifiers), recipe),
        resample=ways[str(resampling)],
        fixed=recipe.choice("patch_shape") == "fixed",
        with_distance=recipe.choice("target_distance") == "loader",
        resamplings=Resamplings(),
    )


def volumes(folder: Path, count: int, recipe: Recipe) -> VolumeCache:
    """The cache of so many volumes that are prepared as the recipe says."""
    preparation = str(recipe.choice("preparation"))
    if preparation == "precomputed" and not (folder / STATISTICS).is_file():
        raise Mistake(
            f"{folder} has no prepared volumes; python -m workloads.patches3d.precompute {folder} writes them."
        )
    return VolumeCache(loader(folder, preparation), capacity(str(recipe.choice("volume_cache")), count))


def capacity(choice: str, count: int) -> int:
    """How many of so many volumes a cache keeps; of the real system's fifty, the same share and at least one."""
    return {"50 of 806": max(1, count * CACHED // OF_VOLUMES), "half": math.ceil(count / 2), "all": count}[choice]


def patch_shape(size: Size) -> Shape:
    """Depth, height and width of a patch before augmentation, and of those that are validated."""
    return size.shape["patch_depth"], size.shape["patch_height"], size.shape["patch_width"]


def trained_shape(size: Size, recipe: Recipe) -> Shape:
    """The sides of a patch that is trained on: so many percent of the usual ones, and never too small to be pooled."""
    percent, usual = recipe.choice("patch_size"), patch_shape(size)
    if not isinstance(percent, int):
        raise TypeError(f"patch_size is {percent!r}, not a number")
    return augmentation.scaled(usual, (percent / 100,) * 3, augmentation.floor_of(usual))


def fitted(one: Any, shape: Shape) -> Any:
    """The middle of what is too large; zeros around what is too small, which is the mean of normalised grey levels."""
    spare = [have - want for have, want in zip(one.shape, shape, strict=True)]
    if not any(spare):
        return one
    middle = one[
        tuple(slice(max(0, far // 2), max(0, far // 2) + want) for far, want in zip(spare, shape, strict=True))
    ]
    missing = [want - have for have, want in zip(middle.shape, shape, strict=True)]
    return np.pad(middle, [(few // 2, few - few // 2) for few in missing])


def apart(patches: Patches, cut: list[Shape]) -> Patches:
    """The same items with a cache and counters of their own, so that watching them disturbs nobody.

    The shapes of patches before they are resampled go into `cut`.
    """
    fresh, resample = VolumeCache(patches.volumes.load, patches.volumes.capacity), patches.resample

    def noted(image: Floats, label: Bytes, geometry: Geometry, resamplings: Resamplings) -> tuple[Floats, Bytes]:
        assert resample is not None  # noqa: S101  for the type checker
        cut.append(image.shape)
        return resample(image, label, geometry, resamplings)

    return replace(patches, volumes=fresh, resamplings=Resamplings(), resample=noted if resample else None)


def _chosen(label: Bytes, shape: Shape, rng: np.random.Generator) -> Box:
    """A random place, drawn anew up to eight times where surface is wanted and missing, or so it was meant."""
    wants_surface = rng.random() < WANTS_SURFACE
    box = _box(label.shape, shape, rng)
    for _ in range(TRIES - 1):
        if not wants_surface or label[box].any() or rng.random() < ACCEPTS_ANY:
            break
        box = _box(label.shape, shape, rng)
    return box


def _box(whole: tuple[int, ...], shape: Shape, rng: np.random.Generator) -> Box:
    begins = [int(rng.integers(max(0, have - want) + 1)) for have, want in zip(whole, shape, strict=True)]
    depth, height, width = (slice(begin, begin + want) for begin, want in zip(begins, shape, strict=True))
    return depth, height, width


def _tensors(image: Floats, label: Bytes) -> tuple[Tensor, Tensor]:
    patch = torch.from_numpy(np.ascontiguousarray(image, dtype=np.float32))
    return patch[None], torch.from_numpy(label.astype(np.float32))[None]
