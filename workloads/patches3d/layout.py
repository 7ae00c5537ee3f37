"""Where the files of a volume lie, in the layout of the Kaggle competition, and what the list says."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

LIST = "train.csv"  # a line for each volume; only the column `id` matters here
IMAGES = "train_images"
LABELS = "train_labels"
PREPARED = "prepared"  # ours: what precomputed preparation reads
BACKGROUND, SURFACE, UNLABELLED = 0, 1, 2
HELD_OUT = 12  # one volume in so many is kept for validation


class Split(NamedTuple):
    """The volumes that are trained on, and those that the score is taken from."""

    training: tuple[str, ...]
    validation: tuple[str, ...]


def image_path(folder: Path, identifier: str) -> Path:
    """The uint8 volume (depth, height, width)."""
    return folder / IMAGES / f"{identifier}.tif"


def label_path(folder: Path, identifier: str) -> Path:
    """Its uint8 labels, of the same shape."""
    return folder / LABELS / f"{identifier}.tif"


def write_identifiers(folder: Path, identifiers: Sequence[str]) -> None:
    """Writes the list with the competition's columns; all volumes are said to come from one scroll."""
    lines = ["id,scroll_id", *(f"{identifier},1" for identifier in identifiers)]
    (folder / LIST).write_text("\n".join(lines) + "\n")


def read_identifiers(folder: Path) -> tuple[str, ...]:
    """The volumes in the order of the list; raises KeyError if there is no column `id`."""
    with (folder / LIST).open(newline="", encoding="utf-8") as lines:
        return tuple(line["id"] for line in csv.DictReader(lines))


def split(identifiers: Sequence[str]) -> Split:
    """The last twelfth of the list, and at least one volume, is held out."""
    held_out = max(1, round(len(identifiers) / HELD_OUT))
    return Split(tuple(identifiers[:-held_out]), tuple(identifiers[-held_out:]))
