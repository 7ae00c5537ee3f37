"""The leak classifier's evaluation: same answers in both shapes, and a score that notices damage."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from harness.core.recipe import Recipe
from harness.core.workload import Evaluation
from workloads.leak import WORKLOAD
from workloads.leak.classes import LEAK, counts
from workloads.leak.data import prepare
from workloads.leak.datasets import dataset
from workloads.leak.evaluation import Judge, evaluate, evenly_chosen, judged_at_once, judged_one_by_one, verdicts
from workloads.leak.layouts import VALIDATION
from workloads.leak.loss import build_loss
from workloads.leak.model import LeakCNNMulti, build_model, build_optimizer
from workloads.leak.score import accuracy, f1, precision, recall

torch.set_num_threads(1)
CPU = torch.device("cpu")
SHAPE = {**WORKLOAD.sizes["smoke"].shape, "files": 120, "validation_files": 40, "training_waveforms": 0}
SIZE = replace(WORKLOAD.sizes["smoke"], shape=SHAPE, evaluation_items=40)


def recipe(**choices: Any) -> Recipe:
    own = {name: choices.pop(name, value) for name, value in WORKLOAD.own.items()}
    return Recipe(own=tuple(sorted(own.items())), **choices)


def judge(model: nn.Module, leak: int = LEAK) -> Judge:
    return Judge(model=model, leak=leak, device=CPU)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("leak")
    list(prepare(path, SIZE))
    return path


@pytest.fixture(scope="module")
def trained(folder: Path) -> LeakCNNMulti:
    """The network after twenty steps of 128 segments, with the convolutions that cost a third."""
    torch.manual_seed(0)
    model, loss = build_model(SIZE, recipe(convolution="middle_column")), build_loss(SIZE, recipe())
    optimizer = build_optimizer(list(model.parameters()), {})
    data: Any = dataset(folder, SIZE, recipe(batched_fetch=True))
    for step in range(20):
        inputs, targets = data.__getitems__(list(range(step * 128, step * 128 + 128)))
        optimizer.zero_grad()
        loss(model(inputs), targets).backward()
        optimizer.step()
    return model.eval()


def test_training_leads_from_nothing_to_most_leaks(folder: Path, slow: Evaluation) -> None:
    torch.manual_seed(0)
    everything_leaks = 2 * 0.4 / 1.4
    fresh = evaluate(build_model(SIZE, recipe()).eval(), folder, SIZE, recipe(batched_evaluation=True), CPU)
    assert fresh.score <= everything_leaks
    assert slow.score > 0.75


@pytest.fixture(scope="module")
def slow(folder: Path, trained: LeakCNNMulti) -> Evaluation:
    """The evaluation as found."""
    return evaluate(trained, folder, SIZE, recipe(), CPU)


@pytest.mark.parametrize(("files_per_batch", "inference_mode"), [(7, False), (64, True)])
def test_both_shapes_give_the_same_answers(
    folder: Path,
    trained: LeakCNNMulti,
    slow: Evaluation,
    files_per_batch: int,
    *,
    inference_mode: bool,
) -> None:
    chosen = recipe(inference_mode=inference_mode, batched_evaluation=True, files_per_batch=files_per_batch)
    fast = evaluate(trained, folder, SIZE, chosen, CPU)
    assert slow.items == fast.items == len(slow.answers) == 40
    assert slow.score == fast.score
    np.testing.assert_allclose(slow.answers, fast.answers, rtol=0, atol=1e-6)
    assert evaluate(trained, folder, SIZE, chosen, CPU) == fast


@pytest.mark.parametrize(
    ("choices", "shown"),
    [
        ({}, 1),
        ({"batched_evaluation": True}, 16),
        ({"batched_evaluation": True, "files_per_batch": 7}, 7),
        ({"batched_evaluation": True, "files_per_batch": 256}, 40),  # there are no more: the option is not active
    ],
)
def test_passes_hold_as_many_files_as_is_chosen(
    folder: Path, trained: LeakCNNMulti, choices: dict[str, Any], shown: int
) -> None:
    sizes: list[int] = []
    hook = trained.register_forward_hook(lambda _model, inputs, _output: sizes.append(len(inputs[0]) // 80))
    found = evaluate(trained, folder, SIZE, recipe(**choices), CPU)
    hook.remove()
    assert found.effective["files_per_batch"] == shown
    assert max(sizes) == shown


def test_answers_stand_in_the_order_of_the_files(folder: Path, trained: LeakCNNMulti) -> None:
    answers = evaluate(trained, folder, SIZE, recipe(batched_evaluation=True), CPU).answers
    with h5py.File(folder / VALIDATION, "r") as split, torch.no_grad():
        mel = torch.from_numpy(split["segments_mel"][:]).float()
        for file in (0, 13, 39):
            logits, leak_logit = trained.eval()(mel[file].reshape(80, 1, 64, 1))
            alone = 0.5 * (logits.softmax(1)[:, LEAK] + leak_logit.sigmoid())
            assert answers[file] == pytest.approx(alone.mean().item(), abs=1e-6)


def test_mixed_up_files_show_in_the_answers_and_cost_the_score(folder: Path, trained: LeakCNNMulti) -> None:
    with h5py.File(folder / VALIDATION, "r") as split, torch.no_grad():
        longs = judged_at_once(judge(trained.eval()), split["segments_mel"], np.arange(40), together=16)
        truth = split["labels"][:] == LEAK
    found, answers = verdicts(longs), longs.mean(1)
    wrong = [f1(np.roll(found, shift), truth) for shift in range(1, 40)]
    assert max(wrong) < f1(found, truth)
    assert np.mean(wrong) < f1(found, truth) - 0.25
    swapped = answers.copy()
    swapped[[3, 4]] = swapped[[4, 3]]
    assert np.abs(swapped - answers).max() > 1e-4  # a hundred times what the two shapes differ by


@pytest.mark.parametrize(
    ("wanted", "present", "expected"), [(4, 4, [0, 1, 2, 3]), (3, 9, [0, 3, 6]), (9, 4, [0, 1, 2, 3])]
)
def test_part_of_a_set_is_chosen_evenly(wanted: int, present: int, expected: list[int]) -> None:
    assert evenly_chosen(wanted, present).tolist() == expected


def test_both_shapes_choose_the_same_part(folder: Path, trained: LeakCNNMulti, slow: Evaluation) -> None:
    part = replace(SIZE, evaluation_items=7)
    chosen = [slow.answers[file] for file in evenly_chosen(7, 40)]
    for batched in (False, True):
        answers = evaluate(trained, folder, part, recipe(batched_evaluation=batched), CPU).answers
        np.testing.assert_allclose(answers, chosen, rtol=0, atol=1e-6)


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
        for judged in (judged_one_by_one, partial(judged_at_once, together=16)):
            found = judged(judge(Scripted()), split["segments_mel"], np.arange(1))
            assert verdicts(found).tolist() == [leaks]


def test_an_odd_number_of_longs_needs_the_larger_half() -> None:
    assert verdicts(np.array([[0.9, 0.9, 0.1], [0.9, 0.1, 0.1]], np.float32)).tolist() == [True, False]


def test_the_threshold_decides_which_longs_vote() -> None:
    longs = np.array([[0.45, 0.45], [0.5, 0.5]], np.float32)
    assert verdicts(longs).tolist() == [False, True]
    assert verdicts(longs, threshold=0.4).tolist() == [True, True]


def test_the_probability_is_the_mean_over_heads_and_shorts() -> None:
    mel = torch.zeros(1, 40, 2, 64, 1)
    mel[0, :, 0] = 1  # of the two shorts of each long, one is a leak for sure and one a draw for both heads
    torch.testing.assert_close(judge(Scripted())(mel), torch.full((1, 40), 0.75))


def test_the_binary_model_is_asked_for_its_own_leak_class(folder: Path) -> None:
    class Sure(nn.Module):
        """Its second class leaks, and so does everything."""

        def forward(self, mel: Tensor) -> tuple[Tensor, Tensor]:
            return torch.tensor([[-50.0, 50.0]]).expand(len(mel), 2), torch.full((len(mel),), 50.0)

    found = evaluate(Sure(), folder, SIZE, recipe(classes="binary"), CPU)
    assert set(found.answers) == {1.0}


class Prior(nn.Module):
    """A collapsed model: the same answer to everything."""

    def __init__(self, leak: float) -> None:
        super().__init__()
        self.leak = leak

    def forward(self, mel: Tensor) -> tuple[Tensor, Tensor]:
        logits = torch.zeros(len(mel), 5)
        logits[:, LEAK] = self.leak
        return logits, torch.full((len(mel),), self.leak)


def test_a_model_that_never_says_leak_has_accuracy_and_no_f1(folder: Path) -> None:
    found = evaluate(Prior(-50.0), folder, SIZE, recipe(batched_evaluation=True), CPU)
    assert found.score == 0.0
    truth = np.arange(40) < 16
    assert accuracy(np.zeros(40, dtype=np.bool_), truth) == 0.6


def test_a_model_that_always_says_leak_scores_the_chance_of_the_lesson(folder: Path) -> None:
    found = evaluate(Prior(50.0), folder, SIZE, recipe(batched_evaluation=True), CPU)
    lesson = WORKLOAD.lesson
    assert lesson is not None
    assert found.score == pytest.approx(lesson.chance)
    quick = WORKLOAD.sizes["quick"]
    assert counts(quick.evaluation_items)[LEAK] == counts(40)[LEAK] == 16
    assert lesson.chance + 0.2 < lesson.clear < 1


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ("0000", (0.0, 0.0, 0.0, 0.5)),
        ("1111", (2 / 3, 0.5, 1.0, 0.5)),
        ("1100", (0.5, 0.5, 0.5, 0.5)),
        ("1001", (1.0, 1.0, 1.0, 1.0)),
        ("1000", (2 / 3, 1.0, 0.5, 0.75)),
        ("0110", (0.0, 0.0, 0.0, 0.0)),
    ],
)
def test_scores_of_cases_worked_out_by_hand(found: str, expected: tuple[float, ...]) -> None:
    truth = np.array([True, False, False, True])
    verdict = np.array([letter == "1" for letter in found])
    scores = tuple(score(verdict, truth) for score in (f1, precision, recall, accuracy))
    assert scores == pytest.approx(expected)


def test_precision_recall_and_accuracy_are_told_beside_the_score(folder: Path) -> None:
    found = evaluate(Prior(50.0), folder, SIZE, recipe(), CPU)
    assert found.scores == {"precision": 16 / 40, "recall": 1.0, "accuracy": 16 / 40}
    assert found.score == pytest.approx(2 * 0.4 / 1.4)


def test_without_leaks_no_score_divides_by_nothing() -> None:
    nothing = np.zeros(4, dtype=np.bool_)
    assert [score(nothing, nothing) for score in (f1, precision, recall, accuracy)] == [0.0, 0.0, 0.0, 1.0]
