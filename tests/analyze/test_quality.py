import math
from dataclasses import replace

import pytest

from harness.analyze.quality import Agreement, judge_losses, judge_score, worst
from harness.core.optimization import Numerics
from tests.analyze.synthetic import LOSSES, arm, ready

REFERENCE = ready(arm())


def test_exact_means_the_same_bits() -> None:
    same = judge_losses(ready(arm(position=1)), REFERENCE, Numerics.EXACT)
    assert same.status is Agreement.SAME_BITS
    other = ready(arm(position=1), losses=(2.3, math.nextafter(2.1, 3), 1.9))
    differs = judge_losses(other, REFERENCE, Numerics.EXACT)
    assert (differs.status, differs.sentence) == (Agreement.DIFFERS, "losses differ from step 2 by 4.4e-16")


NOT_REPEATING = replace(REFERENCE, repeat_spread=1e-6)


@pytest.mark.parametrize(("shift", "status"), [(9e-6, Agreement.CLOSE), (2e-5, Agreement.DIFFERS)])
def test_exact_is_judged_within_what_a_reference_differs_by_from_itself(shift: float, status: Agreement) -> None:
    shifted = ready(arm(position=1), losses=tuple(loss + shift for loss in LOSSES))
    assert judge_losses(shifted, NOT_REPEATING, Numerics.EXACT).status is status
    assert judge_losses(shifted, replace(REFERENCE, repeat_spread=0.0), Numerics.EXACT).status is Agreement.DIFFERS


def test_exact_is_never_judged_more_loosely_than_close() -> None:
    shifted = ready(arm(position=1), losses=tuple(loss + 0.08 for loss in LOSSES))
    assert judge_losses(shifted, replace(REFERENCE, repeat_spread=0.05), Numerics.EXACT).status is Agreement.DIFFERS


def test_the_score_of_an_exact_option_may_move_where_the_reference_does_not_repeat_itself() -> None:
    near, far = (ready(arm(position=1), score=score) for score in (0.501, 0.503))
    assert judge_score(near, NOT_REPEATING, Numerics.EXACT).status is Agreement.CLOSE
    assert judge_score(far, NOT_REPEATING, Numerics.EXACT).status is Agreement.DIFFERS


@pytest.mark.parametrize(("shift", "status"), [(0.07, Agreement.CLOSE), (0.08, Agreement.DIFFERS)])
def test_close_means_within_the_spread_of_seeds(shift: float, status: Agreement) -> None:
    shifted = ready(arm(position=1), losses=tuple(loss + shift for loss in LOSSES))
    assert judge_losses(shifted, REFERENCE, Numerics.CLOSE).status is status


def test_close_without_a_spread_is_not_judged() -> None:
    shifted = ready(arm(position=1), losses=(2.0, 2.1, 1.9))
    found = judge_losses(shifted, ready(arm(), seed_spread=None), Numerics.CLOSE)
    assert (found.status, found.sentence) == (Agreement.NOT_JUDGED, "the reference reported no spread over seeds")


def test_what_changes_learning_is_not_judged_by_losses() -> None:
    found = judge_losses(ready(arm(position=1)), REFERENCE, Numerics.DIFFERENT)
    assert (found.status, found.sentence) == (Agreement.ANOTHER, "changes what is learned")


@pytest.mark.parametrize("numerics", list(Numerics))
@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
def test_a_broken_loss_is_caught_whatever_was_promised(numerics: Numerics, broken: float) -> None:
    bad = ready(arm(position=1), losses=(2.3, broken, 1.9))
    found = judge_losses(bad, REFERENCE, numerics)
    assert found.status is Agreement.NAN
    assert "treatment's loss is not a finite number from step 2" in found.sentence
    blamed = judge_losses(REFERENCE, bad, numerics)
    assert blamed.status is Agreement.NOT_JUDGED, "nothing is held against a treatment whose losses are finite"
    assert "reference's loss is not a finite number from step 2" in blamed.sentence
    assert judge_losses(bad, bad, numerics).status is Agreement.NAN


@pytest.mark.parametrize("losses", [(), (2.3,)])
def test_losses_that_cannot_be_laid_side_by_side_are_not_judged(losses: tuple[float, ...]) -> None:
    found = judge_losses(ready(arm(position=1), losses=losses), REFERENCE, Numerics.EXACT)
    assert found.status is Agreement.NOT_JUDGED


@pytest.mark.parametrize(
    ("score", "numerics", "status"),
    [
        (0.5, Numerics.EXACT, Agreement.SAME_BITS),
        (0.501, Numerics.EXACT, Agreement.DIFFERS),
        (0.501, Numerics.CLOSE, Agreement.CLOSE),
        (0.503, Numerics.CLOSE, Agreement.DIFFERS),
        (0.5, Numerics.DIFFERENT, Agreement.ANOTHER),
        (None, Numerics.EXACT, Agreement.NOT_JUDGED),
        (math.nan, Numerics.EXACT, Agreement.NAN),
    ],
)
def test_scores_of_a_timed_evaluation(score: float | None, numerics: Numerics, status: Agreement) -> None:
    assert judge_score(ready(arm(position=1), score=score), REFERENCE, numerics).status is status


def test_a_broken_score_of_the_reference_is_not_held_against_the_treatment() -> None:
    found = judge_score(ready(arm(position=1)), replace(REFERENCE, score=math.nan), Numerics.EXACT)
    assert found.status is Agreement.NOT_JUDGED
    assert found.sentence.startswith("the reference's score is not a finite number")


def test_the_worst_judgement_counts() -> None:
    good = judge_losses(ready(arm(position=1)), REFERENCE, Numerics.EXACT)
    bad = judge_losses(ready(arm(position=1), losses=(0.0, 0.0, 0.0)), REFERENCE, Numerics.EXACT)
    assert worst([good, bad, good]) == bad
    assert worst([]) is None
