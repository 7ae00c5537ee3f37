"""The evaluation of the anti-spoofing workload: scores, their order, their file and the rate read from it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from harness.core.configuration import Option, compose
from harness.core.mistake import Mistake
from harness.core.recipe import Recipe
from tests.measure.tasks import CATALOGUE
from workloads.spoof import WORKLOAD, corpus, evaluation, layout
from workloads.spoof.model import SEResNet
from workloads.spoof.scoring import (
    OrderBroken,
    Scored,
    Verifier,
    accuracy_at,
    bonafide_mask,
    equal_error_rate,
    min_tandem_cost,
    read_scores,
    write_scores,
)

torch.set_num_threads(1)

SIZE = WORKLOAD.sizes["smoke"]
CPU = torch.device("cpu")


class Tilt(nn.Module):
    """Scores a clip by fixed random weights of its mean level in each band: quick, and another score for each clip."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.randn(128, generator=torch.Generator().manual_seed(0)))
        self.batches: list[int] = []

    def forward(self, mels: Tensor) -> tuple[Tensor, Tensor]:
        self.batches.append(len(mels))
        score = mels.mean(2) @ self.weights / 50
        return mels.mean(2), torch.stack([torch.zeros_like(score), score], 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.getbasetemp() / "spoof_smoke"  # written once for all files of tests
    if not path.exists():
        path.mkdir()
        list(corpus.prepare(path, SIZE))
    return path


def recipe(*names: str) -> Recipe:
    return compose(WORKLOAD, [Option(name=name) for name in names], CATALOGUE.optimizations)


def answers(folder: Path, model: nn.Module, *names: str) -> tuple[float, ...]:
    return evaluation.evaluate(model, folder, SIZE, recipe(*names), CPU).answers


@pytest.mark.parametrize(
    ("scores", "bonafide", "rate", "threshold"),
    [
        ([0.9, 0.8, 0.2, 0.1], [1, 1, 0, 0], 0.0, 0.8),
        ([0.1, 0.2, 0.8, 0.9], [1, 1, 0, 0], 1.0, 0.8),
        ([4, 3, 2.5, 1, 3.5, 2, 0, -1], [1, 1, 1, 1, 0, 0, 0, 0], 0.25, 2.5),
        ([0.9, 0.4, 0.5, 0.1], [1, 1, 0, 0], 0.5, 0.5),
        ([2, 1, 0, 1.5, -1, -2, -3], [1, 1, 1, 0, 0, 0, 0], (1 / 3 + 1 / 4) / 2, 1.0),
    ],
)
def test_equal_error_rate_of_known_cases(
    scores: Sequence[float], bonafide: Sequence[int], rate: float, threshold: float
) -> None:
    found = equal_error_rate(scores, np.array(bonafide, dtype=bool))
    assert found == pytest.approx((rate, threshold))


def test_equal_error_rate_of_two_normal_distributions() -> None:
    rng = np.random.default_rng(0)
    scores = np.concatenate([rng.normal(2, 1, 20_000), rng.normal(0, 1, 60_000)])
    rate, threshold = equal_error_rate(list(scores), np.arange(80_000) < 20_000)
    assert rate == pytest.approx(0.1587, abs=0.005)  # both sides lie one deviation from the middle
    assert threshold == pytest.approx(1.0, abs=0.05)
    assert accuracy_at(threshold, list(scores), np.arange(80_000) < 20_000) == pytest.approx(1 - rate, abs=0.002)


def test_scores_that_are_no_numbers_give_no_rate() -> None:
    rate, threshold = equal_error_rate([0, float("nan"), 1], np.array([True, False, True]))
    assert np.isnan([rate, threshold]).all()


def test_as_found_every_clip_is_scored_twice_in_the_order_of_the_protocol(folder: Path) -> None:
    model = Tilt()
    found = evaluation.evaluate(model, folder, SIZE, recipe(), CPU)
    assert model.batches == [1] * (2 * SIZE.evaluation_items)
    assert found.items == len(found.answers) == len(set(found.answers)) == SIZE.evaluation_items
    items = evaluation.evaluation_items(folder, SIZE, recipe())
    assert [clip.name for clip in items.listing.clips] == [clip.name for clip in layout.asvspoof(folder, "dev")]
    with torch.no_grad():
        expected = [float(model(items[row][0][None])[1][0, 1]) for row in range(len(items))]
    assert found.answers == pytest.approx(expected, abs=1e-5)
    mask = bonafide_mask(layout.asvspoof(folder, "dev"))
    assert found.score == 100 * equal_error_rate(found.answers, mask)[0]


@pytest.mark.parametrize(
    "names",
    [
        ("batched_evaluation",),
        ("single_pass_scoring", "inference_mode"),
        ("batched_evaluation", "device_mel"),
        ("batched_evaluation", "torch_mel", "single_pass_scoring"),
        ("feature_cache",),
    ],
)
def test_every_evaluation_gives_the_same_answers(folder: Path, names: tuple[str, ...]) -> None:
    expected = answers(folder, Tilt())
    spread = max(expected) - min(expected)
    assert answers(folder, Tilt(), *names) == pytest.approx(expected, abs=1e-3 * spread)


def test_it_is_the_same_in_every_pass_though_the_original_cuts_anew(folder: Path) -> None:
    assert answers(folder, Tilt()) == answers(folder, Tilt())


def test_batches_passes_and_inference_mode_are_what_the_recipe_says(folder: Path) -> None:
    model, modes = Tilt(), []
    model.register_forward_hook(lambda *_: modes.append(torch.is_inference_mode_enabled()))
    answers(folder, model, "batched_evaluation", "single_pass_scoring", "inference_mode")
    assert model.batches == [3, 3, 2]
    assert modes == [True] * 3


def test_scores_that_belong_to_other_clips_are_seen(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = answers(folder, Tilt())
    right = evaluation.Scorer._scores
    monkeypatch.setattr(evaluation.Scorer, "_scores", lambda scorer, rows: right(scorer, rows).roll(1, 0))
    wrong = answers(folder, Tilt(), "batched_evaluation")
    assert wrong != pytest.approx(expected, abs=1e-2)
    assert sorted(wrong) == pytest.approx(sorted(expected), abs=1e-5)  # the same scores, at other clips


def test_an_evaluator_that_loses_the_order_is_stopped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = evaluation.Scorer.__call__
    monkeypatch.setattr(evaluation.Scorer, "__call__", lambda scorer: right(scorer)[::-1])
    with pytest.raises(OrderBroken, match="stands where LA_D_"):
        answers(folder, Tilt(), "batched_evaluation")


def test_a_score_file_keeps_every_digit_and_tells_a_foreign_order(folder: Path, tmp_path: Path) -> None:
    clips = layout.asvspoof(folder, "dev")
    scores = tuple(float(one) for one in np.random.default_rng(0).standard_normal(len(clips)))
    path = tmp_path / "scores.txt"
    write_scores(path, clips, [Scored(clip.name, score) for clip, score in zip(clips, scores, strict=True)])
    assert read_scores(path, clips) == scores
    lines = path.read_text().splitlines(keepends=True)
    assert lines[0].split()[:3] == [clips[0].name, clips[0].source, clips[0].key]
    for broken, words in (([lines[1], lines[0], *lines[2:]], "where the list has"), (lines[1:], "7 lines, the list 8")):
        path.write_text("".join(broken))
        with pytest.raises(OrderBroken, match=words):
            read_scores(path, clips)
    with pytest.raises(OrderBroken, match="0 scores for 8 utterances"):
        write_scores(path, clips, [])


def test_fake_or_real_is_scored_on_its_own_files(folder: Path) -> None:
    found = evaluation.evaluate(Tilt(), folder, SIZE, recipe("fake_or_real"), CPU)
    assert len(found.answers) == SIZE.evaluation_items
    names = [clip.name for clip in evaluation.evaluation_items(folder, SIZE, recipe("fake_or_real")).listing.clips]
    assert names == sorted(names)
    assert names[0] == "validation/fake/file1.wav"


def test_fewer_clips_than_asked_for_are_refused_and_of_more_an_even_share_is_scored(folder: Path) -> None:
    with pytest.raises(Mistake, match="lists 8 clips of dev, not 400"):
        evaluation.evaluate(Tilt(), folder, WORKLOAD.sizes["standard"], recipe(), CPU)
    few = replace(SIZE, evaluation_items=4)
    clips = evaluation.evaluation_items(folder, few, recipe()).listing.clips
    listed = layout.asvspoof(folder, "dev")
    assert [listed.index(clip) for clip in clips] == [0, 2, 4, 7]


def test_the_real_model_answers_the_same_both_ways(folder: Path) -> None:
    torch.manual_seed(0)
    model = SEResNet().eval()
    slow = answers(folder, model, "single_pass_scoring")
    fast = answers(folder, model, "single_pass_scoring", "batched_evaluation")
    assert fast == pytest.approx(slow, abs=1e-4)
    assert len(set(slow)) == len(slow)


def test_the_tandem_cost_of_scores_worked_out_by_hand() -> None:
    """Four bona fide and four spoofed clips: at the threshold 3 one of each is on the wrong side."""
    scores, bonafide = (4.0, 3.0, 5.0, 1.0, 2.0, 0.0, -1.0, 3.5), np.array([True] * 4 + [False] * 4)
    # C1 = 0.9405 and C2 = 10 * 0.05 = 0.5. The threshold above 3.5 misses half of the bona fide and has no alarm:
    # 0.47025. That at 3 costs 0.9405 / 4 + 0.5 / 4 = 0.360125, and that at 1 costs 0.5 * 2 / 4 = 0.25: the least.
    assert min_tandem_cost(scores, bonafide, Verifier()) == pytest.approx(0.25 / 0.5)
    # A verifier that refuses three of four spoofed clips and errs: C1 = 0.9405 * 0.9 - 0.0095 * 10 * 0.2 = 0.82745 and
    # C2 = 0.5 * 0.25 = 0.125.
    helped = Verifier(miss=0.1, false_accept=0.2, spoof_miss=0.75)
    assert min_tandem_cost(scores, bonafide, helped) == pytest.approx(0.125 * 2 / 4 / 0.125)
    separate = (1.0, 2.0, 3.0, 4.0, 0.0, -1.0, -2.0, -3.0)
    assert min_tandem_cost(separate, bonafide, Verifier()) == 0
    assert min_tandem_cost(tuple(-one for one in separate), bonafide, Verifier()) == pytest.approx(1.0)


def test_a_tandem_cost_without_meaning_is_no_number() -> None:
    bonafide = np.array([True, False])
    assert np.isnan(min_tandem_cost((1.0, float("nan")), bonafide, Verifier()))
    assert np.isnan(min_tandem_cost((1.0, 0.0), bonafide, Verifier(spoof_miss=1.0)))


def test_an_evaluation_tells_every_score_that_the_system_reports(folder: Path) -> None:
    found = evaluation.evaluate(Tilt(), folder, SIZE, recipe(), CPU)
    bonafide = bonafide_mask(layout.asvspoof(folder, "dev"))
    rate, threshold = equal_error_rate(found.answers, bonafide)
    assert found.score == pytest.approx(100 * rate)
    assert found.scores == {
        "accuracy at that threshold": pytest.approx(100 * accuracy_at(threshold, found.answers, bonafide)),
        "min t-DCF beside a verifier that takes every spoof": pytest.approx(
            min_tandem_cost(found.answers, bonafide, Verifier())
        ),
    }
