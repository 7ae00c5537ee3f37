"""A volume from its files to patches of it, in four ways that a recipe can choose between.

As found, every miss of the cache filters, crops and normalises a whole volume to cut one patch of a twenty-fifth of it.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import tifffile
from scipy.ndimage import median_filter

from workloads.patches3d.layout import PREPARED, SURFACE, image_path, label_path
from workloads.patches3d.synthesis import Bytes, Floats

Shape: TypeAlias = tuple[int, int, int]
Box: TypeAlias = tuple[slice, slice, slice]

MARGIN = 16  # voxels kept around the labelled surface
CLIP = (-1200, 800)  # as for Hounsfield units; grey levels from 0 to 255 pass unchanged
STATISTICS = f"{PREPARED}/statistics.json"


@dataclass(slots=True)
class Work:
    """What preparation has done, for whoever wants to know."""

    volumes: int = 0  # prepared or opened
    mapped: int = 0  # of these, from precomputed files
    filtered_voxels: int = 0
    filtered_types: set[str] = field(default_factory=set)


class Volume(Protocol):
    """A prepared volume, cropped to its surface and 16 voxels around it."""

    @property
    def label(self) -> Bytes:
        """Zeros and ones (depth, height, width)."""

    def patch(self, box: Box) -> Floats:
        """Filtered and normalised grey levels of a part."""


@dataclass(frozen=True, slots=True)
class Whole:
    """All grey levels, ready in memory as float32."""

    image: Floats
    label: Bytes

    def patch(self, box: Box) -> Floats:
        """A view."""
        return self.image[box]


@dataclass(frozen=True, slots=True)
class Scaled:
    """Filtered grey levels as the bytes that they are, perhaps in a file, normalised where they are asked for."""

    image: Bytes
    label: Bytes
    mean: np.float32
    deviation: np.float32

    def patch(self, box: Box) -> Floats:
        """Reads and converts no more than the part."""
        return (self.image[box].astype(np.float32) - self.mean) / self.deviation


@dataclass(frozen=True, slots=True)
class Unfiltered:
    """Raw grey levels of the whole volume; a part is filtered together with the voxels around it."""

    raw: Bytes
    crop: Box
    label: Bytes
    mean: np.float32
    deviation: np.float32
    work: Work

    def patch(self, box: Box) -> Floats:
        """The same medians as those of the whole volume: at its edges the filter reflects in both cases.

        A part that reaches beyond the crop ends with it, as that of an array does, and as its labels do.
        """
        begins = [crop.start + part.start for crop, part in zip(self.crop, box, strict=True)]
        ends = [min(crop.stop, crop.start + part.stop) for crop, part in zip(self.crop, box, strict=True)]
        around = tuple(slice(max(0, begin - 1), end + 1) for begin, end in zip(begins, ends, strict=True))
        inner = tuple(slice(b - a.start, e - a.start) for a, b, e in zip(around, begins, ends, strict=True))
        filtered = median(_as_float(self.raw[around]), self.work)[inner]
        return (filtered - self.mean) / self.deviation


Load: TypeAlias = Callable[[str, Work], Volume]


def loader(folder: Path, preparation: str) -> Load:
    """What makes a volume of an identifier, as the recipe's choice says."""
    if preparation == "precomputed":
        return partial(_mapped, folder, json.loads((folder / STATISTICS).read_text(encoding="utf-8")))
    return partial({"whole_volume": _whole, "uint8": _whole_bytes, "halo": _unfiltered}[preparation], folder)


def median(image: npt.NDArray[Any], work: Work) -> npt.NDArray[Any]:
    """Each voxel the median of its 3x3x3 neighbourhood."""
    work.filtered_voxels += image.size
    work.filtered_types.add(str(image.dtype))
    filtered: npt.NDArray[Any] = median_filter(image, size=3)
    return filtered


def read(folder: Path, identifier: str) -> tuple[Bytes, Bytes]:
    """The raw grey levels, and the labels with those voxels that nobody labelled taken for background."""
    image = tifffile.imread(image_path(folder, identifier))
    label = tifffile.imread(label_path(folder, identifier))
    return image, (label == SURFACE).astype(np.uint8)


def around_surface(label: Bytes) -> Box:
    """The smallest box around all surface voxels and 16 more on each side; everything where there are none."""
    places = np.argwhere(label)
    if not len(places):
        return _box((0, 0, 0), label.shape)
    begins = np.maximum(places.min(axis=0) - MARGIN, 0)
    ends = np.minimum(places.max(axis=0) + 1 + MARGIN, label.shape)
    return _box(begins.tolist(), ends.tolist())


def filtered_bytes(folder: Path, identifier: str, work: Work) -> Scaled:
    """A volume filtered and cropped, with the mean and the deviation that normalise it."""
    image, label = read(folder, identifier)
    crop = around_surface(label)
    cropped = np.ascontiguousarray(median(image, work)[crop])
    mean, deviation = _statistics(cropped.astype(np.float32))
    return Scaled(cropped, np.ascontiguousarray(label[crop]), mean, deviation)


def _whole(folder: Path, identifier: str, work: Work) -> Volume:
    """As found."""
    work.volumes += 1
    image, label = read(folder, identifier)
    filtered = median(_as_float(image), work)
    crop = around_surface(label)
    cropped = np.ascontiguousarray(filtered[crop])
    mean, deviation = _statistics(cropped)
    return Whole((cropped - mean) / deviation, np.ascontiguousarray(label[crop]))


def _whole_bytes(folder: Path, identifier: str, work: Work) -> Volume:
    work.volumes += 1
    volume = filtered_bytes(folder, identifier, work)
    return Whole(volume.patch(_box((0, 0, 0), volume.label.shape)), volume.label)


def _unfiltered(folder: Path, identifier: str, work: Work) -> Volume:
    work.volumes += 1
    image, label = read(folder, identifier)
    crop = around_surface(label)
    return Unfiltered(image, crop, np.ascontiguousarray(label[crop]), *_statistics(_as_float(image[crop])), work)


def _mapped(folder: Path, statistics: dict[str, list[float]], identifier: str, work: Work) -> Volume:
    work.volumes += 1
    work.mapped += 1
    image, label = np.load(folder / PREPARED / f"{identifier}.npy", mmap_mode="r")
    mean, deviation = map(np.float32, statistics[identifier])
    return Scaled(image, label, mean, deviation)


def _as_float(image: Bytes) -> Floats:
    return np.clip(image.astype(np.float32), *CLIP)


def _statistics(image: Floats) -> tuple[np.float32, np.float32]:
    """The mean, and the deviation or one where nothing deviates."""
    return np.float32(image.mean()), np.float32(image.std() or 1.0)


def _box(begins: Any, ends: Any) -> Box:
    depth, height, width = map(slice, begins, ends)
    return depth, height, width
