"""Where images lie, and which of them the real system trains on: `train/<wnid>/*.JPEG` and `val/<wnid>/*.JPEG`.

The rule of the subset is that of cydal/ImageNet-Full-training, data/datamodule.py at 7ef2102: 100 of the sorted classes
by Python's own generator, then for each chosen class 500 training files and 10 for validation, its seed moved by the
class's place among all.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

TRAIN, VALIDATION = "train", "val"
CLASSES = 100
TRAIN_FILES, VALIDATION_FILES = 500, 10  # of each chosen class, where there are so many
SEED = 42
SUFFIXES = frozenset({".jpeg", ".jpg"})

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Labelled:
    """A file `<split>/<wnid>/<name>` and the number of its class, from 0, among those chosen."""

    path: str
    label: int


def chosen_places(classes: int) -> list[int]:
    """The places, among so many sorted classes, of those that the system trains on; all where there are few."""
    return sorted(_sample(SEED, range(classes), CLASSES))


def chosen_files(split: str, files: Mapping[str, Sequence[str]]) -> tuple[Labelled, ...]:
    """The files of a split that the system uses, from the names in each class's folder."""
    wnids = sorted(files)
    count = TRAIN_FILES if split == TRAIN else VALIDATION_FILES
    return tuple(
        Labelled(f"{split}/{wnids[place]}/{name}", label)
        for label, place in enumerate(chosen_places(len(wnids)))
        for name in _sample(SEED + place, sorted(files[wnids[place]]), count)
    )


def is_image(name: str) -> bool:
    """Whether a name is that of a JPEG, as ImageFolder sees it."""
    return name[name.rfind(".") :].lower() in SUFFIXES


def _sample(seed: int, items: Sequence[Item], count: int) -> list[Item]:
    # random.Random(seed) draws what random.seed(seed); random.sample draws, and leaves the global generator alone.
    return random.Random(seed).sample(items, min(count, len(items)))
