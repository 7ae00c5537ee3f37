"""A real tree in the place of ours: a good one is taken as it is, each kind of bad one is told what it lacks."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image

from harness.catalogue import read_catalogue
from harness.core.configuration import compose, parse_option
from harness.core.mistake import Mistake
from workloads.imagenet import WORKLOAD
from workloads.imagenet.data import dataset, validation

SMOKE = WORKLOAD.sizes["smoke"]
WNIDS = [f"n{1_440_764 + 311 * number:08d}" for number in range(130)]
LOCAL = compose(WORKLOAD, [parse_option("local_copy")], read_catalogue().optimizations)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More classes than are trained on, by no generator of ours; files are links to one photograph."""
    root = tmp_path_factory.mktemp("real")
    photograph = root / "photograph.jpg"
    Image.radial_gradient("L").convert("RGB").save(photograph)
    for number, wnid in enumerate(WNIDS):
        for split, names in (("train", (f"{wnid}_1.JPEG", f"{wnid}_22.JPEG")), ("val", (f"ILSVRC_{number}.JPEG",))):
            (root / split / wnid).mkdir(parents=True)
            for name in names:
                (root / split / wnid / name).hardlink_to(photograph)
    (root / "train" / WNIDS[0] / "Thumbs.db").write_text("not an image")
    return root


def test_a_good_tree_gives_its_facts(good: Path) -> None:
    size = WORKLOAD.adopt(good, SMOKE)  # type: ignore[misc]
    assert size.shape == {**SMOKE.shape, "classes": 100, "train_files": 200}
    assert (size.evaluation_items, size.data_bytes, size.batch) == (100, 0, 8)
    assert size.epoch_steps == SMOKE.epoch_steps
    assert WORKLOAD.adopt(good, replace(SMOKE, epoch_steps=999)).epoch_steps == 25  # type: ignore[misc]


def test_an_adopted_tree_is_read(good: Path) -> None:
    size = WORKLOAD.adopt(good, SMOKE)  # type: ignore[misc]
    training, validated = dataset(good, size, LOCAL), validation(good, size, LOCAL)
    assert (len(training), len(validated)) == (32, 100)
    assert [one.label for one in validated.files] == list(range(100))
    assert training[0][0].shape == validated[0][0].shape == (3, 42, 42)
    assert torch.isfinite(training[0][0]).all()


def change(path: str, text: bytes) -> Callable[[Path], None]:
    def changed(root: Path) -> None:
        (root / path).unlink()
        (root / path).write_bytes(text)

    return changed


def empty_class(root: Path) -> None:
    (root / "val" / WNIDS[3] / "ILSVRC_3.JPEG").unlink()


def loose_validation(root: Path) -> None:
    for path in list((root / "val").glob("*/*.JPEG")):
        path.rename(root / "val" / path.name)
        path.parent.rmdir()


FIRST = f"train/{WNIDS[0]}/{WNIDS[0]}_1.JPEG"
BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "no train": (lambda root: shutil.rmtree(root / "train"), "has no folder train; give the folder that holds train"),
    "no val": (lambda root: shutil.rmtree(root / "val"), "has no folder val; give the folder"),
    "loose val": (loose_validation, "val holds images but no folders of classes; sort its images"),
    "nothing": (
        lambda root: [shutil.rmtree(one) for one in (root / "val").iterdir()],
        "val holds no folders of classes",
    ),
    "empty class": (empty_class, f"val/{WNIDS[3]} holds no .JPEG file; fill it or remove it"),
    "a class less": (
        lambda root: shutil.rmtree(root / "val" / WNIDS[5]),
        f"train has a class {WNIDS[5]} and val has not; give both the same folders",
    ),
    "mislabelled": (
        lambda root: (root / FIRST).rename(root / "train" / WNIDS[1] / f"{WNIDS[0]}_1.JPEG"),
        f"{WNIDS[1]}/{WNIDS[0]}_1.JPEG is named after another class; put it into the folder {WNIDS[0]}",
    ),
    "no image": (
        lambda root: [change(str(one.relative_to(root)), b"GIF89a")(root) for one in root.glob("train/*/*.JPEG")],
        "is not a readable JPEG .*; replace it or remove it",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_tree_is_told_what_it_lacks(good: Path, tmp_path: Path, kind: str) -> None:
    root = tmp_path / "copy"
    shutil.copytree(good, root, copy_function=lambda source, target: Path(target).hardlink_to(source))
    spoil, words = BAD[kind]
    spoil(root)
    with pytest.raises(Mistake, match=words) as told:
        WORKLOAD.adopt(root, SMOKE)  # type: ignore[misc]
    assert str(told.value).count("\n") == 0


def test_a_truncated_image_is_found(good: Path, tmp_path: Path) -> None:
    root = tmp_path / "copy"
    shutil.copytree(good, root, copy_function=lambda source, target: Path(target).hardlink_to(source))
    for path in sorted(root.glob("val/*/*.JPEG")):
        change(str(path.relative_to(root)), (good / "photograph.jpg").read_bytes()[:900])(root)
    with pytest.raises(Mistake, match="is not a readable JPEG"):
        WORKLOAD.adopt(root, SMOKE)  # type: ignore[misc]


def test_fewer_images_than_a_batch(good: Path) -> None:
    with pytest.raises(Mistake, match="has 200 images to train on and a batch takes 201; choose a smaller --batch"):
        WORKLOAD.adopt(good, replace(SMOKE, batch=201))  # type: ignore[misc]


def test_yardsticks_do_the_same_work_on_ours_and_on_a_neutral_file(good: Path) -> None:
    found = list(WORKLOAD.parts().yardsticks(good, SMOKE))
    assert [one.published_ms for one in found] == [3.1, 1.7]
    for one, dtype in zip(found, (torch.float32, torch.uint8), strict=True):
        assert one.like is not None
        for made in (one.work(), one.like()):
            assert isinstance(made, torch.Tensor)
            assert (made.shape, made.dtype) == ((3, 224, 224), dtype)
        assert one.mean_bytes == (good / "photograph.jpg").stat().st_size
        assert one.target_bytes == 111_000
