"""Augmentation of patches on the host with scipy: every operation on every patch, as the real system does it.

Chance decides on the geometry first and then on the grey levels, alike for both ways of resampling.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.ndimage import affine_transform, gaussian_filter, map_coordinates, rotate, zoom

from workloads.patches3d.preparation import Shape
from workloads.patches3d.synthesis import Bytes, Floats

Doubles: TypeAlias = npt.NDArray[np.float64]
Degree: TypeAlias = Literal[0, 1]  # of an interpolation

DEGREES = 20.0
ZOOM = (0.85, 1.2)
STRETCH = (0.8, 1.3)  # of each axis
ELASTIC_SIGMA = 10.0  # voxels
ELASTIC_VOXELS = 3.0  # the displacement's deviation
COARSE = 4  # voxels between the nodes of the composed displacement
# Voxels a side: four poolings need 16, and a norm more than one voxel after them. Small patches are longest in depth,
# and 48 keeps that from two voxels at any stage: there the bfloat16 weight gradient of a 3-D convolution on a CPU reads
# memory that nobody wrote (seen with torch 2.11).
FLOOR, LONGEST_FLOOR = 16, 48


@dataclass(slots=True)
class Resamplings:
    """How often an image was interpolated."""

    count: int = 0


@dataclass(frozen=True, slots=True)
class Geometry:
    """What chance decided about the place of voxels."""

    flipped: tuple[int, ...]  # axes
    plane: tuple[int, int]  # of the rotation
    degrees: float
    zoom: float
    stretch: tuple[float, float, float]
    seed: int  # of the elastic displacement


Resample: TypeAlias = Callable[[Floats, Bytes, Geometry, Resamplings], tuple[Floats, Bytes]]


def drawn(rng: np.random.Generator) -> Geometry:
    """A geometry by chance."""
    first, second = rng.choice(3, 2, replace=False).tolist()
    return Geometry(
        flipped=tuple(axis for axis in range(3) if rng.random() < 0.5),
        plane=(min(first, second), max(first, second)),
        degrees=rng.uniform(-DEGREES, DEGREES),
        zoom=rng.uniform(*ZOOM),
        stretch=tuple(rng.uniform(*STRETCH, 3)),
        seed=int(rng.integers(1 << 32)),
    )


def one_after_another(
    image: Floats, label: Bytes, geometry: Geometry, resamplings: Resamplings
) -> tuple[Floats, Bytes]:
    """As found: flip, rotation, zoom, elastic displacement, stretch, each through an interpolation of its own."""
    smallest = floor_of(image.shape)
    pair: tuple[Any, Any] = np.flip(image, geometry.flipped), np.flip(label, geometry.flipped)
    pair = _both(lambda one, order: rotate(one, geometry.degrees, geometry.plane, reshape=False, order=order), pair)
    larger = scaled(pair[0].shape, (geometry.zoom,) * 3, smallest)
    pair = _both(lambda one, order: _resized(one, larger, order), pair)
    places = np.indices(larger, dtype=np.float32) + displacement(larger, ELASTIC_SIGMA, geometry.seed)
    pair = _both(lambda one, order: map_coordinates(one, places, order=order, mode="nearest"), pair)
    stretched = scaled(larger, geometry.stretch, smallest)
    pair = _both(lambda one, order: _resized(one, stretched, order), pair)
    resamplings.count += 4
    return pair


def all_at_once(image: Floats, label: Bytes, geometry: Geometry, resamplings: Resamplings) -> tuple[Floats, Bytes]:
    """The same geometry as one map from places in the result to places in the source, and one interpolation."""
    smallest = floor_of(image.shape)
    shape = scaled(scaled(image.shape, (geometry.zoom,) * 3, smallest), geometry.stretch, smallest)
    matrix = _rotation(geometry) @ np.diag([(old - 1) / (new - 1) for old, new in zip(image.shape, shape, strict=True)])
    matrix[list(geometry.flipped)] *= -1
    offset = (np.array(image.shape) - 1) / 2 - matrix @ ((np.array(shape) - 1) / 2)
    places = _affine(matrix, offset, shape) + _coarse_displacement(shape, geometry.seed)
    resamplings.count += 1
    return _both(lambda one, order: map_coordinates(one, places, order=order, mode="constant"), (image, label))


def displacement(shape: Shape, sigma: float, seed: int) -> Floats:
    """Smooth noise (3, depth, height, width) in voxels."""
    rng = np.random.default_rng(seed)
    noise = [gaussian_filter(rng.standard_normal(shape, dtype=np.float32), sigma) for _ in range(3)]
    return np.stack([one * (ELASTIC_VOXELS / max(float(one.std()), 1e-6)) for one in noise])


def recoloured(image: Floats, rng: np.random.Generator) -> Floats:
    """Jitter, dropout, gamma, gamma noise, Gaussian noise and blur, on normalised grey levels."""
    image = image * np.float32(rng.uniform(0.9, 1.1)) + np.float32(rng.uniform(-0.1, 0.1))
    image = np.where(rng.random(image.shape, dtype=np.float32) < 0.02, np.float32(0), image)
    image = _gamma(image, rng.uniform(0.7, 1.5))
    image *= rng.standard_gamma(100, image.shape).astype(np.float32) / np.float32(100)
    image += np.float32(rng.uniform(0, 0.1)) * rng.standard_normal(image.shape, dtype=np.float32)
    return np.asarray(gaussian_filter(image, rng.uniform(0.1, 0.8)), dtype=np.float32)


def floor_of(shape: tuple[int, ...]) -> Shape:
    """No side below 16 voxels, the longest not below 48; patches of the real size are always larger."""
    longest = int(np.argmax(shape))
    depth, height, width = (LONGEST_FLOOR if axis == longest else FLOOR for axis in range(3))
    return depth, height, width


def scaled(shape: tuple[int, ...], factors: tuple[float, ...], smallest: Shape) -> Shape:
    """The sides times their factors, in whole voxels and not below the smallest."""
    depth, height, width = (
        max(round(side * factor), least) for side, factor, least in zip(shape, factors, smallest, strict=True)
    )
    return depth, height, width


def _gamma(image: Floats, exponent: float) -> Floats:
    # On the range of the patch: a power of normalised values themselves would have to throw away the darker half.
    low, high = float(image.min()), float(image.max())
    reach = max(high - low, 1e-6)
    return np.asarray(((image - low) / reach) ** np.float32(exponent) * reach + low, dtype=np.float32)


def _both(operation: Callable[[Any, Degree], Any], pair: tuple[Any, Any]) -> tuple[Any, Any]:
    """Linear interpolation for grey levels, the nearest voxel for labels."""
    return operation(pair[0], 1), operation(pair[1], 0)


def _resized(one: Any, shape: Shape, order: Degree) -> Any:
    return zoom(one, [new / old for new, old in zip(shape, one.shape, strict=True)], order=order, mode="nearest")


def _rotation(geometry: Geometry) -> Doubles:
    matrix = np.eye(3)
    first, second = geometry.plane
    turn = np.deg2rad(geometry.degrees)
    matrix[first, first] = matrix[second, second] = np.cos(turn)
    matrix[first, second], matrix[second, first] = np.sin(turn), -np.sin(turn)
    return matrix


def _affine(matrix: Doubles, offset: Doubles, shape: Shape) -> Floats:
    """Where in the source each voxel of the result comes from, (3, depth, height, width)."""
    axes = np.meshgrid(*(np.arange(side, dtype=np.float32) for side in shape), indexing="ij", sparse=True)
    rows = [sum(np.float32(share) * axis for share, axis in zip(row, axes, strict=True)) for row in matrix]
    return np.stack([row + np.float32(begin) for row, begin in zip(rows, offset, strict=True)])


def _coarse_displacement(shape: Shape, seed: int) -> Floats:
    """So smooth a field loses nothing when only every fourth voxel of it is worked out."""
    depth, height, width = (-(-side // COARSE) + 1 for side in shape)
    coarse = displacement((depth, height, width), ELASTIC_SIGMA / COARSE, seed)
    return np.stack([affine_transform(one, (1 / COARSE,) * 3, output_shape=shape, order=1) for one in coarse])
