"""Augmentation, evaluation, the score, what is seen as effective, and the yardsticks of the patches3d workload."""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter
from torch import Tensor, nn

from harness.core.configuration import Conflict, expected, inactive, parse_option
from harness.core.workload import Built
from tests.workloads.test_patches3d_data import OWN, SIZE, items, recipe, written
from workloads._evaluation_reading import Reading
from workloads.patches3d import WORKLOAD, augmentation, device, evaluation, layout, synthesis
from workloads.patches3d.augmentation import Geometry, Resamplings
from workloads.patches3d.cache import VolumeCache
from workloads.patches3d.device import augmented
from workloads.patches3d.evaluation import Course, course_of, evaluate, stacks, tiles
from workloads.patches3d.model import Prediction
from workloads.patches3d.observation import effective
from workloads.patches3d.preparation import Volume, Work
from workloads.patches3d.score import dice, dice_of_each, intersection_over_union

torch.set_num_threads(1)

CPU = torch.device("cpu")
STILL = Geometry(flipped=(), plane=(0, 1), degrees=0.0, zoom=1.0, stretch=(1.0, 1.0, 1.0), seed=1)


class Threshold(nn.Module):
    """Finds surface by grey level, in place of the network: fast, and right where the data can be learned."""

    def __init__(self) -> None:
        super().__init__()
        self.at = nn.Parameter(torch.tensor(1.2))

    def forward(self, patches: Tensor) -> Prediction:
        full = patches - self.at
        coarse = tuple(nn.functional.avg_pool3d(full, factor) for factor in (8, 4, 2))
        return Prediction(full, coarse)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("patches3d"))


@pytest.fixture(scope="module")
def smooth() -> tuple[np.ndarray, np.ndarray]:
    image, label = synthesis.volume(0, 48)
    return gaussian_filter(image.astype(np.float32) - 100, 2), (label == 1).astype(np.uint8)


def test_one_interpolation_follows_the_same_geometry_as_four(
    smooth: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(augmentation, "ELASTIC_VOXELS", 1e-3)
    geometry = replace(STILL, flipped=(0, 2), plane=(0, 2), degrees=15.0, zoom=1.1, stretch=(1.0, 1.2, 0.9))
    four, once = (
        resample(*smooth, geometry, Resamplings())
        for resample in (augmentation.one_after_another, augmentation.all_at_once)
    )
    assert four[0].shape == once[0].shape == four[1].shape == (53, 64, 48)
    middle = (slice(14, -14),) * 3
    assert np.corrcoef(four[0][middle].ravel(), once[0][middle].ravel())[0, 1] > 0.995
    assert dice(four[1][middle] > 0, once[1][middle] > 0) > 0.85
    unflipped = augmentation.all_at_once(*smooth, replace(geometry, flipped=()), Resamplings())
    assert np.corrcoef(four[0][middle].ravel(), unflipped[0][middle].ravel())[0, 1] < 0.9


def test_labels_move_with_the_grey_levels(smooth: tuple[np.ndarray, np.ndarray]) -> None:
    image, label = smooth[1].astype(np.float32), smooth[1]
    for resample in (augmentation.one_after_another, augmentation.all_at_once):
        geometry = augmentation.drawn(np.random.default_rng(5))
        moved, labels = resample(image, label, geometry, Resamplings())
        assert dice(moved > 0.5, labels > 0) > 0.8
        assert labels.dtype == np.uint8


def test_gamma_keeps_the_darker_half() -> None:
    image = np.random.default_rng(0).standard_normal((16, 16, 16)).astype(np.float32)
    for seed in range(5):
        recoloured = augmentation.recoloured(image, np.random.default_rng(seed))
        assert recoloured.dtype == np.float32
        dark = image < -1
        assert recoloured[dark].std() > 0.1
        assert recoloured[dark].mean() < recoloured[~dark].mean() - 0.3


def test_elastic_displacement_is_smooth_and_of_the_stated_size() -> None:
    field = augmentation.displacement((24, 24, 24), augmentation.ELASTIC_SIGMA, seed=3)
    assert field.shape == (3, 24, 24, 24)
    np.testing.assert_allclose(field.std(axis=(1, 2, 3)), augmentation.ELASTIC_VOXELS, rtol=1e-3)
    assert np.abs(np.diff(field, axis=1)).max() < 2


def test_device_augmentation_moves_both_alike_and_depends_on_the_seed_alone(folder: Path) -> None:
    patches = items(folder, "device_augmentation", "precomputed_preparation")
    image, target, seed = patches[0]
    assert (image.shape, target.shape, seed.shape) == ((1, 48, 16, 16), (1, 48, 16, 16), ())
    other = patches[1]
    batch = tuple(map(torch.stack, zip(patches[0], other, strict=True)))
    before = [one.clone() for one in batch]
    together, alone = augmented(batch), augmented(tuple(one[None] for one in other))  # type: ignore[arg-type]
    assert all(torch.equal(one, was) for one, was in zip(batch, before, strict=True))
    assert torch.equal(together[0][1], alone[0][0])
    assert torch.equal(together[1][1], alone[1][0])
    assert set(together[1].unique().tolist()) == {0.0, 1.0}
    smooth = torch.nn.functional.avg_pool3d(target[None].expand(2, -1, -1, -1, -1), 3, 1, 1)
    seeds = torch.tensor([5, 6])
    moved, labels = augmented((smooth, target[None].expand(2, -1, -1, -1, -1), seeds))
    assert torch.corrcoef(torch.stack((moved.flatten(), labels.flatten())))[0, 1] > 0.5
    assert not torch.equal(labels[0], labels[1])


def test_device_augmentation_turns_voxels_and_not_shares_of_the_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("ZOOM", (1.0, 1.0)), ("STRETCH", (1.0, 1.0)), ("ELASTIC_VOXELS", 0.0)):
        monkeypatch.setattr(device, name, value)
    for seed, plane in enumerate(device.PLANES):
        chance = device.Chance(torch.Generator().manual_seed(seed), CPU)
        places = device._grid((18, 34, 30), chance, plane)[0] * torch.tensor([29, 33, 17]) / 2
        for axis in range(3):
            steps = places.diff(dim=axis).norm(dim=-1)
            torch.testing.assert_close(steps, torch.ones_like(steps), rtol=1e-4, atol=1e-4)


def test_dice_of_cases_worked_out_by_hand() -> None:
    one, other = np.array([True, True, False, False]), np.array([True, False, True, False])
    assert dice(one, one) == 1
    assert dice(one, other) == 0.5
    assert dice(one, ~one) == 0
    assert dice(one & ~one, one & ~one) == 1
    for found, true in ((one, one), (one, other), (one, ~one)):
        overlap = (found & true).sum() / (found | true).sum()
        assert intersection_over_union(dice(found, true)) == pytest.approx(overlap)
    assert intersection_over_union(dice(one & ~one, one & ~one)) == 1
    masks = torch.from_numpy(np.stack([one, one, one & ~one])), torch.from_numpy(np.stack([other, ~one, one & ~one]))
    assert dice_of_each(*masks).tolist() == [0.5, 0, 1]


def test_tiles_cover_a_volume_and_stay_inside() -> None:
    covered = np.zeros((20, 16, 33), int)
    boxes = list(tiles(covered.shape, (8, 16, 16)))
    for box in boxes:
        covered[box] += 1
        assert all(part.stop - part.start == side for part, side in zip(box, (8, 16, 16), strict=True))
    assert covered.min() == 1
    assert len(boxes) == 3 * 1 * 3
    assert list(tiles((4, 4, 4), (8, 8, 8))) == [(slice(0, 8),) * 3]


def reading(workers: int = 0) -> Reading:
    return Reading(model=Threshold(), recipe=replace(recipe(), evaluation_workers=workers), device=CPU)


def test_a_pass_takes_fixed_patches_of_all_held_out_volumes(folder: Path) -> None:
    course = course_of(folder, SIZE, recipe("precomputed_preparation"))
    pairs = list(course.patches(reading()))
    assert len(pairs) == SIZE.evaluation_items
    assert {tuple(image.shape) for image, _ in pairs} == {(1, 48, 16, 16)}
    assert all(torch.equal(one[0], other[0]) for one, other in zip(pairs, course.patches(reading()), strict=True))
    assert len({image.sum().item() for image, _ in pairs}) == len(pairs)


def noting(course: Course, folder: Path, log: Path, items: int) -> Course:
    """The course over so many patches of all volumes; each volume that is read is noted with the process."""

    def load(identifier: str, work: Work) -> Volume:
        with log.open("a", encoding="utf-8") as lines:
            lines.write(f"{identifier} {os.getpid()}\n")
        return course.volumes.load(identifier, work)

    return replace(course, identifiers=layout.read_identifiers(folder), volumes=VolumeCache(load, 1), items=items)


@pytest.mark.parametrize(("items", "read"), [(12, 6), (3, 3), (8, 4), (7, 4)])
def test_each_volume_is_read_once_whoever_reads_it(folder: Path, tmp_path: Path, items: int, read: int) -> None:
    whole = course_of(folder, SIZE, recipe("precomputed_preparation"))
    patches = {}
    for workers in (0, 2):
        log = tmp_path / str(workers)
        course = noting(whole, folder, log, items)
        patches[workers] = list(course.patches(reading(workers)))
        noted = [line.split() for line in log.read_text(encoding="utf-8").splitlines()]
        assert sorted(volume for volume, _ in noted) == sorted(course.identifiers[:read])
        assert len({process for _, process in noted}) == max(1, workers)
    assert len(patches[0]) == len(patches[2]) == items
    for one, other in zip(patches[0], patches[2], strict=True):
        assert all(torch.equal(part, same) for part, same in zip(one, other, strict=True))
    together = [images for images, _ in stacks(iter(patches[2]), 4)]
    assert [len(images) for images in together] == [4] * (items // 4) + [items % 4] * (items % 4 > 0)
    assert torch.equal(torch.cat(together), torch.stack([image for image, _ in patches[0]]))


def test_workers_that_stay_prepare_every_volume_again_in_each_pass(folder: Path, tmp_path: Path) -> None:
    """Two volumes for two workers, each of which could keep one, and would be given the same one again."""
    log = tmp_path / "read"
    course = noting(course_of(folder, SIZE, recipe("precomputed_preparation")), folder, log, items=2)
    staying = replace(recipe(), evaluation_workers=2, evaluation_persistent_workers=True)
    stays = Reading(model=Threshold(), recipe=staying, device=CPU)
    passes = [list(course.patches(stays)) for _ in range(3)]
    assert stays.effective["evaluation_persistent_workers"] is True
    noted = [line.split() for line in log.read_text(encoding="utf-8").splitlines()]
    assert len({process for _, process in noted}) == 2
    assert Counter(volume for volume, _ in noted) == dict.fromkeys(course.identifiers[:2], len(passes))
    assert all(torch.equal(one[0], again[0]) for one, again in zip(passes[0], passes[2], strict=True))


def test_small_volumes_are_made_up_for_by_further_ones(folder: Path, tmp_path: Path) -> None:
    whole = replace(course_of(folder, SIZE, recipe("precomputed_preparation")), shape=(64, 64, 64))  # a tile of each
    for workers in (0, 2):
        course = noting(whole, folder, tmp_path / str(workers), items=8)
        assert course.parts == 4
        assert len(list(course.patches(reading(workers)))) == 6


def test_stacks_give_the_answers_of_one_by_one(folder: Path) -> None:
    model = Threshold()
    one_by_one = evaluate(model, folder, SIZE, recipe(), CPU)
    stacked = evaluate(model, folder, SIZE, replace(recipe(), batched_evaluation=True, inference_mode=True), CPU)
    assert stacked.answers == one_by_one.answers
    assert stacked.score == one_by_one.score == pytest.approx(sum(one_by_one.answers) / SIZE.evaluation_items)
    assert one_by_one.items == len(one_by_one.answers) == SIZE.evaluation_items
    assert one_by_one.score > 0.5
    assert evaluate(model, folder, SIZE, recipe(), CPU) == one_by_one


def test_rows_in_the_wrong_order_show_in_the_answers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = evaluate(Threshold(), folder, SIZE, recipe(), CPU)

    def swapped(reading: Reading, course: Course, _stacked: int) -> list[float]:
        return evaluation.answers_one_by_one(reading, course)[::-1]

    monkeypatch.setattr(evaluation, "answers_in_stacks", swapped)
    mapped = evaluate(Threshold(), folder, SIZE, replace(recipe(), batched_evaluation=True), CPU)
    assert mapped.score == pytest.approx(honest.score)
    assert mapped.answers != honest.answers


def built(folder: Path, *names: str) -> Built:
    parts, chosen = WORKLOAD.parts(), recipe(*names)
    dataset, loss = parts.dataset(folder, SIZE, chosen), parts.loss(SIZE, chosen)
    stage = parts.device_stage(folder, SIZE, chosen, CPU)
    batch = tuple(one[None] for one in dataset[3])
    patches, targets = stage(batch) if stage else batch
    loss(Threshold()(patches), targets)
    return Built(dataset=dataset, model=Threshold(), loss=loss, device_stage=stage, batch=batch)


STACKS = [
    (),
    ("precomputed_preparation",),
    ("uint8_median", "larger_volume_cache=half"),
    ("halo_cropped_filter", "fixed_patch_shape"),
    ("larger_volume_cache=all", "composed_resample"),
    ("precomputed_preparation", "device_augmentation", "single_scale_heavy_losses"),
    ("precomputed_preparation", "loader_distance_transform", "deferred_loss_components"),
    ("precomputed_preparation", "patch_size=125"),
    ("device_augmentation", "patch_size=150"),
]


@pytest.mark.parametrize("names", STACKS, ids="+".join)
def test_what_is_reported_as_effective_is_what_the_stack_promises(folder: Path, names: tuple[str, ...]) -> None:
    options = {option.name: option for option in map(parse_option, names)}
    shared = {"device_augmentation": {"fixed_patch_shape"}}  # a fixed shape is part of it
    also = set().union(*(shared.get(name, set()) for name in options))
    seen = effective(built(folder, *names))
    for name, optimization in OWN.items():
        level = options[name].level if name in options else (optimization.levels or (None,))[-1]
        active = not inactive(expected(optimization, level), seen)
        assert active == (name in options or name in also), name


def test_effective_counts_the_work_of_an_item(folder: Path) -> None:
    found, halo, ready = (effective(built(folder, *names)) for names in ((), STACKS[3], STACKS[1]))
    assert (found["prepared_volumes_per_item"], found["filtered_voxels_per_item"]) == (1, 48**3)
    assert halo["filtered_voxels_per_item"] in range(40 * 16 * 16, 50 * 18 * 18 + 1)
    assert (ready["prepared_volumes_per_item"], ready["filtered_voxels_per_item"]) == (0, 0)
    assert found["cached_volumes"] == 1
    assert found["cache_hits_percent"] == pytest.approx(20, abs=6)
    assert effective(built(folder, "larger_volume_cache=all"))["cache_hits_percent"] == 99
    assert found["distance_every_steps"] == 1


def test_effective_believes_what_was_done_and_not_what_was_chosen(folder: Path) -> None:
    lying = built(folder, "precomputed_preparation")
    lying.dataset.volumes.load = items(folder, "uint8_median").volumes.load  # type: ignore[attr-defined]
    assert effective(lying)["preparation"] == "uint8"
    cached = built(folder, "larger_volume_cache=all")
    cached.dataset.volumes.capacity = 1  # type: ignore[attr-defined]
    assert effective(cached)["volume_cache"] == "50 of 806"


def test_validation_keeps_its_patches(folder: Path) -> None:
    course = course_of(folder, SIZE, recipe("precomputed_preparation", "patch_size=150"))
    assert {tuple(image.shape) for image, _ in course.patches(reading())} == {(1, 48, 16, 16)}


def test_stacks_that_cannot_be_are_refused_with_words() -> None:
    with pytest.raises(Conflict, match="the device moves the surface after the loader has measured"):
        recipe("device_augmentation", "loader_distance_transform")
    with pytest.raises(Conflict, match="both set preparation"):
        recipe("uint8_median", "halo_cropped_filter")
    with pytest.raises(Conflict, match="both set resampling"):
        recipe("composed_resample", "device_augmentation")
    assert recipe("fixed_patch_shape", "device_augmentation").choice("patch_shape") == "fixed"


@pytest.fixture
def smaller(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    from workloads.patches3d import yardsticks

    monkeypatch.setattr(yardsticks, "REAL_SIDE", 64)
    yardsticks._neutral_folder.cache_clear()
    yield
    for side in (48, 64):
        yardsticks._neutral_folder(side).cleanup()
    yardsticks._neutral_folder.cache_clear()


@pytest.mark.usefixtures("smaller")
def test_yardsticks_do_the_same_work_on_our_files_and_on_neutral_ones(folder: Path) -> None:
    sticks = list(WORKLOAD.parts().yardsticks(folder, SIZE))
    assert [stick.published_ms for stick in sticks] == [None, 32_500, None]
    for stick in sticks:
        assert stick.like is not None
        assert type(stick.work()) is type(stick.like())
    reading, preparing, copying = sticks
    for stick in (reading, preparing):
        assert stick.mean_bytes == pytest.approx(stick.target_bytes * stick.scale, rel=0.2)
    assert preparing.scale == pytest.approx((48 / 64) ** 3)
    assert reading.scale == copying.scale == 1
    assert copying.work().shape == (48, 16, 16)  # type: ignore[attr-defined]
    assert copying.like().shape == (48, 16, 16)  # type: ignore[attr-defined, misc]
