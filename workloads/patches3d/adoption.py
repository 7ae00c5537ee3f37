"""Looks at a folder of real volumes before anything is trained on them; needs no torch."""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from harness.core.mistake import Mistake
from harness.core.workload import Size
from workloads.patches3d import layout

FEWEST = 4  # volumes: three to train on and one to validate with
SAMPLED = 4  # volumes that are read; of all others only the names are looked up
CODEC = "if it is compressed, pip install imagecodecs"


class Header(NamedTuple):
    """What a TIFF file says of itself."""

    shape: tuple[int, ...]
    dtype: str


def adopt(folder: Path, size: Size) -> Size:
    """The size with the numbers of the folder's own volumes; raises Mistake that says what is wrong with them."""
    identifiers = _listed(folder)
    _find(folder, identifiers)
    sampled = identifiers[:: max(1, len(identifiers) // SAMPLED)]
    sides = {side for identifier in sampled for side in _volume(folder, identifier).shape}
    shape = {**size.shape, "volumes": len(identifiers), "side": max(sides)}
    return replace(size, shape=shape, data_bytes=0)


def _listed(folder: Path) -> tuple[str, ...]:
    path = folder / layout.LIST
    if not path.is_file():
        raise Mistake(f"{folder} has no {layout.LIST}; choose the folder of the competition's files.")
    try:
        identifiers = layout.read_identifiers(folder)
    except (KeyError, UnicodeDecodeError) as error:
        raise Mistake(f"{path} has no column named id; its first line must name one.") from error
    if repeated := {one for one in identifiers if identifiers.count(one) > 1}:
        raise Mistake(f"{path} names {min(repeated)} more than once; keep one line of it.")
    if len(identifiers) < FEWEST:
        raise Mistake(f"{path} names {len(identifiers)} volumes; at least {FEWEST} are needed.")
    return identifiers


def _find(folder: Path, identifiers: tuple[str, ...]) -> None:
    for place in (layout.image_path, layout.label_path):
        missing = [place(folder, one) for one in identifiers if not place(folder, one).is_file()]
        if missing:
            others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise Mistake(f"{missing[0]}{others} is missing; add it or take its line out of {layout.LIST}.")


def _volume(folder: Path, identifier: str) -> Header:
    """The header of a sampled volume, after its labels were read."""
    image, label = (_header(place(folder, identifier)) for place in (layout.image_path, layout.label_path))
    if image.shape != label.shape:
        path = layout.label_path(folder, identifier)
        raise Mistake(f"{path} has the shape {label.shape} and its image {image.shape}; both must be the same.")
    values = _read(layout.image_path(folder, identifier), layout.label_path(folder, identifier))
    if not values <= {layout.BACKGROUND, layout.SURFACE, layout.UNLABELLED}:
        raise Mistake(
            f"{layout.label_path(folder, identifier)} has the label {max(values)}; only 0, 1 and 2 are known."
        )
    if layout.SURFACE not in values:
        raise Mistake(f"{layout.label_path(folder, identifier)} labels no surface (1); leave it out of {layout.LIST}.")
    return image


def _header(path: Path) -> Header:
    import tifffile

    try:
        with tifffile.TiffFile(path) as file:
            series: Any = file.series[0]
            header = Header(tuple(series.shape), str(series.dtype))
    except (tifffile.TiffFileError, OSError, IndexError) as error:
        raise Mistake(f"{path} is not a readable TIFF file ({error}); get it again.") from error
    if len(header.shape) != 3 or header.dtype != "uint8":
        raise Mistake(f"{path} is {header.dtype} of shape {header.shape}; it must be uint8 with three axes.")
    return header


def _read(image: Path, label: Path) -> set[int]:
    """The values among the labels; the image is read too, because compression shows only then."""
    import numpy as np
    import tifffile

    for path in (image, label):
        try:
            voxels = tifffile.imread(path)
        except (ValueError, OSError, tifffile.TiffFileError) as error:
            raise Mistake(f"{path} cannot be read ({str(error).splitlines()[0]}); {CODEC}.") from error
    return set(np.unique(voxels).tolist())
