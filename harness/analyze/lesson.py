"""Whether a model learned its lesson, and whether the evaluation that says so can be believed."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.core.lesson import Learned
from harness.core.workload import Lesson

SAME = 0.02  # two answers differ when they lie further apart than this share of the spread of all answers
MIXED_UP = 0.02  # so large a share of different answers is no rounding
FALLEN = 0.9  # a loss that ends below this share of where it began has fallen


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong, in a sentence, under a word for it."""

    word: str  # chance, collapse, random, mixed up, not engaged, diverged
    sentence: str


def findings(learned: Learned, lesson: Lesson) -> tuple[Finding, ...]:
    """All that is wrong with what was learned; empty when the lesson was learned and the evaluation holds."""
    unengaged = (Finding(word="not engaged", sentence=sentence) for sentence in learned.unengaged)
    return (*unengaged, *_trained(learned, lesson), *_evaluated(learned))


def fell(losses: Sequence[float]) -> tuple[float, float]:
    """The mean loss of the first and of the last tenth of the steps, at least one step each."""
    tenth = max(1, len(losses) // 10)
    return sum(losses[:tenth]) / tenth, sum(losses[-tenth:]) / tenth


def is_clear(score: float, lesson: Lesson) -> bool:
    """Whether a score is clearly better than chance."""
    return score <= lesson.clear if lesson.better == "less" else score >= lesson.clear


def _trained(learned: Learned, lesson: Lesson) -> Iterator[Finding]:
    score = learned.evaluation.score
    if not all(map(math.isfinite, (*learned.losses, score))):
        yield Finding(word="diverged", sentence="a loss or the score is no finite number")
        return
    answers = learned.evaluation.answers
    if len(answers) > 1 and len(set(answers)) == 1:
        yield Finding(
            word="collapse",
            sentence=f"the model says {answers[0]:g} of all {len(answers)} items: it has stopped looking at its input",
        )
    if is_clear(score, lesson):
        return
    first, last = fell(learned.losses)
    words = f"the score is {score:.4g}, where chance gives {lesson.chance:g} and {lesson.clear:g} would be clear"
    if last < FALLEN * first:
        words += (
            f", although the loss fell from {first:.3g} to {last:.3g}: the labels of the evaluation, or which answer "
            "goes to which item, deserve a look"
        )
    yield Finding(word="chance", sentence=words)


def _evaluated(learned: Learned) -> Iterator[Finding]:
    share = _share_of_different(learned.evaluation.answers, learned.again.answers)
    if share or learned.evaluation.score != learned.again.score:
        yield Finding(
            word="random",
            sentence=f"two evaluations of one model score {learned.evaluation.score:.6g} and "
            f"{learned.again.score:.6g}: something in the evaluation is drawn at random",
        )
    share = _share_of_different(learned.evaluation.answers, learned.as_found.answers)
    if share > MIXED_UP:
        yield Finding(
            word="mixed up",
            sentence=f"{share:.0%} of all items get another answer than from the slow evaluation of the same model "
            f"(scores {learned.evaluation.score:.4g} and {learned.as_found.score:.4g}): answers go to the wrong items",
        )


def _share_of_different(ours: Sequence[float], theirs: Sequence[float]) -> float:
    if len(ours) != len(theirs):
        return 1.0
    if not ours:
        return 0.0
    apart = SAME * (max(theirs) - min(theirs))
    return sum(abs(one - other) > apart for one, other in zip(ours, theirs, strict=True)) / len(ours)
