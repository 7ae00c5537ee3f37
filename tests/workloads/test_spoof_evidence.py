"""What an arm of the anti-spoofing workload reports of itself: what it does, and not what it was told."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from harness.core.configuration import Conflict, Option, compose, expected, inactive
from harness.core.recipe import Recipe
from harness.core.workload import Built
from tests.measure.tasks import CATALOGUE
from workloads.spoof import WORKLOAD, corpus, evidence, mel, torch_mel
from workloads.spoof.data import FeatureItems, SoundItems, dataset, device_stage
from workloads.spoof.model import DEPTHS, SEResNet
from workloads.spoof.sources import Computed
from workloads.spoof.yardsticks import yardsticks

torch.set_num_threads(1)

SIZE = WORKLOAD.sizes["smoke"]
CPU = torch.device("cpu")
OWN = {name: one for name, one in CATALOGUE.optimizations.items() if one.workload == "spoof"}
MODELS: dict[str, nn.Module] = {}
STACKS: list[tuple[str, ...]] = [
    *((name, *one.requires) for name, one in OWN.items()),
    ("crop_before_mel", "device_mel"),
    ("crop_before_mel", "torch_mel", "fake_or_real"),
    ("cpu_augmentation", "device_mel"),
    ("fake_or_real", "no_tiling", "device_mel"),
    ("fake_or_real", "no_tiling", "feature_cache", "single_pass_scoring"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.getbasetemp() / "spoof_smoke"  # written once for all files of tests
    if not path.exists():
        path.mkdir()
        list(corpus.prepare(path, SIZE))
    return path


def recipe(*names: str) -> Recipe:
    return compose(WORKLOAD, [Option(name=name) for name in names], CATALOGUE.optimizations)


def built(folder: Path, *names: str) -> Built:
    size = replace(SIZE, shape={**SIZE.shape, "frames": 404})  # as in the original, so that short clips are repeated
    chosen = recipe(*names)
    items = dataset(folder, size, chosen)
    batch: Any = items.__getitems__([0, 1]) if isinstance(items, SoundItems) else [items[0][0][None], items[0][1]]
    with torch.device("meta"):
        model = SEResNet(DEPTHS[str(chosen.choice("model"))])
    model.register_parameter("anchor", nn.Parameter(torch.zeros(1)))
    model._parameters = {"anchor": model._parameters["anchor"]}  # the first parameter tells the device
    stage = device_stage(folder, size, chosen, CPU)
    return Built(dataset=items, model=model, loss=nn.Identity(), device_stage=stage, batch=batch)


def shown(folder: Path, *names: str) -> Any:
    return evidence.effective(built(folder, *names))


@pytest.mark.parametrize("names", STACKS, ids="+".join)
def test_a_stack_proves_all_of_itself_and_nothing_else(folder: Path, names: tuple[str, ...]) -> None:
    seen = shown(folder, *names)
    for name, optimization in OWN.items():
        assert bool(inactive(expected(optimization, None), seen)) == (name not in names), (name, seen)


def test_as_found_every_item_is_decoded_and_worked_out_whole_in_float64(folder: Path) -> None:
    seen = shown(folder)
    assert (seen["features"], seen["travelling"]) == ("float64", "float32")
    assert (seen["decoded_clips_per_item"], seen["cache_hits_per_item"]) == (1.0, 0.0)
    assert (seen["mel_drift_db"], seen["off_from_as_found_db"]) == (0.0, 0.0)
    assert seen["scoring_passes"] == 2
    assert 0 < seen["frames_computed_per_frame_seen"] != 1
    assert not any(inactive({"tiling": True, "input_frames": 404, "model": "se_resnet18"}, seen))


def test_the_cache_is_counted_and_decodes_nothing(folder: Path) -> None:
    seen = shown(folder, "feature_cache")
    assert (seen["decoded_clips_per_item"], seen["cache_hits_per_item"]) == (0.0, 1.0)
    assert 0 < seen["mel_drift_db"] < 0.04


def test_cutting_early_is_far_from_as_found_though_its_mel_is_right(folder: Path) -> None:
    seen = shown(folder, "crop_before_mel")
    assert seen["mel_drift_db"] == 0.0
    assert seen["off_from_as_found_db"] > 3


def test_a_port_with_other_filters_or_another_reference_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = torch_mel.decibels
    monkeypatch.setattr(torch_mel, "decibels", lambda power, _loudest: right(power, power.new_ones(())))
    torch_mel._here.cache_clear()
    for name in ("torch_mel", "device_mel"):
        assert inactive(expected(OWN[name], None), shown(folder, name)) == (
            "mel_drift_below_0.1_db is False, not True",
        )
    monkeypatch.setattr(torch_mel, "decibels", right)
    monkeypatch.setattr(
        torch_mel, "filters", lambda: mel.filters() * np.linspace(1, 1.05, 128, dtype=np.float32)[:, None]
    )
    torch_mel._here.cache_clear()
    for name in ("torch_mel", "device_mel"):
        assert not shown(folder, name)["mel_drift_below_0.1_db"]
    monkeypatch.undo()
    torch_mel._here.cache_clear()


def test_reports_what_the_kernel_gives_whatever_was_asked_for(folder: Path) -> None:
    asked = built(folder, "torch_mel")
    items = asked.dataset
    assert isinstance(items, FeatureItems)
    assert isinstance(items.source, Computed)
    swapped = replace(items, source=Computed(audio=items.source.audio, mel=mel.log_mel))
    assert evidence.effective(replace(asked, dataset=swapped))["features"] == "float32"
    with pytest.raises(TypeError, match="nothing there makes features"):
        evidence.effective(replace(built(folder, "device_mel"), device_stage=None))


@pytest.mark.parametrize("one", ["feature_cache", "torch_mel", "float32_mel"])
def test_features_come_from_one_place(one: str) -> None:
    with pytest.raises(Conflict, match="both set features"):
        recipe(one, "device_mel")


@pytest.mark.parametrize(
    "pair",
    [("feature_cache", "crop_before_mel"), ("feature_cache", "cpu_augmentation"), ("crop_before_mel", "no_tiling")],
)
def test_what_cannot_be_together_says_why(pair: tuple[str, str]) -> None:
    with pytest.raises(Conflict, match="excludes"):
        recipe(*pair)


def test_yardsticks_weigh_as_the_real_files_do(folder: Path) -> None:
    seen = []
    for one in yardsticks(folder, SIZE):
        assert one.like is not None
        one.work()
        one.like()
        seen.append(one)
    assert [one.what.split(",")[0] for one in seen] == ["a FLAC clip of 3.5 s"] * 2 + ["a WAV clip of 2 s"] * 2
    for one in seen:
        assert one.mean_bytes == pytest.approx(one.target_bytes, rel=0.2)
        assert 50_000 < one.mean_bytes < 90_000
    assert seen[0].scale == pytest.approx(1, abs=0.1)
    assert seen[2].scale == SIZE.shape["fake_or_real_ms"] / 2_000
