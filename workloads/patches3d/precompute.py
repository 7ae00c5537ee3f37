"""Prepares all volumes of a folder once: filtered, cropped bytes that patches can be read from without the rest.

python -m workloads.patches3d.precompute FOLDER does it for a folder of real volumes.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from harness.core.parallel import spread
from workloads.patches3d.layout import PREPARED, read_identifiers
from workloads.patches3d.preparation import STATISTICS, Scaled, Work, filtered_bytes


def precompute(folder: Path, identifier: str) -> None:
    """Filters and crops one volume and writes it."""
    write(folder, identifier, filtered_bytes(folder, identifier, Work()))


def write(folder: Path, identifier: str, volume: Scaled) -> None:
    """Writes prepared/<id>.npy, uint8 (2, depth, height, width): grey levels and labels; and its statistics beside."""
    (folder / PREPARED).mkdir(exist_ok=True)
    np.save(folder / PREPARED / f"{identifier}.npy", np.stack([volume.image, volume.label]))
    numbers = [float(volume.mean), float(volume.deviation)]
    (folder / PREPARED / f"{identifier}.json").write_text(json.dumps(numbers), encoding="utf-8")


def collect(folder: Path, identifiers: Sequence[str]) -> None:
    """Puts the statistics of all volumes into one file, in place of one each."""
    files = {identifier: folder / PREPARED / f"{identifier}.json" for identifier in identifiers}
    statistics = {identifier: json.loads(path.read_text(encoding="utf-8")) for identifier, path in files.items()}
    (folder / STATISTICS).write_text(json.dumps(statistics), encoding="utf-8")
    for path in files.values():
        path.unlink()


def precompute_all(folder: Path) -> Iterator[float]:
    """Every volume of the list, over all cores; yields the share that is done."""
    identifiers = read_identifiers(folder)
    yield from spread(partial(precompute, folder), identifiers)
    collect(folder, identifiers)


if __name__ == "__main__":
    for share in precompute_all(Path(sys.argv[1])):
        sys.stdout.write(f"\r{share:.0%}")
    sys.stdout.write("\n")
