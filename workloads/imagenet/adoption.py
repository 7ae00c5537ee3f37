"""A real ImageNet tree in the place of ours: what it must hold, and its facts."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from harness.core.mistake import Mistake
from harness.core.workload import Size
from workloads.imagenet.layout import TRAIN, VALIDATION, Labelled, chosen_files, is_image
from workloads.imagenet.storage import class_folders

SAMPLED = 200  # files whose headers are read
NAMED_AFTER = re.compile(r"(n\d{8})_")  # how ImageNet names a training file after its class

Tree = Mapping[str, Sequence[str]]


def adopt(folder: Path, size: Size) -> Size:
    """The facts of a tree `train/<wnid>/*.JPEG`, `val/<wnid>/*.JPEG`; raises Mistake that says what is wrong with it.

    The lists are checked whole, some hundred files by their headers, and one of each split by decoding it.
    """
    train, validation = _tree(folder / TRAIN), _tree(folder / VALIDATION)
    _check_classes(folder, train, validation)
    _check_names(folder, train)
    trained, validated = chosen_files(TRAIN, train), chosen_files(VALIDATION, validation)
    for files in (trained, validated):
        _check_images(folder, files)
    if len(trained) < size.batch:
        raise Mistake(
            f"{folder} has {len(trained)} images to train on and a batch takes {size.batch}; choose a smaller --batch."
        )
    return replace(
        size,
        epoch_steps=min(size.epoch_steps, len(trained) // size.batch),
        evaluation_items=len(validated),
        data_bytes=0,
        shape={**size.shape, "classes": trained[-1].label + 1, "train_files": len(trained)},
    )


def _tree(split: Path) -> Tree:
    if not split.is_dir():
        raise Mistake(
            f"{split.parent} has no folder {split.name}; give the folder that holds train and val, each with a folder "
            "for every class."
        )
    found = class_folders(split)
    if not found:
        loose = any(is_image(one.name) for one in split.iterdir())
        what = "images but no folders of classes" if loose else "no folders of classes"
        raise Mistake(f"{split} holds {what}; sort its images into one folder for each class.")
    if empty := sorted(wnid for wnid, names in found.items() if not names):
        raise Mistake(f"{split / empty[0]} holds no .JPEG file; fill it or remove it from train and val.")
    return found


def _check_classes(folder: Path, train: Tree, validation: Tree) -> None:
    if different := sorted(train.keys() ^ validation.keys()):
        has, lacks = (TRAIN, VALIDATION) if different[0] in train else (VALIDATION, TRAIN)
        raise Mistake(
            f"{folder / has} has a class {different[0]} and {lacks} has not; give both the same folders, else labels "
            "are numbered differently."
        )


def _check_names(folder: Path, train: Tree) -> None:
    for wnid, names in train.items():
        for name in names:
            if (after := NAMED_AFTER.match(name)) and after[1] != wnid:
                raise Mistake(
                    f"{folder / TRAIN / wnid / name} is named after another class; put it into the folder {after[1]}."
                )


def _check_images(folder: Path, files: Sequence[Labelled]) -> None:
    from PIL import Image

    for number, one in enumerate(islice(files, 0, None, max(1, len(files) // SAMPLED))):
        path = folder / one.path
        try:
            with Image.open(path, formats=("JPEG", "PNG")) as image:
                if number == 0:
                    image.load()
        except OSError as error:
            raise Mistake(f"{path} is not a readable JPEG ({error}); replace it or remove it.") from error
