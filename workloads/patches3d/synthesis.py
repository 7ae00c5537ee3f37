"""Stand-ins of CT volumes: noise with folded papyrus sheets, each volume a function of its number alone."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.ndimage import gaussian_filter

from workloads.patches3d.layout import SURFACE, UNLABELLED

Bytes: TypeAlias = npt.NDArray[np.uint8]
Floats: TypeAlias = npt.NDArray[np.float32]
Place: TypeAlias = tuple[Floats, ...]  # an index of each axis, shaped so that together they span the volume

SEED = 2025
WAVES = 4  # that fold the sheets
FOLD_VOXELS = (60, 160)  # wavelengths
SPACING_VOXELS = (19.0, 22.0)  # between sheets: 15 to 17 of them in 320 voxels
THICKNESS_VOXELS = 2.6
AIR, PAPYRUS, GRAIN = 95.0, 45.0, 60.0  # grey levels; the grain's deviation is before it is smoothed
UNLABELLED_SHARE = 0.05


def volume(number: int, side: int) -> tuple[Bytes, Bytes]:
    """A cube of grey levels and one of labels, both uint8."""
    rng = np.random.default_rng((SEED, number))
    place: Place = np.meshgrid(*(np.arange(side, dtype=np.float32),) * 3, indexing="ij", sparse=True)
    spacing = rng.uniform(*SPACING_VOXELS)
    depth = _along_the_normal(place, rng) + _waves(place, rng, WAVES, spacing / 3)
    apart = np.abs((depth + rng.uniform(0, spacing)) % spacing - spacing / 2)  # from the middle of the nearest sheet
    sheet = np.clip(THICKNESS_VOXELS / 2 + 0.5 - apart, 0, 1)
    grain = gaussian_filter(rng.standard_normal((side,) * 3, dtype=np.float32) * GRAIN, 0.8, truncate=2.0)
    image = np.clip(AIR + PAPYRUS * sheet + grain, 0, 255).astype(np.uint8)
    return image, _labels(apart, _waves(place, rng, 2, 1.0))


def _along_the_normal(place: Place, rng: np.random.Generator) -> Floats:
    # Sheets lie roughly across the first axis, as in a scroll that is cut along its length.
    normal = np.array([1.0, *rng.uniform(-0.4, 0.4, 2)])
    return _projected(place, normal / np.linalg.norm(normal))


def _waves(place: Place, rng: np.random.Generator, count: int, amplitude: float) -> Floats:
    total = np.zeros((), np.float32)
    for _ in range(count):
        direction = rng.standard_normal(3)
        direction *= 2 * np.pi / (rng.uniform(*FOLD_VOXELS) * np.linalg.norm(direction))
        phase = np.float32(rng.uniform(0, 2 * np.pi))
        total = total + np.float32(amplitude) * np.sin(_projected(place, direction) + phase)
    return total


def _projected(place: Place, direction: npt.NDArray[np.float64]) -> Floats:
    depth, height, width = (axis * np.float32(share) for axis, share in zip(place, direction, strict=True))
    return np.asarray(depth + height + width, dtype=np.float32)


def _labels(apart: Floats, field: Floats) -> Bytes:
    labels = np.where(apart < THICKNESS_VOXELS / 2, SURFACE, 0).astype(np.uint8)
    labels[field > np.quantile(field[::4, ::4, ::4], 1 - UNLABELLED_SHARE)] = UNLABELLED
    return labels
