"""The evaluation of the speaker workload, and that its data can be learned."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from harness.core.mistake import Mistake
from harness.core.recipe import Recipe
from workloads._evaluation_reading import Reading
from workloads.speaker import WORKLOAD, evaluation, layout
from workloads.speaker.data import dataset
from workloads.speaker.score import Measure, Verification, measured, measured_by_loops

torch.set_num_threads(1)

SIZE = WORKLOAD.sizes["smoke"]
TOLERANCE = 1e-5  # of scores, which lie between -2 and 0
CPU = torch.device("cpu")
PLAIN = Recipe(own=tuple(sorted(WORKLOAD.own.items())))


@pytest.fixture(scope="module")
def folder(written_data: dict[str, Path]) -> Path:
    return written_data["speaker"]


@pytest.fixture
def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Linear(evaluation.CROP, 16)  # embeds a crop as the real model does, in no time


by_both = pytest.mark.parametrize("measure", [measured, measured_by_loops])


@pytest.mark.parametrize(
    ("scores", "same", "rate"),
    [
        ([0.9, 0.8, 0.2, 0.1], [1, 1, 0, 0], 0.0),
        ([0.1, 0.2, 0.8, 0.9], [1, 1, 0, 0], 1.0),
        ([0.9, 0.4, 0.5, 0.1], [1, 1, 0, 0], 0.5),
        ([4, 3, 2.5, 1, 3.5, 2, 0, -1], [1, 1, 1, 1, 0, 0, 0, 0], 0.25),
        ([1, 1, 1, 0, 0, 0, 0, 0], [1, 1, 0, 1, 0, 0, 0, 0], 1 / 3),
        ([0, 0, 0, 0], [1, 1, 0, 0], 1.0),
        ([0, float("nan"), 0, 1], [1, 1, 0, 0], float("nan")),
    ],
)
@by_both
def test_equal_error_rate_of_known_cases(
    measure: Measure, scores: Sequence[float], same: Sequence[int], rate: float
) -> None:
    found = measure(scores, np.array(same, dtype=bool))
    assert found.equal_error_rate == pytest.approx(rate, nan_ok=True)


@by_both
@pytest.mark.parametrize(
    ("scores", "same", "cost"),
    [
        ([0.9, 0.8, 0.2, 0.1], [1, 1, 0, 0], 0.0),
        ([0.1, 0.2, 0.8, 0.9], [1, 1, 0, 0], 1.0),  # better to accept nobody
        ([0.9, 0.4, 0.5, 0.1], [1, 1, 0, 0], 0.5),  # half missed and nobody accepted falsely
        ([3, 2, *[0] * 18, 2.5, *[0] * 19], [1] * 20 + [0] * 20, 0.95),  # beyond 2.5: 19 of 20 missed
        ([3, 2, *[0] * 18, *[-1] * 19, 0], [1] * 20 + [0] * 20, 0.9),
        ([1, 1, 1, 0, 0, 0, 0, 0] + [0] * 92, [1, 1, 0, 1, 0, 0, 0, 0] + [0] * 92, 1 / 3 + 19 / 97),
        ([0, float("inf"), 0, 1], [1, 1, 0, 0], float("nan")),
    ],
)
def test_detection_cost_of_known_cases(
    measure: Measure, scores: Sequence[float], same: Sequence[int], cost: float
) -> None:
    found = measure(scores, np.array(same, dtype=bool))
    assert found.detection_cost == pytest.approx(cost, nan_ok=True)


@by_both
def test_equal_error_rate_of_two_normal_distributions(measure: Measure) -> None:
    rng = np.random.default_rng(0)
    scores = np.concatenate([rng.normal(2, 1, 20_000), rng.normal(0, 1, 20_000)])
    found = measure(list(scores), np.arange(40_000) < 20_000)
    assert found.equal_error_rate == pytest.approx(0.1587, abs=0.005)


@pytest.mark.parametrize("levels", [3, 20, 10_000])
def test_loops_and_numpy_give_the_same_bits_with_ties_and_without(levels: int) -> None:
    rng = np.random.default_rng(levels)
    for trials in (2, 7, 500):
        same = np.arange(trials) % 3 == 0
        scores = [float(score) for score in rng.integers(levels, size=trials) / 7 + same]
        found: list[Verification] = [measure(scores, same) for measure in (measured, measured_by_loops)]
        assert found[0] == found[1]


def test_ten_crops_span_the_utterance(folder: Path) -> None:
    path = folder / layout.TEST_WAVS / layout.trial_paths(layout.read_trials(folder))[0]
    crops = evaluation.ten_crops(path)
    assert (crops.shape, crops.dtype) == ((10, 48_240), torch.float32)
    whole = evaluation.soundfile.read(path, dtype="float32")[0]
    np.testing.assert_array_equal(crops[0], whole[:48_240])
    np.testing.assert_array_equal(crops[-1], whole[-48_240:])


def reading(model: torch.nn.Module) -> Reading:
    return Reading(model=model, recipe=Recipe(), device=CPU)


@pytest.mark.parametrize("stacked", [1, 4, 6])
def test_batched_scores_are_those_found_one_by_one(folder: Path, model: torch.nn.Module, stacked: int) -> None:
    root, trials = folder / layout.TEST_WAVS, layout.read_trials(folder)
    with torch.no_grad():
        expected = evaluation.scores_one_by_one(reading(model), root, trials)
        batched = evaluation.scores_batched(reading(model), root, trials, stacked)
    assert batched == pytest.approx(expected, abs=TOLERANCE)


def test_rows_given_to_the_wrong_utterance_would_be_seen(folder: Path, model: torch.nn.Module) -> None:
    trials = layout.read_trials(folder)
    paths = layout.trial_paths(trials)
    pairs = evaluation.pair_rows(trials, paths)
    with torch.no_grad():
        rows = torch.cat([model(evaluation.ten_crops(folder / layout.TEST_WAVS / path)) for path in paths])
        right = evaluation.similarities(rows.reshape(len(paths), 10, -1), pairs)
        expected = evaluation.scores_one_by_one(reading(model), folder / layout.TEST_WAVS, trials)
        shifted = evaluation.similarities(rows.roll(10, 0).reshape(len(paths), 10, -1), pairs)
        row_as_file = evaluation.similarities(rows[: len(paths), None], pairs)
    torch.testing.assert_close(right, torch.tensor(expected), atol=TOLERANCE, rtol=0)
    for wrong in (shifted, row_as_file):
        assert (wrong - right).abs().max() > 100 * TOLERANCE


@pytest.mark.parametrize(
    "changes", [{}, {"batched_evaluation": True}, {"inference_mode": True, "device_results": True}]
)
def test_every_evaluation_gives_the_same_score(
    folder: Path, model: torch.nn.Module, changes: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: list[bool] = []
    model.register_forward_hook(lambda *_: modes.append(torch.is_inference_mode_enabled()))
    passed = evaluation.evaluate(model, folder, SIZE, replace(PLAIN, **changes), CPU)
    expected = evaluation.evaluate(model, folder, SIZE, PLAIN, CPU)
    assert passed.answers == pytest.approx(expected.answers, abs=TOLERANCE)
    assert replace(passed, answers=(), effective={}) == replace(expected, answers=(), effective={})
    assert passed.effective.items() - expected.effective.items() <= {("batched_results", "read once")}
    assert len(passed.answers) == len(layout.read_trials(folder))
    assert passed.items == SIZE.evaluation_items
    assert modes[0] == changes.get("inference_mode", False)


def test_data_of_another_size_is_refused(folder: Path, model: torch.nn.Module) -> None:
    with pytest.raises(Mistake, match="holds 6 test files, not 400"):
        evaluation.evaluate(model, folder, WORKLOAD.sizes["standard"], PLAIN, CPU)


@pytest.mark.thorough
def test_speakers_can_be_learned(folder: Path) -> None:
    parts = WORKLOAD.parts()
    torch.manual_seed(0)
    model, loss = parts.model(SIZE, PLAIN), parts.loss(SIZE, PLAIN)
    optimizer = parts.optimizer([*model.parameters(), *loss.parameters()], {})
    items = list(dataset(folder, SIZE, PLAIN))
    waves = torch.stack([wave for wave, _ in items])
    labels = torch.tensor([label for _, label in items])
    losses = []
    for step in range(20):
        chosen = slice(4 * (step % 5), 4 * (step % 5) + 4)
        optimizer.zero_grad()
        value = loss(model(waves[chosen]), labels[chosen])
        value.backward()
        optimizer.step()
        losses.append(value.item())
    assert sum(losses[-5:]) < 0.7 * sum(losses[:5])


def test_the_real_model_gets_the_same_score_both_ways(folder: Path) -> None:
    torch.manual_seed(0)
    model = WORKLOAD.parts().model(SIZE, PLAIN).eval()
    slow, fast = (
        evaluation.evaluate(model, folder, SIZE, replace(PLAIN, batched_evaluation=batched), CPU)
        for batched in (False, True)
    )
    assert slow.score == fast.score
    assert fast.answers == pytest.approx(slow.answers, abs=TOLERANCE)
    assert 0 <= slow.score <= 100
