"""The files and the subset: real JPEGs of the real sizes, and the classes that the real system drew."""

import io
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from workloads.imagenet import FILE_BYTES, WORKLOAD
from workloads.imagenet.corpus import Picture, _in_mode, encoded, prepare
from workloads.imagenet.layout import chosen_files, chosen_places, is_image
from workloads.imagenet.shards import INDEX, SHARDS
from workloads.imagenet.synthesis import look

SMOKE = WORKLOAD.sizes["smoke"]
# The first classes of the real draw, by the places of their names among ImageNet's thousand.
FIRST_TEN = {
    6: "n01498041", 25: "n01629819", 27: "n01631663", 30: "n01641577", 32: "n01644900",
    44: "n01689811", 46: "n01693334", 71: "n01770393", 80: "n01795545", 81: "n01796340",
}  # fmt: skip


def opened(picture: Picture) -> Image.Image:
    return Image.open(io.BytesIO(encoded(picture)))


@pytest.fixture(scope="module")
def sample() -> list[bytes]:
    return [encoded(Picture("train", place, 10)) for place in range(150)]


def test_the_real_draw_of_classes() -> None:
    places = chosen_places(1000)
    assert places[:10] == list(FIRST_TEN)
    assert (len(places), len(set(places))) == (100, 100)
    wnids = {place: FIRST_TEN.get(place, f"n{place}") for place in places}
    assert list(wnids.values())[:10] == sorted(FIRST_TEN.values())
    random.seed(42)
    assert places == sorted(random.sample(list(range(1000)), 100))


def test_few_classes_are_all_taken() -> None:
    assert chosen_places(10) == list(range(10))


def test_the_files_of_a_class_are_drawn_by_its_place_among_all() -> None:
    tree = {f"n{place:08d}": [f"{number:04d}.JPEG" for number in range(600)] for place in range(1000)}
    files = chosen_files("train", tree)
    assert len(files) == 50_000
    assert Counter(one.label for one in files) == dict.fromkeys(range(100), 500)
    random.seed(42 + 25)  # the second of the chosen classes is the 26th of all
    expected = [f"train/n00000025/{number:04d}.JPEG" for number in random.sample(range(600), 500)]
    assert [one.path for one in files if one.label == 1] == expected
    assert len(chosen_files("val", tree)) == 1_000


def test_the_draw_leaves_the_global_generator_alone() -> None:
    random.seed(1)
    expected = random.random()
    random.seed(1)
    chosen_places(1000)
    assert random.random() == expected


def test_what_counts_as_an_image() -> None:
    assert [name for name in ("a.JPEG", "a.jpg", "a.txt", "JPEG", ".DS_Store", "a.png") if is_image(name)] == [
        "a.JPEG",
        "a.jpg",
    ]


def test_two_runs_write_the_same_bytes_and_processes_do_not_matter(tmp_path: Path) -> None:
    shares = list(prepare(tmp_path / "one", SMOKE))
    assert shares[-1] == 1
    files = sorted(path for path in (tmp_path / "one").rglob("*") if path.is_file())
    packed = [path for path in files if path.parent.name == SHARDS]
    assert [path.name for path in packed] == [INDEX, "train-000000.tar"]
    counts = Counter(path.relative_to(tmp_path / "one").parts[:2] for path in files if path not in packed)
    assert len(counts) == 2 * SMOKE.shape["classes"]
    assert sum(counts.values()) == SMOKE.shape["train_files"] + SMOKE.evaluation_items
    for split, name in (("train", "n90000001_5.JPEG"), ("val", "ILSVRC2012_val_00000006.JPEG")):
        written = (tmp_path / "one" / split / "n90000001" / name).read_bytes()
        assert written == encoded(Picture(split, 5, SMOKE.shape["classes"]))  # made here, not in a worker process
    assert 0.8 * SMOKE.data_bytes < sum(path.stat().st_size for path in files) < 1.1 * SMOKE.data_bytes


def test_bytes_and_sides_are_those_of_imagenet(sample: list[bytes]) -> None:
    images = [Image.open(io.BytesIO(one)) for one in sample]
    assert np.mean([len(one) for one in sample]) == pytest.approx(111_000, rel=0.1)
    assert pytest.approx(111_000, rel=0.1) == FILE_BYTES
    assert {image.format for image in images} == {"JPEG"}
    long_sides = [max(image.size) for image in images]
    assert np.median(long_sides) == pytest.approx(500, rel=0.06)
    assert np.std(np.log(long_sides)) == pytest.approx(0.25, abs=0.05)
    assert 0.15 < np.mean([image.height > image.width for image in images]) < 0.35


def test_modes_and_subsampling() -> None:
    modes = {place: opened(Picture("train", place, 10)).mode for place in (0, 33, 134, 167)}
    assert modes == {0: "RGB", 33: "L", 134: "L", 167: "CMYK"}
    layers = opened(Picture("train", 0, 10)).layer  # type: ignore[attr-defined]
    assert [layer[1:3] for layer in layers] == [(2, 2), (1, 1), (1, 1)]  # 4:2:0


@pytest.mark.parametrize(("classes", "of_each"), [(100, {1, 2, 3}), (10, {29, 30})])
def test_grey_pictures_come_to_every_class_and_cmyk_to_none_alone(classes: int, of_each: set[int]) -> None:
    dot = Image.new("RGB", (1, 1))
    modes = Counter((_in_mode(dot, place).mode, place % classes) for place in range(30_000))
    assert {modes["L", number] for number in range(classes)} <= of_each
    assert max(modes["CMYK", number] for number in range(classes)) <= 60 // classes + 1


def test_qualities_span_the_real_range(sample: list[bytes]) -> None:
    steps = {Image.open(io.BytesIO(one)).quantization[0][0] for one in sample[:60]}  # type: ignore[attr-defined]
    assert min(steps) == 2  # the first luminance step of quality 95
    assert max(steps) == 5  # of quality 85


def test_noise_falls_with_frequency_as_in_photographs() -> None:
    light = np.asarray(opened(Picture("train", 33, 10)), dtype=np.float64)  # a grey one
    power = np.abs(np.fft.rfft(light - light.mean(), axis=1)).mean(axis=0)
    low, high = power[4:8].mean(), power[60:120].mean()
    slope = np.log(low / high) / np.log(90 / 6)
    assert 0.5 < slope < 1.3


def test_classes_differ_in_hue_and_a_class_keeps_its_own() -> None:
    hues = sorted(look(number).hue for number in range(100))
    assert min(np.diff(hues)) > 0.01
    assert len({look(number).shape for number in range(10)}) == 5

    def tint(place: int) -> float:
        _, blue, red = np.asarray(opened(Picture("train", place, 10)).convert("YCbCr"), dtype=float).mean((0, 1)) - 128
        return float(np.arctan2(red, blue) % (2 * np.pi))

    for number in (0, 1, 2):
        found = [tint(number + 10 * turn) for turn in range(4)]
        away = [abs((one - look(number).hue + np.pi) % (2 * np.pi) - np.pi) for one in found]
        assert np.mean(away) < 0.9
