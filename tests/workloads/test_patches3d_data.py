"""The files of the patches3d workload, the four preparations, the cache and the items."""

import hashlib
import json
import multiprocessing
import pickle
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tifffile
import torch
from torch.utils.data import DataLoader

from harness.core.configuration import compose, parse_option
from harness.core.mistake import Mistake
from harness.core.optimization import Optimization
from harness.core.recipe import Recipe
from harness.core.workload import Size
from workloads.patches3d import WORKLOAD, corpus, layout, precompute, synthesis
from workloads.patches3d.augmentation import floor_of
from workloads.patches3d.cache import VolumeCache
from workloads.patches3d.data import Patches, capacity, dataset, fitted
from workloads.patches3d.optimizations import (
    composed_resample,
    deferred_loss_components,
    device_augmentation,
    fixed_patch_shape,
    halo_cropped_filter,
    larger_volume_cache,
    loader_distance_transform,
    patch_size,
    precomputed_preparation,
    single_scale_heavy_losses,
    uint8_median,
)
from workloads.patches3d.preparation import MARGIN, Work, around_surface, loader

torch.set_num_threads(1)

SIZE = WORKLOAD.sizes["smoke"]
MODULES = (
    composed_resample, deferred_loss_components, device_augmentation, fixed_patch_shape, halo_cropped_filter,
    larger_volume_cache, loader_distance_transform, patch_size, precomputed_preparation, single_scale_heavy_losses,
    uint8_median,
)  # fmt: skip
OWN: dict[str, Optimization] = {module.OPTIMIZATION.name: module.OPTIMIZATION for module in MODULES}


def written(folder: Path) -> Path:
    """A tree of size smoke, written in this process."""
    for name in (layout.IMAGES, layout.LABELS):
        (folder / name).mkdir(parents=True)
    identifiers = [str(corpus.FIRST + number) for number in range(SIZE.shape["volumes"])]
    layout.write_identifiers(folder, identifiers)
    for number in range(SIZE.shape["volumes"]):
        corpus.write(folder, SIZE.shape["side"], number)
    precompute.collect(folder, identifiers)
    return folder


def recipe(*names: str) -> Recipe:
    return compose(WORKLOAD, [parse_option(name) for name in names], OWN)


def items(folder: Path, *names: str, size: Size = SIZE) -> Patches:
    return dataset(folder, size, recipe(*names))


def same(ours: Patches, theirs: Patches) -> bool:
    pairs = [zip(ours[number], theirs[number], strict=True) for number in range(len(ours))]
    return all(torch.equal(one, other) for pair in pairs for one, other in pair)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("patches3d"))


def digest(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_processes_write_the_same_files_that_one_process_writes(folder: Path, tmp_path: Path) -> None:
    shares = list(corpus.prepare(tmp_path, SIZE))
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert digest(tmp_path) == digest(folder)
    assert len(digest(folder)) == 2 + 3 * SIZE.shape["volumes"]
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) <= SIZE.data_bytes


def test_volumes_are_in_the_layout_of_the_competition(folder: Path) -> None:
    header = (folder / "train.csv").read_text().splitlines()[0]
    assert header == "id,scroll_id"
    identifiers = layout.read_identifiers(folder)
    assert len(identifiers) == SIZE.shape["volumes"]
    for identifier in identifiers:
        for kind in ("train_images", "train_labels"):
            voxels = tifffile.imread(folder / kind / f"{identifier}.tif")
            assert (voxels.shape, voxels.dtype) == ((48, 48, 48), np.uint8)
        with tifffile.TiffFile(folder / "train_images" / f"{identifier}.tif") as file:
            assert file.pages[0].compression == 1


def test_a_tenth_of_the_voxels_is_surface_and_one_in_twenty_unlabelled() -> None:
    shares = np.array([[(synthesis.volume(number, 80)[1] == kind).mean() for kind in (1, 2)] for number in range(8)])
    surface, unlabelled = shares.mean(axis=0)
    assert 0.10 < surface < 0.15
    assert 0.03 < unlabelled < 0.07
    image, label = synthesis.volume(3, 80)
    assert image[label == 1].mean() > image[label == 0].mean() + 20
    assert not np.array_equal(image, synthesis.volume(4, 80)[0])


def test_the_sizes_keep_the_real_ratio_of_patch_to_volume() -> None:
    for name in ("quick", "standard"):
        shape = WORKLOAD.sizes[name].shape
        patch = shape["patch_depth"] * shape["patch_height"] * shape["patch_width"]
        assert shape["side"] ** 3 / patch == pytest.approx(320**3 / (72 * 136 * 136), rel=0.01)
    assert WORKLOAD.sizes["standard"].data_bytes <= 6e9
    assert WORKLOAD.sizes["quick"].data_bytes <= 400e6


def test_held_out_volumes_are_not_trained_on(folder: Path) -> None:
    identifiers = layout.read_identifiers(folder)
    training, validation = layout.split(identifiers)
    assert training + validation == identifiers
    assert validation
    assert set(items(folder).identifiers) == set(training)
    assert [len(one) for one in layout.split([str(number) for number in range(806)])] == [739, 67]


def test_preparation_filters_crops_and_normalises_in_that_order(folder: Path) -> None:
    identifier = layout.read_identifiers(folder)[0]
    image = tifffile.imread(layout.image_path(folder, identifier))
    raw_label = tifffile.imread(layout.label_path(folder, identifier))
    volume = loader(folder, "whole_volume")(identifier, Work())
    box = around_surface((raw_label == 1).astype(np.uint8))
    assert 2 in raw_label
    np.testing.assert_array_equal(volume.label, (raw_label == 1)[box])
    padded = np.pad(image, 1, mode="symmetric")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3, 3)).reshape(*image.shape, 27)
    filtered = np.median(windows, axis=-1)[box]
    expected = (filtered - filtered.mean()) / filtered.std()
    whole = volume.patch((slice(None),) * 3)
    assert whole.dtype == np.float32
    np.testing.assert_allclose(whole, expected, atol=1e-4)


def test_the_crop_keeps_a_margin_around_the_surface() -> None:
    label = np.zeros((60, 61, 62), np.uint8)
    label[30:32, 20, 50] = 1
    assert around_surface(label) == (slice(30 - MARGIN, 32 + MARGIN), slice(4, 37), slice(34, 62))
    assert around_surface(np.zeros((3, 4, 5), np.uint8)) == (slice(0, 3), slice(0, 4), slice(0, 5))


@pytest.mark.parametrize("name", ["precomputed_preparation", "uint8_median", "larger_volume_cache=all"])
def test_exact_preparations_give_the_same_bits(folder: Path, name: str) -> None:
    assert same(items(folder, name), items(folder))


def test_the_halo_filter_gives_the_same_medians_on_another_scale(folder: Path) -> None:
    identifier = layout.read_identifiers(folder)[1]
    whole, halo = (loader(folder, name)(identifier, Work()) for name in ("whole_volume", "halo"))
    depth, height, width = whole.label.shape
    for begin in ((0, 0, 0), (5, 6, 7), (depth - 16, height - 16, width - 16)):
        box = tuple(slice(one, one + 16) for one in begin)
        ours, theirs = halo.patch(box).ravel(), whole.patch(box).ravel()
        slope, offset = np.polyfit(theirs, ours, 1)
        np.testing.assert_allclose(ours, slope * theirs + offset, atol=1e-4)
        assert 0.3 < slope < 1


def test_where_the_crop_is_smaller_than_a_patch_the_halo_filter_ends_with_it(tmp_path: Path) -> None:
    image = np.random.default_rng(0).integers(0, 256, (60, 24, 24), dtype=np.uint8)
    label = np.zeros_like(image)
    label[28:32] = layout.SURFACE  # which leaves a crop of 36 voxels in depth
    for place, voxels in ((layout.image_path, image), (layout.label_path, label)):
        place(tmp_path, "1").parent.mkdir()
        tifffile.imwrite(place(tmp_path, "1"), voxels, photometric="minisblack")
    whole, halo = (loader(tmp_path, name)("1", Work()) for name in ("whole_volume", "halo"))
    box = (slice(0, 48), slice(4, 20), slice(4, 20))
    ours, theirs = halo.patch(box), whole.patch(box)
    assert ours.shape == theirs.shape == halo.label[box].shape == (36, 16, 16)
    slope, offset = np.polyfit(theirs.ravel(), ours.ravel(), 1)
    np.testing.assert_allclose(ours, slope * theirs + offset, atol=1e-4)


def test_precomputed_statistics_survive_the_file_to_the_last_bit(folder: Path) -> None:
    statistics = json.loads((folder / "prepared" / "statistics.json").read_text())
    assert set(statistics) == set(layout.read_identifiers(folder))
    for mean, deviation in statistics.values():
        assert (float(np.float32(mean)), float(np.float32(deviation))) == (mean, deviation)


def test_a_real_tree_without_prepared_volumes_says_what_writes_them(folder: Path, tmp_path: Path) -> None:
    for name in (layout.LIST, layout.IMAGES, layout.LABELS):
        (tmp_path / name).symlink_to(folder / name)
    assert torch.equal(items(tmp_path)[0][0], items(folder)[0][0])
    with pytest.raises(Mistake, match=r"python -m workloads\.patches3d\.precompute"):
        items(tmp_path, "precomputed_preparation")
    assert list(precompute.precompute_all(tmp_path))[-1] == 1
    assert same(items(tmp_path, "precomputed_preparation"), items(folder))


def test_the_cache_keeps_what_was_used_last_and_counts_its_hits() -> None:
    made: list[str] = []
    cache = VolumeCache(lambda identifier, _: made.append(identifier), capacity=2)  # type: ignore[arg-type,return-value]
    for identifier in "aabacab":
        cache[identifier]
    assert made == ["a", "b", "c", "b"]
    assert cache.hits == 3
    assert list(cache.kept) == ["a", "b"]


@pytest.mark.parametrize(
    ("choice", "count", "kept"),
    [("50 of 806", 806, 50), ("50 of 806", 40, 2), ("50 of 806", 5, 1), ("half", 5, 3), ("all", 40, 40)],
)
def test_the_cache_keeps_the_real_share_of_the_volumes(choice: str, count: int, kept: int) -> None:
    assert capacity(choice, count) == kept


def test_an_item_is_a_patch_and_its_labels_that_depend_on_the_index_alone(folder: Path) -> None:
    ours = items(folder, "precomputed_preparation")
    again = items(folder, "precomputed_preparation")
    backwards = {number: again[number] for number in reversed(range(len(again)))}
    for number in range(len(ours)):
        patch, target = ours[number]
        assert (patch.dtype, target.dtype, patch.shape) == (torch.float32, torch.float32, target.shape)
        assert set(target.unique().tolist()) <= {0.0, 1.0}
        assert torch.equal(backwards[number][0], patch)
        assert torch.equal(backwards[number][1], target)
    with pytest.raises(IndexError):
        ours[len(ours)]


def test_shapes_vary_as_found_so_that_a_batch_cannot_be_collated(folder: Path) -> None:
    varying, fixed = items(folder, "precomputed_preparation"), items(folder, "fixed_patch_shape")
    shapes = {tuple(varying[number][0].shape[1:]) for number in range(len(varying))}
    assert len(shapes) > 1
    least = floor_of((48, 16, 16))
    assert all(side >= low for shape in shapes for side, low in zip(shape, least, strict=True))
    assert {tuple(fixed[number][0].shape[1:]) for number in range(len(fixed))} == {(48, 16, 16)}
    with pytest.raises(RuntimeError, match="stack expects each tensor to be equal size"):
        next(iter(DataLoader(varying, batch_size=len(varying))))
    patches, targets = next(iter(DataLoader(fixed, batch_size=2)))
    assert patches.shape == targets.shape == (2, 1, 48, 16, 16)


def test_a_fixed_patch_is_the_middle_of_the_varying_one(folder: Path) -> None:
    varying, fixed = items(folder)[0], items(folder, "fixed_patch_shape")[0]
    np.testing.assert_array_equal(fixed[0][0], fitted(varying[0][0].numpy(), (48, 16, 16)))
    line = np.arange(10).reshape(1, 1, 10)
    np.testing.assert_array_equal(fitted(line, (1, 1, 4))[0, 0], [3, 4, 5, 6])
    np.testing.assert_array_equal(fitted(line[..., :3], (1, 1, 6))[0, 0], [0, 0, 1, 2, 0, 0])


@pytest.mark.parametrize(("percent", "shape"), [(125, (60, 20, 20)), (150, (72, 24, 24)), (50, (48, 16, 16))])
def test_a_patch_of_another_size_has_so_many_percent_of_each_side(
    folder: Path, percent: int, shape: tuple[int, ...]
) -> None:
    ours = items(folder, "fixed_patch_shape", f"patch_size={percent}")
    assert ours.patch == shape
    assert ours.usual == (48, 16, 16)
    assert tuple(ours[0][0].shape[1:]) == tuple(ours[0][1].shape[1:]) == shape
    assert recipe("patch_size=100") == recipe()


def test_a_larger_patch_varies_about_its_own_size(folder: Path) -> None:
    larger, usual = items(folder, "precomputed_preparation", "patch_size=125"), items(folder, "precomputed_preparation")
    widths = [(larger[number][0].shape[2], usual[number][0].shape[2]) for number in range(len(usual))]
    assert all(one >= other for one, other in widths)
    assert sum(one for one, _ in widths) > 1.1 * sum(other for _, other in widths)


def test_volumes_smaller_than_a_patch_are_padded(folder: Path) -> None:
    shape = {**SIZE.shape, "patch_depth": 64}
    patch, target = items(folder, "fixed_patch_shape", size=replace(SIZE, shape=shape))[0]
    assert patch.shape == target.shape == (1, 64, 16, 16)


@pytest.mark.parametrize(
    ("method", "workers", "name"), [("fork", 2, "uint8_median"), ("spawn", 1, "precomputed_preparation")]
)
def test_workers_give_the_same_items(folder: Path, method: str, workers: int, name: str) -> None:
    ours = items(folder, name)
    expected = [ours[number] for number in range(4)]  # the trainer's own cache is warm when workers start
    context = multiprocessing.get_context(method)
    loaded = DataLoader(ours, batch_size=1, sampler=range(4), num_workers=workers, multiprocessing_context=context)
    for (patch, target), (want, label) in zip(loaded, expected, strict=True):
        assert torch.equal(patch[0], want)
        assert torch.equal(target[0], label)


def test_a_worker_gets_a_small_pickle_and_an_empty_cache(folder: Path) -> None:
    ours = items(folder, "precomputed_preparation", "larger_volume_cache=all")
    before = len(pickle.dumps(ours))
    ours[0]
    copied = pickle.loads(pickle.dumps(ours))  # noqa: S301
    assert len(pickle.dumps(ours)) == before < 4_000
    assert not copied.volumes.kept
    assert copied.volumes.capacity == 5


def test_a_newer_numpy_may_complain_of_tifffile_and_of_nobody_else() -> None:
    """Warnings are errors in these tests; there, they would say nothing of ours."""
    told = "Setting the shape on a NumPy array has been deprecated."
    warnings.warn_explicit(told, DeprecationWarning, "tifffile.py", 1, module="tifffile.tifffile")
    with pytest.raises(DeprecationWarning):
        warnings.warn_explicit(told, DeprecationWarning, "corpus.py", 1, module="workloads.patches3d.corpus")
