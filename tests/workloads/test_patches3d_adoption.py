"""A folder of real volumes is looked at before anything is trained on it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tifffile
import torch

from harness.core.mistake import Mistake
from tests.workloads.test_patches3d_data import items, recipe
from tests.workloads.test_patches3d_evaluation import CPU, Threshold
from workloads.patches3d import WORKLOAD
from workloads.patches3d.evaluation import evaluate

torch.set_num_threads(1)

SIZE = WORKLOAD.sizes["smoke"]
SHAPE = (40, 44, 48)  # real volumes are no cubes


def volume(number: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(number)
    label = np.zeros(SHAPE, np.uint8)
    label[10 + number : 13 + number] = 1
    label[30:33] = 2
    return np.clip(rng.normal(90, 10, SHAPE) + 60 * (label == 1), 0, 255).astype(np.uint8), label


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Six volumes as they come from the competition, with further columns and names that are no numbers."""
    names = [f"scroll_{number}_{number * 37}" for number in range(6)]
    (tmp_path / "train.csv").write_text("scroll_id,id\n" + "".join(f"26002,{name}\n" for name in names))
    for folder, part in (("train_images", 0), ("train_labels", 1)):
        (tmp_path / folder).mkdir()
        for number, name in enumerate(names):
            tifffile.imwrite(tmp_path / folder / f"{name}.tif", volume(number)[part], photometric="minisblack")
    return tmp_path


def test_a_good_tree_gives_its_facts_and_can_be_trained_and_evaluated_on(tree: Path) -> None:
    assert WORKLOAD.adopt is not None
    size = WORKLOAD.adopt(tree, SIZE)
    assert (size.shape["volumes"], size.shape["side"], size.data_bytes) == (6, 48, 0)
    assert {name: size.shape[name] for name in size.shape if name.startswith("patch")} == {
        name: SIZE.shape[name] for name in SIZE.shape if name.startswith("patch")
    }
    patch, target = items(tree, size=size)[0]
    assert patch.shape == target.shape
    found = evaluate(Threshold(), tree, size, recipe(), CPU)
    assert found.items == size.evaluation_items
    assert found.score > 0.5


def first(tree: Path, folder: str) -> Path:
    return tree / folder / "scroll_0_0.tif"


def break_list(tree: Path) -> None:
    (tree / "train.csv").unlink()


def break_column(tree: Path) -> None:
    (tree / "train.csv").write_text("name,scroll_id\na,1\n")


def break_count(tree: Path) -> None:
    (tree / "train.csv").write_text("id\nscroll_0_0\nscroll_1_37\n")


def break_twice(tree: Path) -> None:
    path = tree / "train.csv"
    path.write_text(path.read_text() + "26002,scroll_3_111\n")


def break_image(tree: Path) -> None:
    first(tree, "train_images").unlink()


def break_labels(tree: Path) -> None:
    for path in (tree / "train_labels").iterdir():
        path.unlink()


def break_shape(tree: Path) -> None:
    tifffile.imwrite(first(tree, "train_labels"), volume(0)[1][:-1], photometric="minisblack")


def break_type(tree: Path) -> None:
    tifffile.imwrite(first(tree, "train_images"), volume(0)[0].astype(np.uint16), photometric="minisblack")


def break_axes(tree: Path) -> None:
    tifffile.imwrite(first(tree, "train_images"), volume(0)[0][0], photometric="minisblack")


def break_classes(tree: Path) -> None:
    tifffile.imwrite(first(tree, "train_labels"), volume(0)[1] * 3, photometric="minisblack")


def break_surface(tree: Path) -> None:
    tifffile.imwrite(first(tree, "train_labels"), volume(0)[1] // 2 * 2, photometric="minisblack")


def break_file(tree: Path) -> None:
    first(tree, "train_images").write_bytes(b"no picture")


def break_end(tree: Path) -> None:
    path = first(tree, "train_images")
    path.write_bytes(path.read_bytes()[:-30_000])


BROKEN: list[tuple[Callable[[Path], None], str]] = [
    (break_list, r"has no train\.csv; choose the folder"),
    (break_column, r"train\.csv has no column named id; its first line"),
    (break_count, r"names 2 volumes; at least 4 are needed"),
    (break_twice, r"names scroll_3_111 more than once; keep one line"),
    (break_image, r"train_images/scroll_0_0\.tif is missing; add it"),
    (break_labels, r"train_labels/scroll_0_0\.tif and 5 more is missing; add it"),
    (break_shape, r"has the shape \(39, 44, 48\) and its image \(40, 44, 48\); both must be the same"),
    (break_type, r"is uint16 of shape \(40, 44, 48\); it must be uint8 with three axes"),
    (break_axes, r"is uint8 of shape \(44, 48\); it must be uint8 with three axes"),
    (break_classes, r"has the label 6; only 0, 1 and 2 are known"),
    (break_surface, r"labels no surface \(1\); leave it out of train\.csv"),
    (break_file, r"is not a readable TIFF file .*; get it again"),
    (break_end, r"scroll_0_0\.tif .*; (get it again|if it is compressed)"),
]


@pytest.mark.parametrize(("damage", "words"), BROKEN, ids=[damage.__name__ for damage, _ in BROKEN])
def test_a_bad_tree_is_a_mistake_with_one_sentence(tree: Path, damage: Callable[[Path], None], words: str) -> None:
    assert WORKLOAD.adopt is not None
    damage(tree)
    with pytest.raises(Mistake, match=words) as complaint:
        WORKLOAD.adopt(tree, SIZE)
    assert len(str(complaint.value).splitlines()) == 1
    assert str(complaint.value).endswith(".")
