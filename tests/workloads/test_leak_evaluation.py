"""The leak classifier's evaluation: same verdicts in both shapes, and a score that notices damage."""

from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from harness.core.recipe import Recipe
from workloads.leak import WORKLOAD, evaluation
from workloads.leak.data import VALIDATION, prepare
from workloads.leak.datasets import dataset
from workloads.leak.evaluation import evaluate, f1, judge_at_once, judge_one_by_one, leak_probability
from workloads.leak.loss import build_loss
from workloads.leak.model import LeakCNNMulti, build_model, build_optimizer
from workloads.leak.signals import LEAK

torch.set_num_threads(1)
CPU = torch.device("cpu")
OWN = (("chunk_cache_mib", None),)
SIZE = replace(WORKLOAD.sizes["smoke"], shape={"files": 120, "validation_files": 40, "classes": 5}, evaluation_items=40)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("leak")
    list(prepare(path, SIZE))
    return path


@pytest.fixture(scope="module")
def trained(folder: Path) -> LeakCNNMulti:
    """The network after thirty steps of 128 segments."""
    torch.manual_seed(0)
    model, loss = build_model(SIZE), build_loss(SIZE)
    optimizer = build_optimizer(list(model.parameters()), {})
    data = dataset(folder, SIZE, Recipe(own=OWN, batched_fetch=True))
    for step in range(30):
        inputs, targets = data.__getitems__(list(range(step * 128, step * 128 + 128)))  # type: ignore[union-attr]
        optimizer.zero_grad()
        loss(model(inputs), targets).backward()
        optimizer.step()
    return model


def test_training_leads_from_nothing_to_most_leaks(folder: Path, trained: LeakCNNMulti) -> None:
    torch.manual_seed(0)
    recipe = Recipe(own=OWN, batched_evaluation=True)
    everything_leaks = 2 * 0.4 / 1.4
    assert evaluate(build_model(SIZE), folder, SIZE, recipe, CPU).score <= everything_leaks
    assert evaluate(trained, folder, SIZE, recipe, CPU).score > 0.75


@pytest.mark.parametrize("chunk_files", [7, 64])
def test_both_shapes_give_the_same_verdicts(
    folder: Path, trained: LeakCNNMulti, chunk_files: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(evaluation.CHUNK_FILES, "cpu", chunk_files)
    with h5py.File(folder / VALIDATION, "r") as split, torch.no_grad():
        trained.eval()
        slow = judge_one_by_one(trained, split, 40, CPU)
        fast = judge_at_once(trained, split, 40, CPU)
    assert 5 < slow.sum() < 25
    np.testing.assert_array_equal(slow, fast)


@pytest.mark.parametrize("inference_mode", [False, True])
def test_both_shapes_give_the_same_score(folder: Path, trained: LeakCNNMulti, *, inference_mode: bool) -> None:
    as_found = Recipe(own=OWN, inference_mode=inference_mode)
    slow = evaluate(trained, folder, SIZE, as_found, CPU)
    fast = evaluate(trained, folder, SIZE, replace(as_found, batched_evaluation=True), CPU)
    assert slow == fast
    assert slow.items == 40


def test_verdicts_on_the_wrong_files_cost_the_score(folder: Path, trained: LeakCNNMulti) -> None:
    with h5py.File(folder / VALIDATION, "r") as split, torch.no_grad():
        found = judge_at_once(trained.eval(), split, 40, CPU)
        truth = split["labels"][:] == LEAK
    wrong = [f1(np.roll(found, shift), truth) for shift in range(1, 40)]
    assert max(wrong) < f1(found, truth)
    assert np.mean(wrong) < f1(found, truth) - 0.25


class Scripted(nn.Module):
    """Says what the first mel of each segment tells it to."""

    def forward(self, mel: Tensor) -> tuple[Tensor, Tensor]:
        leak = mel[:, 0, 0, 0]
        logits = torch.full((len(mel), 5), -100.0)
        logits[:, LEAK] = 100 * leak
        logits[:, 0] = 0.0
        return logits, 100 * leak


@pytest.mark.parametrize(("longs", "leaks"), [(19, False), (20, True)])
def test_a_file_leaks_when_half_of_its_longs_say_so(tmp_path: Path, longs: int, *, leaks: bool) -> None:
    mel = np.full((1, 40, 2, 64, 1), -1, np.float16)
    mel[0, :longs] = 1
    with h5py.File(tmp_path / "one", "w") as split:
        split["segments_mel"] = mel
        for judge in (judge_one_by_one, judge_at_once):
            assert judge(Scripted(), split, 1, CPU).tolist() == [leaks]


def test_the_probability_is_the_mean_over_heads_and_shorts() -> None:
    mel = torch.zeros(1, 40, 2, 64, 1)
    mel[0, :, 0] = 1  # of the two shorts of each long, one is a leak for sure and one a draw for both heads
    torch.testing.assert_close(leak_probability(Scripted(), mel), torch.full((1, 40), 0.75))


@pytest.mark.parametrize("training", [False, True])
def test_the_mode_of_the_model_comes_back(folder: Path, *, training: bool) -> None:
    model = build_model(SIZE).train(training)
    evaluate(model, folder, replace(SIZE, evaluation_items=2), Recipe(own=OWN), CPU)
    assert all(module.training is training for module in model.modules())


def test_f1_of_a_collapsed_model_is_zero() -> None:
    truth = np.array([True, False, False, True])
    assert f1(np.zeros(4, dtype=np.bool_), truth) == 0.0
    assert f1(np.zeros(4, dtype=np.bool_), np.zeros(4, dtype=np.bool_)) == 0.0
    assert f1(np.array([True, True, False, False]), truth) == 0.5
    assert f1(truth, truth) == 1.0
