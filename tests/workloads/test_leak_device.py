"""The leak classifier's device stage: segments that wait on the device, and masks that do not depend on who draws."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from harness.core.mistake import Mistake
from harness.core.recipe import Recipe, Value
from harness.core.workload import Built
from workloads.leak import WORKLOAD
from workloads.leak.augmentation import draw, hide, hide_all, span
from workloads.leak.data import prepare
from workloads.leak.datasets import dataset
from workloads.leak.device import Gather, device_stage
from workloads.leak.evidence import effective
from workloads.leak.loss import build_loss
from workloads.leak.model import build_model

torch.set_num_threads(1)
CPU = torch.device("cpu")
SMOKE = WORKLOAD.sizes["smoke"]
MASKED: dict[str, dict[str, Value]] = {
    "per item": {"spec_augment": "per_item"},
    "per item of a batch": {"spec_augment": "per_item", "batched_fetch": True},
    "on device": {"spec_augment": "on_device"},
    "on device, by batches": {"spec_augment": "on_device", "batched_fetch": True},
    "on device, all of it": {"spec_augment": "on_device", "data_on_device": True},
}


def recipe(**choices: Any) -> Recipe:
    own = {name: choices.pop(name, value) for name, value in WORKLOAD.own.items()}
    return Recipe(own=tuple(sorted(own.items())), **choices)


def finished(batch: Any) -> Any:
    return batch


def first_batch(folder: Path, chosen: Recipe, workers: int = 0) -> tuple[Any, Any, tuple[Tensor, ...]]:
    """The data set, the device stage and what the loader hands over."""
    data = dataset(folder, SMOKE, chosen)
    keywords: dict[str, Any] = {"collate_fn": finished} if getattr(data, "collated", False) else {}
    loader = DataLoader(data, batch_sampler=[list(range(64))], num_workers=workers, **keywords)
    return data, device_stage(folder, SMOKE, chosen, CPU), tuple(next(iter(loader)))


def pair(folder: Path, choices: dict[str, Value], workers: int = 0) -> tuple[Tensor, Tensor]:
    _, stage, batch = first_batch(folder, recipe(**choices), workers)
    inputs, targets = stage(batch) if stage else batch
    return inputs, targets


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("leak")
    list(prepare(path, SMOKE))
    return path


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("way", MASKED)
def test_whoever_draws_the_masks_they_are_the_same(folder: Path, way: str, workers: int) -> None:
    expected, labels = pair(folder, MASKED["per item"])
    inputs, targets = pair(folder, MASKED[way], workers)
    assert inputs.equal(expected)
    assert targets.equal(labels)
    plain, _ = pair(folder, {})
    changed = inputs != plain
    assert not inputs[changed].any()
    assert 0.7 < changed.flatten(1).any(1).float().mean() < 1


@pytest.mark.parametrize("way", MASKED)
def test_effective_sees_who_masks(folder: Path, way: str) -> None:
    data, stage, batch = first_batch(folder, recipe(**MASKED[way]))
    assert shown(data, stage, batch)["spec_augment"] == MASKED[way]["spec_augment"]


def test_effective_sees_that_nobody_masks(folder: Path) -> None:
    for choices in ({}, {"batched_fetch": True}, {"data_on_device": True}):
        assert shown(*first_batch(folder, recipe(**choices)))["spec_augment"] is None


def shown(data: Any, stage: Any, batch: Any) -> dict[str, Value]:
    model, loss = build_model(SMOKE, recipe()), build_loss(SMOKE, recipe())
    return dict(effective(Built(dataset=data, model=model, loss=loss, device_stage=stage, batch=batch)))


def test_a_stage_changes_no_batch(folder: Path) -> None:
    for choices in MASKED.values():
        _, stage, batch = first_batch(folder, recipe(**choices))
        before = [part.clone() for part in batch]
        if stage:
            first, again = stage(batch), stage(batch)
            assert first[0].equal(again[0])
        assert all(part.equal(was) for part, was in zip(batch, before, strict=True))


def test_segments_on_the_device_cannot_be_masked_by_the_loader(folder: Path) -> None:
    with pytest.raises(Mistake, match="use device_spec_augment"):
        dataset(folder, SMOKE, recipe(spec_augment="per_item", data_on_device=True))


def test_the_loader_hands_over_eight_bytes_a_sample(folder: Path) -> None:
    _, stage, batch = first_batch(folder, recipe(data_on_device=True))
    assert [(part.dtype, tuple(part.shape)) for part in batch] == [(torch.int64, (64,))]
    assert isinstance(stage, Gather)
    assert (stage.mel.dtype, tuple(stage.mel.shape)) == (torch.float16, (24 * 80, 1, 64, 1))
    assert stage.mel.nbytes == 24 * 80 * 128


def test_segments_on_the_device_are_seen_and_must_be_half_precision(folder: Path) -> None:
    data, stage, batch = first_batch(folder, recipe(data_on_device=True))
    assert shown(data, stage, batch)["data_on_device"] is True
    assert shown(data, Gather(stage.mel.float(), stage.labels), batch)["data_on_device"] is False


def test_python_and_torch_draw_the_same_numbers() -> None:
    numbers = [0, 1, 79, 80, 3_165_039]
    for stream in range(4):
        assert draw(torch.tensor(numbers), stream).tolist() == [draw(number, stream) for number in numbers]


def test_draws_are_spread_evenly_and_streams_differ() -> None:
    numbers = torch.arange(80_000)
    for stream in range(4):
        shares = torch.bincount(draw(numbers, stream) % 8, minlength=8) / len(numbers)
        torch.testing.assert_close(shares, torch.full((8,), 0.125), rtol=0.05, atol=0)
    pairs = torch.stack([draw(numbers, stream).double() for stream in range(4)])
    assert (torch.corrcoef(pairs) - torch.eye(4)).abs().max() < 0.02


@pytest.mark.parametrize(("length", "widest"), [(64, 7), (32, 7), (4, 3), (1, 0)])
def test_a_mask_stays_inside_and_never_hides_everything(length: int, widest: int) -> None:
    first, after = span(torch.arange(5_000), 0, length, 8)
    assert first.min() >= 0
    assert after.max() <= length
    assert (after - first).unique().tolist() == list(range(widest + 1))


@pytest.mark.parametrize("shape", [(64, 1), (32, 8)])
def test_one_by_one_and_all_at_once_hide_the_same(shape: tuple[int, int]) -> None:
    mel = np.random.default_rng(0).standard_normal((500, 1, *shape)).astype(np.float16)
    at_once = hide_all(torch.from_numpy(mel), torch.arange(500)).numpy()
    one_by_one = np.stack([hide(mel[number], number) for number in range(500)])
    np.testing.assert_array_equal(at_once, one_by_one)
    hidden_frames = (one_by_one == 0).all(axis=(1, 2)).sum(1)
    assert hidden_frames.max() == min(5, shape[1] - 1)
