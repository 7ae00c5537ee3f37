"""Real leak splits: a good tree is taken as it is, and each kind of bad one gets a sentence."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from torch.utils.data import default_collate

from harness.core.mistake import Mistake
from harness.core.recipe import Recipe
from harness.core.workload import Size
from workloads.leak import WORKLOAD
from workloads.leak.evaluation import evenly_chosen
from workloads.leak.layouts import TRAINING, VALIDATION

torch.set_num_threads(1)
SMOKE = WORKLOAD.sizes["smoke"]
NAMES = ("LEAK", "QUIET", "RUSHING")


def write(path: Path, files: int, names: Any = NAMES, shape: tuple[int, ...] = (10, 3, 32, 1), **packing: Any) -> None:
    """A split as a builder of one's own might write it: no waveforms, other numbers of everything."""
    generator = np.random.default_rng(files)
    with h5py.File(path, "w") as split:
        split.create_dataset("segments_mel", data=generator.random((files, *shape)).astype(np.float16), **packing)
        split["labels"] = np.sort(np.arange(files) % 3).astype(np.int32)  # sorted by class, as folders are
        split.attrs["labels_json"] = json.dumps(names)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    write(tmp_path / TRAINING, 30)
    write(tmp_path / VALIDATION, 21)
    return tmp_path


def adopted(folder: Path) -> Size:
    assert WORKLOAD.adopt is not None
    return WORKLOAD.adopt(folder, SMOKE)


def recipe(**choices: Any) -> Recipe:
    own = {name: choices.pop(name, value) for name, value in WORKLOAD.own.items()}
    return Recipe(own=tuple(sorted(own.items())), **choices)


def test_a_good_tree_gives_its_own_facts(tree: Path) -> None:
    size = adopted(tree)
    assert (size.batch, size.epoch_steps, size.evaluation_items, size.data_bytes) == (64, 8, 12, 0)
    assert dict(size.shape) == {
        "files": 30, "validation_files": 21, "longs": 10, "shorts": 3, "mels": 32, "frames": 1, "classes": 3, "leak": 0,
        "files_of_class_0": 10, "files_of_class_1": 10, "files_of_class_2": 10,
    }  # fmt: skip


@pytest.mark.parametrize("way", [{}, {"batched_fetch": True}, {"data_on_device": True}])
def test_a_good_tree_can_be_trained_on_and_evaluated(tree: Path, way: dict[str, Any]) -> None:
    size, parts, chosen = adopted(tree), WORKLOAD.parts(), recipe(**way)
    data: Any = parts.dataset(tree, size, chosen)
    stage = parts.device_stage(tree, size, chosen, torch.device("cpu"))
    places = list(range(64))
    batch = data.__getitems__(places) if hasattr(data, "__getitems__") else default_collate([data[at] for at in places])
    inputs, targets = stage(tuple(batch)) if stage else batch
    assert inputs.shape == (64, 1, 32, 1)
    assert set(targets.tolist()) == {0, 1, 2}
    model = parts.model(size, chosen)
    assert parts.loss(size, chosen)(model(inputs), targets).isfinite()
    evaluations = [
        parts.evaluate(model.eval(), tree, size, recipe(batched_evaluation=batched), torch.device("cpu"))
        for batched in (False, True)
    ]
    assert evaluations[0].items == evaluations[1].items == 12
    np.testing.assert_allclose(evaluations[0].answers, evaluations[1].answers, atol=1e-6)


def test_a_part_of_files_sorted_by_class_holds_every_class() -> None:
    class_numbers = np.sort(np.arange(21) % 3)
    assert set(class_numbers[evenly_chosen(12, 21)]) == {0, 1, 2}


def test_a_channel_axis_and_chunks_are_taken_too(tmp_path: Path) -> None:
    shape = (10, 3, 1, 32, 8)
    for name, files in ((TRAINING, 30), (VALIDATION, 21)):
        write(tmp_path / name, files, shape=shape, chunks=(1, *shape), compression="gzip")
    size = adopted(tmp_path)
    assert (size.shape["mels"], size.shape["frames"]) == (32, 8)
    found, label = WORKLOAD.parts().dataset(tmp_path, size, recipe())[0]
    assert (found.shape, label.shape) == ((1, 32, 8), ())
    with pytest.raises(Mistake, match="is compressed and cannot be mapped into memory"):
        WORKLOAD.parts().dataset(tmp_path, size, recipe(batched_fetch=True))


def replaced(name: str, values: Any) -> Callable[[h5py.File], None]:
    def change(split: h5py.File) -> None:
        del split[name]
        split[name] = values

    return change


def in_place(name: str, at: Any, value: float) -> Callable[[h5py.File], None]:
    def change(split: h5py.File) -> None:
        split[name][at] = value

    return change


def classes(text: str) -> Callable[[h5py.File], None]:
    def change(split: h5py.File) -> None:
        split.attrs["labels_json"] = text

    return change


def without(name: str) -> Callable[[h5py.File], None]:
    def change(split: h5py.File) -> None:
        del split[name]

    return change


MEL = np.zeros((30, 10, 3, 32, 1), np.float16)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (without("segments_mel"), "TRAINING_DATASET.H5 has no dataset segments_mel"),
        (without("labels"), "TRAINING_DATASET.H5 has no dataset labels"),
        (lambda split: split.attrs.clear(), "no attribute labels_json with a JSON list of class names"),
        (classes("not JSON"), "no attribute labels_json with a JSON list of class names"),
        (classes("5"), "no attribute labels_json with a JSON list of class names"),
        (classes('["A", "B", "C"]'), "no class LEAK among A, B, C"),
        (replaced("segments_mel", MEL.astype(np.float32)), "is float32, not float16"),
        (replaced("segments_mel", MEL[:, 0]), r"has shape \(30, 3, 32, 1\), not \(files, longs, shorts, mels, frames"),
        (replaced("segments_mel", np.zeros((30, 2, 3, 2, 32, 1), np.float16)), r"has shape \(30, 2, 3, 2, 32, 1\)"),
        (replaced("segments_mel", MEL[:0]), "has shape"),
        (replaced("segments_mel", MEL[..., :2, :]), "2 mel bands; .* needs at least 4"),
        (replaced("segments_mel", MEL[:29]), "29 files in segments_mel and 30 in labels"),
        (replaced("labels", np.zeros(30, np.float32)), "labels in TRAINING_DATASET.H5 is float32 with 1 axes"),
        (replaced("labels", np.zeros((30, 2), np.int16)), "is int16 with 2 axes"),
        (in_place("labels", 0, 3), "reach from 0 to 3, but labels_json has 3 classes"),
        (in_place("labels", 0, -1), "reach from -1 to 2"),
        (replaced("labels", np.arange(30) % 2), "No file of TRAINING_DATASET.H5 is of class RUSHING"),
        (in_place("segments_mel", (29, 0, 0, 0, 0), np.nan), "File 29 of TRAINING_DATASET.H5 .* not finite"),
        (replaced("segments_mel", MEL[..., :16, :]), "differ in shape or classes"),
        (classes('["LEAK", "CALM", "RUSHING"]'), "differ in shape or classes"),
    ],
)
def test_a_bad_split_gets_one_sentence(tree: Path, change: Callable[[h5py.File], None], words: str) -> None:
    with h5py.File(tree / TRAINING, "r+") as split:
        change(split)
    with pytest.raises(Mistake, match=words) as caught:
        adopted(tree)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


def test_a_missing_split_is_named(tree: Path) -> None:
    (tree / VALIDATION).unlink()
    with pytest.raises(Mistake, match=r"There is no VALIDATION_DATASET.H5 in .*; --data-root takes the folder"):
        adopted(tree)


@pytest.mark.parametrize("damage", [b"", b"RIFF not HDF5 at all"])
def test_a_file_that_is_not_hdf5_is_named(tree: Path, damage: bytes) -> None:
    (tree / TRAINING).write_bytes(damage)
    with pytest.raises(Mistake, match=r"TRAINING_DATASET.H5 cannot be opened as HDF5"):
        adopted(tree)


def test_a_split_that_was_cut_short_is_named(tree: Path) -> None:
    whole = (tree / TRAINING).read_bytes()
    (tree / TRAINING).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(Mistake, match=r"TRAINING_DATASET.H5 cannot be opened as HDF5 .*truncated"):
        adopted(tree)


def test_too_few_segments_for_a_batch_are_a_mistake(tree: Path) -> None:
    for name, files in ((TRAINING, 3), (VALIDATION, 3)):
        write(tree / name, files, shape=(4, 3, 32, 1))
    with pytest.raises(Mistake, match="fewer segments than one batch of 64"):
        adopted(tree)
