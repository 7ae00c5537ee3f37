"""The files and the preparation of this workload, held against neutral files of the real size."""

import math
from collections.abc import Callable, Iterable
from functools import cache
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import tifffile

from harness.core.workload import Size
from harness.core.yardstick import Yardstick
from workloads.patches3d import layout, precompute
from workloads.patches3d.data import patch_shape
from workloads.patches3d.preparation import Scaled, Shape, Work, loader, read

REAL_SIDE = 320
REAL_PATCH = (72, 136, 136)
NEUTRAL = "neutral"


def yardsticks(folder: Path, size: Size) -> Iterable[Yardstick]:
    """A volume read, a volume prepared as found, and a patch copied from a prepared file; the units are the real ones.

    Bytes of a scaled size are to be held against `scale` times the target.
    """
    identifiers = layout.read_identifiers(folder)
    share = size.shape["side"] ** 3 / REAL_SIDE**3
    yield _reading(folder, identifiers, share)
    yield _preparing(folder, identifiers, share)
    yield _copying(folder, identifiers, patch_shape(size))


def _reading(folder: Path, identifiers: tuple[str, ...], share: float) -> Yardstick:
    return Yardstick(
        what="a volume and its labels, read from two TIFF files",
        mean_bytes=2 * _image_bytes(folder, identifiers),
        target_bytes=2.0 * REAL_SIDE**3,
        work=_in_turn(identifiers, lambda one: read(folder, one)),
        like=lambda: read(_neutral(), NEUTRAL),
        published_ms=50.0,
        scale=share,
    )


def _preparing(folder: Path, identifiers: tuple[str, ...], share: float) -> Yardstick:
    ours, neutral = loader(folder, "whole_volume"), loader(_neutral(), "whole_volume")
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
    ours, neutral = loader(folder, "precomputed"), loader(_neutral(), "precomputed")
    return Yardstick(
        what="a patch read from a prepared file",
        mean_bytes=float(math.prod(patch)),
        target_bytes=float(math.prod(REAL_PATCH)),
        work=_in_turn(identifiers, lambda one: ours(one, Work()).patch(_first(patch))),
        like=lambda: neutral(NEUTRAL, Work()).patch(_first(REAL_PATCH)),
        published_ms=0.56,
        scale=math.prod(patch) / math.prod(REAL_PATCH),
    )


def _image_bytes(folder: Path, identifiers: tuple[str, ...]) -> float:
    return sum(layout.image_path(folder, one).stat().st_size for one in identifiers) / len(identifiers)


def _in_turn(identifiers: tuple[str, ...], work: Callable[[str], object]) -> Callable[[], object]:
    turn = cycle(identifiers)
    return lambda: work(next(turn))


def _first(patch: Shape) -> tuple[slice, slice, slice]:
    depth, height, width = map(slice, patch)
    return depth, height, width


def _neutral() -> Path:
    """A folder with one volume of the real size: white noise, of which an eighth is called surface."""
    return Path(_neutral_folder().name)


@cache
def _neutral_folder() -> TemporaryDirectory[str]:
    folder = TemporaryDirectory(prefix="speedmatrix-")
    rng, shape = np.random.default_rng(0), (REAL_SIDE,) * 3
    image = rng.integers(0, 256, shape, np.uint8)
    for place, voxels in ((layout.image_path, image), (layout.label_path, (image < 32).astype(np.uint8))):
        path = place(Path(folder.name), NEUTRAL)
        path.parent.mkdir()
        tifffile.imwrite(path, voxels, photometric="minisblack")
    prepared = Scaled(image, (image < 32).astype(np.uint8), np.float32(127.5), np.float32(74))
    precompute.write(Path(folder.name), NEUTRAL, prepared)
    precompute.collect(Path(folder.name), [NEUTRAL])
    return folder
