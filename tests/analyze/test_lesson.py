"""What is wrong with a training or its evaluation is found, and what is right is left alone."""

from dataclasses import replace

import pytest

from harness.analyze.quality import agreement, findings
from harness.core.workload import Evaluation, Learned, Lesson

LESSON = Lesson(steps=50, chance=0.5, clear=0.7, better="more")
ERROR = Lesson(steps=50, chance=50.0, clear=25.0, better="less")
ANSWERS = tuple(float(number % 7) for number in range(100))
GOOD = Evaluation(items=100, score=0.9, answers=ANSWERS)
FALLING = tuple(2.0 * 0.95**step for step in range(50))


def learned(**facts: object) -> Learned:
    given = {
        "losses": FALLING,
        "evaluation": GOOD,
        "again": GOOD,
        "original": GOOD,
        "inactive": (),
        "train_s": 1.0,
        **facts,
    }
    return Learned(**given)  # type: ignore[arg-type]


def words(found: Learned, lesson: Lesson = LESSON) -> list[str]:
    return [one.word for one in findings(found, lesson)]


def everywhere(evaluation: Evaluation, **facts: object) -> Learned:
    return learned(evaluation=evaluation, again=evaluation, original=evaluation, **facts)


def test_a_lesson_learned_has_nothing_wrong() -> None:
    assert words(learned()) == []
    assert words(everywhere(replace(GOOD, score=10.0)), ERROR) == []


def test_labels_at_chance_are_seen_by_a_loss_that_falls_beside_a_score_that_does_not_move() -> None:
    found = findings(everywhere(replace(GOOD, score=0.52)), LESSON)
    assert [one.word for one in found] == ["chance"]
    assert "the labels of the evaluation" in found[0].sentence


def test_a_model_that_does_not_learn_is_at_chance_without_blaming_the_labels() -> None:
    (found,) = findings(everywhere(replace(GOOD, score=51.0), losses=(2.0,) * 50), ERROR)
    assert found.word == "chance"
    assert "labels" not in found.sentence


def test_a_collapse_to_one_answer_is_seen_although_its_score_may_look_fair() -> None:
    collapsed = Evaluation(items=100, score=0.75, answers=(0.0,) * 100)
    assert words(everywhere(collapsed)) == ["collapse"]


def test_rows_under_the_wrong_names_are_seen_although_the_score_is_clear() -> None:
    shifted = replace(GOOD, answers=(*ANSWERS[1:], ANSWERS[0]))
    assert words(learned(evaluation=shifted, again=shifted)) == ["mixed up"]


def test_rounding_is_no_mixing_up() -> None:
    rounded = replace(GOOD, answers=tuple(one + 1e-3 for one in ANSWERS))
    assert words(learned(evaluation=rounded, again=rounded)) == []


def test_what_the_evaluations_agree_in_is_told_and_no_more() -> None:
    """An answer in a hundred that differs is no mixing up, and not the same either."""
    one = replace(GOOD, answers=(ANSWERS[0] + 1.0, *ANSWERS[1:]))
    found = learned(evaluation=one, again=one)
    assert words(found) == []
    assert "of which 1 (1.0%) differ" in agreement(found)
    assert "the same 100 answers" in agreement(learned())
    assert "of which none differ" in agreement(learned())
    assert "they tell no answers" in agreement(everywhere(replace(GOOD, answers=())))


def test_an_evaluation_that_draws_at_random_is_seen() -> None:
    assert words(learned(again=replace(GOOD, score=0.91))) == ["random"]
    assert words(learned(again=replace(GOOD, answers=tuple(reversed(ANSWERS))))) == ["random"]


def test_missing_answers_are_no_agreement() -> None:
    assert words(learned(original=replace(GOOD, answers=ANSWERS[:50]))) == ["mixed up"]


@pytest.mark.parametrize("losses", [(1.0, float("nan")), (1.0, float("inf"))])
def test_a_loss_that_is_no_number_is_the_finding(losses: tuple[float, ...]) -> None:
    assert words(learned(losses=losses)) == ["diverged"]


def test_a_setting_that_did_not_engage_is_told_in_its_own_words() -> None:
    (found,) = findings(learned(inactive=("workers is 0, not 4",)), LESSON)
    assert (found.word, found.sentence) == ("not active", "workers is 0, not 4")
