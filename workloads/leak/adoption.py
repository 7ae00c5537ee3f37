"""Real splits in place of ours: checked whole where that is quick, by sample where it is not."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import h5py
import numpy as np

from harness.core.mistake import Mistake
from harness.core.workload import Size
from workloads.leak.classes import LEAK_NAME, named
from workloads.leak.layouts import LABELS, MEL, TRAINING, VALIDATION

LOOKED_AT = 64  # files whose values are read
AXES = "(files, longs, shorts, mels, frames)"


@dataclass(frozen=True, slots=True)
class Facts:
    """What a split holds."""

    files: int
    segment: tuple[int, ...]  # longs, shorts, mels, frames
    classes: tuple[str, ...]
    files_of: tuple[int, ...]  # each class


def adopt(folder: Path, size: Size) -> Size:
    """The facts of a folder with TRAINING_DATASET.H5 and VALIDATION_DATASET.H5; raises Mistake that says what is wrong.

    The batch stays. An epoch and an evaluation become no longer than those of the size, so that `quick` stays quick.
    """
    training, validation = (_facts(folder / name) for name in (TRAINING, VALIDATION))
    if (training.segment, training.classes) != (validation.segment, validation.classes):
        raise Mistake(f"{TRAINING} and {VALIDATION} differ in shape or classes; build both with the same settings.")
    longs, shorts, mels, frames = training.segment
    steps = training.files * longs * shorts // size.batch
    if not steps:
        raise Mistake(f"{TRAINING} holds fewer segments than one batch of {size.batch}; choose a smaller --size.")
    return replace(
        size,
        epoch_steps=min(size.epoch_steps, steps),
        evaluation_items=min(size.evaluation_items, validation.files),
        data_bytes=0,
        shape={
            "files": training.files,
            "validation_files": validation.files,
            "longs": longs,
            "shorts": shorts,
            "mels": mels,
            "frames": frames,
            "classes": len(training.classes),
            "leak": training.classes.index(LEAK_NAME),
            **named(training.files_of),
        },
    )


def _facts(path: Path) -> Facts:
    with _opened(path) as split:
        mel, labels, classes = _dataset(split, MEL), _dataset(split, LABELS), _classes(split, path.name)
        segment = _segment(mel, path.name)
        if len(mel) != len(labels):
            raise Mistake(f"{path.name} has {len(mel)} files in {MEL} and {len(labels)} in {LABELS}; build it again.")
        files_of = _files_of(labels, classes, path.name)
        for file in np.unique(np.linspace(0, len(mel) - 1, LOOKED_AT).astype(int)):
            if not np.isfinite(mel[file]).all():
                raise Mistake(f"File {file} of {path.name} holds mel values that are not finite; leave it out.")
        return Facts(len(mel), segment, classes, files_of)


@contextmanager
def _opened(path: Path) -> Iterator[h5py.File]:
    if not path.is_file():
        raise Mistake(f"There is no {path.name} in {path.parent}; --data-root takes the folder that holds both splits.")
    try:
        split = h5py.File(path, "r", libver="latest")
    except OSError as error:
        raise Mistake(f"{path.name} cannot be opened as HDF5 ({error}); copy or build it again.") from error
    with split:
        yield split


def _dataset(split: h5py.File, name: str) -> h5py.Dataset:
    if not isinstance(split.get(name), h5py.Dataset):
        raise Mistake(f"{Path(split.filename).name} has no dataset {name}; it needs {MEL} and {LABELS}.")
    return split[name]


def _classes(split: h5py.File, name: str) -> tuple[str, ...]:
    try:
        classes = tuple(json.loads(split.attrs["labels_json"]))
    except (KeyError, TypeError, ValueError) as error:
        raise Mistake(f"{name} has no attribute labels_json with a JSON list of class names; add it.") from error
    if LEAK_NAME not in classes:
        raise Mistake(f"{name} has no class {LEAK_NAME} among {', '.join(map(str, classes))}; name it in labels_json.")
    return classes


def _segment(mel: h5py.Dataset, name: str) -> tuple[int, ...]:
    """Longs, shorts, mels and frames; a channel axis of 1 before the mels may stand there."""
    if mel.dtype != np.float16:
        raise Mistake(f"{MEL} in {name} is {mel.dtype}, not float16; store it as float16, as the real system does.")
    shape: Sequence[int] = mel.shape
    if not (len(shape) == 5 or (len(shape) == 6 and shape[3] == 1)) or 0 in shape:
        raise Mistake(f"{MEL} in {name} has shape {tuple(shape)}, not {AXES}; reshape it.")
    longs, shorts, *_, mels, frames = shape[1:]
    if mels < 4:
        raise Mistake(f"{MEL} in {name} has {mels} mel bands; the model halves them twice and needs at least 4.")
    return longs, shorts, mels, frames


def _files_of(labels: h5py.Dataset, classes: tuple[str, ...], name: str) -> tuple[int, ...]:
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise Mistake(
            f"{LABELS} in {name} is {labels.dtype} with {labels.ndim} axes; it needs one whole number a file."
        )
    numbers = labels[:].astype(np.int64)
    if numbers.min() < 0 or numbers.max() >= len(classes):
        reach = f"{numbers.min()} to {numbers.max()}"
        raise Mistake(
            f"{LABELS} in {name} reach from {reach}, but labels_json has {len(classes)} classes; correct one."
        )
    files_of = tuple(np.bincount(numbers, minlength=len(classes)).tolist())
    if 0 in files_of:
        raise Mistake(f"No file of {name} is of class {classes[files_of.index(0)]}; take it out of labels_json.")
    return files_of
