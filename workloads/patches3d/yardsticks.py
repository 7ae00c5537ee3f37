"""The files and the preparation of this workload, held against neutral files of the real size."""

import math
from collections.abc import Callable, Iterable
from functools import cache
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import tifffile

from harness.core.workload import Size, Yardstick
from workloads.patches3d import layout, precompute
from workloads.patches3d.data import patch_shape
from workloads.patches3d.preparation import Scaled, Shape, Work, loader, read

REAL_SIDE = 320
REAL_PATCH = (72, 136, 136)
NEUTRAL = "neutral"


def yardsticks(folder: Path, size: Size) -> Iterable[Yardstick]:
    """A volume read, a volume prepared as found, and a patch copied from a prepared file.

    Preparation costs by the voxel, so a smaller volume is held against its share of a real one. To read a small file or
    patch costs by the call: that is held against a neutral file of the same smaller size.
    """
    identifiers, side = layout.read_identifiers(folder), size.shape["side"]
    yield _reading(folder, identifiers, side)
    yield _preparing(folder, identifiers, side**3 / REAL_SIDE**3)
    yield _copying(folder, identifiers, patch_shape(size))


def _reading(folder: Path, identifiers: tuple[str, ...], side: int) -> Yardstick:
    return Yardstick(
        what=f"a volume of {side}³ and its labels, read from two TIFF files",
        mean_bytes=2 * _image_bytes(folder, identifiers),
        target_bytes=2.0 * side**3,
        work=_in_turn(identifiers, lambda one: read(folder, one)),
        like=lambda: read(_neutral(side), NEUTRAL),
        published_ms=50.0 if side == REAL_SIDE else None,
    )


def _preparing(folder: Path, identifiers: tuple[str, ...], share: float) -> Yardstick:
    ours, neutral = loader(folder, "whole_volume"), loader(_neutral(REAL_SIDE), "whole_volume")
    return Yardstick(
        what="a volume prepared as found: read, filtered, cropped, normalised",
        mean_bytes=2 * _image_bytes(folder, identifiers),
        target_bytes=2.0 * REAL_SIDE**3,
        work=_in_turn(identifiers, lambda one: ours(one, Work())),
        like=lambda: neutral(NEUTRAL, Work()),
        published_ms=32_500.0,
        scale=share,
    )


def _copying(folder: Path, identifiers: tuple[str, ...], patch: Shape) -> Yardstick:
    ours, neutral = loader(folder, "precomputed"), loader(_neutral(REAL_SIDE), "precomputed")
    return Yardstick(
        what="a patch read from a prepared file",
        mean_bytes=float(math.prod(patch)),
        target_bytes=float(math.prod(patch)),
        work=_in_turn(identifiers, lambda one: ours(one, Work()).patch(_first(patch))),
        like=lambda: neutral(NEUTRAL, Work()).patch(_first(patch)),
        published_ms=0.56 if patch == REAL_PATCH else None,
    )


def _image_bytes(folder: Path, identifiers: tuple[str, ...]) -> float:
    return sum(layout.image_path(folder, one).stat().st_size for one in identifiers) / len(identifiers)


def _in_turn(identifiers: tuple[str, ...], work: Callable[[str], object]) -> Callable[[], object]:
    turn = cycle(identifiers)
    return lambda: work(next(turn))


def _first(patch: Shape) -> tuple[slice, slice, slice]:
    depth, height, width = map(slice, patch)
    return depth, height, width


def _neutral(side: int) -> Path:
    """A folder with one volume of that size: white noise, of which an eighth is called surface."""
    return Path(_neutral_folder(side).name)


@cache
def _neutral_folder(side: int) -> TemporaryDirectory[str]:
    folder = TemporaryDirectory(prefix="speedmatrix-")
    rng, shape = np.random.default_rng(0), (side,) * 3
    image = rng.integers(0, 256, shape, np.uint8)
    for place, voxels in ((layout.image_path, image), (layout.label_path, (image < 32).astype(np.uint8))):
        path = place(Path(folder.name), NEUTRAL)
        path.parent.mkdir()
        tifffile.imwrite(path, voxels, photometric="minisblack")
    prepared = Scaled(image, (image < 32).astype(np.uint8), np.float32(127.5), np.float32(74))
    precompute.write(Path(folder.name), NEUTRAL, prepared)
    precompute.collect(Path(folder.name), [NEUTRAL])
    return folder
