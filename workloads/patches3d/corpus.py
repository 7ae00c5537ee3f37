"""Writes the stand-in of the competition's training set, and beside it what precomputed preparation reads."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import tifffile

from harness.core.parallel import spread
from harness.core.workload import Size
from workloads.patches3d import layout, synthesis
from workloads.patches3d.precompute import collect, precompute

FIRST = 1_000_000  # identifiers are plain numbers in the competition too


def prepare(folder: Path, size: Size) -> Iterator[float]:
    """Writes the list and all volumes over all cores; yields the share that is done."""
    numbers = range(size.shape["volumes"])
    identifiers = [str(FIRST + number) for number in numbers]
    for name in (layout.IMAGES, layout.LABELS):
        (folder / name).mkdir(parents=True, exist_ok=True)
    layout.write_identifiers(folder, identifiers)
    yield from spread(partial(write, folder, size.shape["side"]), numbers)
    collect(folder, identifiers)


def write(folder: Path, side: int, number: int) -> None:
    """One volume: two uncompressed TIFF files of side cubed bytes each, and the prepared file."""
    identifier = str(FIRST + number)
    image, label = synthesis.volume(number, side)
    tifffile.imwrite(layout.image_path(folder, identifier), image, photometric="minisblack")
    tifffile.imwrite(layout.label_path(folder, identifier), label, photometric="minisblack")
    precompute(folder, identifier)
