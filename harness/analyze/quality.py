"""Quality: whether an optimized run still learns what its reference learns."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from harness.core.optimization import Numerics, Timing
from harness.core.records import Lost, Ready
from harness.core.workload import Learned, Lesson

# Whether a model learned its lesson, and whether the evaluation that says so can be believed.

SAME = 0.02  # two answers differ when they lie further apart than this share of the spread of all answers
MIXED_UP = 0.02  # so large a share of different answers is no rounding
FALLEN = 0.9  # a loss that ends below this share of where it began has fallen


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong, in a sentence, under a word for it."""

    word: str  # chance, collapse, random, mixed up, not active, diverged
    sentence: str


def findings(learned: Learned, lesson: Lesson) -> tuple[Finding, ...]:
    """All that is wrong with what was learned; empty when the lesson was learned and the evaluation holds."""
    inactive = (Finding(word="not active", sentence=sentence) for sentence in learned.inactive)
    return (*inactive, *_trained(learned, lesson), *_evaluated(learned))


def fell(losses: Sequence[float]) -> tuple[float, float]:
    """The mean loss of the first and of the last tenth of the steps, at least one step each."""
    tenth = max(1, len(losses) // 10)
    return sum(losses[:tenth]) / tenth, sum(losses[-tenth:]) / tenth


def is_clear(score: float, lesson: Lesson) -> bool:
    """Whether a score is clearly better than chance; nobody can tell where the lesson does not say what that is."""
    if lesson.clear is None:
        return False
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
    if lesson.clear is None or is_clear(score, lesson):
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
    share = _share_of_different(learned.evaluation.answers, learned.original.answers)
    if share > MIXED_UP:
        yield Finding(
            word="mixed up",
            sentence=f"{share:.0%} of all items get another answer than from the slow evaluation of the same model "
            f"(scores {learned.evaluation.score:.4g} and {learned.original.score:.4g}): answers go to the wrong items",
        )


def agreement(learned: Learned) -> str:
    """How far three evaluations with which nothing is wrong agree, in a sentence without its full stop."""
    answers, slow = learned.evaluation.answers, learned.original
    if not answers:
        return f"Two evaluations score the same, the slow one {slow.score:.4g}; they tell no answers to compare"
    share = _share_of_different(answers, slow.answers)
    others = f"{round(share * len(answers)):,} ({share:.1%})" if share else "none"
    return (
        f"Two evaluations give the same {len(answers):,} answers to within {SAME:.0%} of their spread, of which "
        f"{others} differ by more from those of the slow evaluation"
    )


def _share_of_different(ours: Sequence[float], theirs: Sequence[float]) -> float:
    if len(ours) != len(theirs):
        return 1.0
    if not ours:
        return 0.0
    apart = SAME * (max(theirs) - min(theirs))
    return sum(abs(one - other) > apart for one, other in zip(ours, theirs, strict=True)) / len(ours)


# Losses may differ from the reference's by so many times what another seed's do on average. At 1, a training that has
# merely drifted apart, as small batches do within twenty steps, would be called different about every second time.
ENVELOPE = 1.5
# A sum on a GPU may come in any order, and then no run repeats the bits of another. One run more lies within so many
# times the widest of the reference's own differences but for five times in a thousand.
REPEATS = 10
SCORE_TOLERANCE = 0.002  # 0.2 points of a score between 0 and 1: the least that a benchmark of accuracy argues about


class Agreement(StrEnum):
    """How losses relate to the reference's, from the best to the worst."""

    SAME_BITS = "same bits"
    CLOSE = "close"
    ANOTHER = "another training"  # it is meant to learn otherwise, and its own score has to be looked at
    NOT_JUDGED = "not judged"
    DIFFERS = "differs"
    NAN = "nan"


LEARNS_ALIKE = frozenset({Agreement.SAME_BITS, Agreement.CLOSE})


@dataclass(frozen=True, slots=True)
class Quality:
    """A status word and the sentence that explains it."""

    status: Agreement
    sentence: str


def worst(found: Iterable[Quality]) -> Quality | None:
    """The worst of several judgements, or None if there is none."""
    order = list(Agreement)
    return max(found, key=lambda quality: order.index(quality.status), default=None)


def judge_losses(treatment: Ready, reference: Ready, numerics: Numerics) -> Quality:
    """The first losses against the reference's of the same block and replicate."""
    sides = (("treatment", treatment, Agreement.NAN), ("reference", reference, Agreement.NOT_JUDGED))
    for name, side, status in sides:
        broken = next((step for step, loss in enumerate(side.losses, 1) if not math.isfinite(loss)), None)
        if broken:
            return Quality(status, f"the {name}'s loss is not a finite number from step {broken} on")
    if not reference.losses or len(treatment.losses) != len(reference.losses):
        counts = f"{len(treatment.losses)} against {len(reference.losses)}"
        return Quality(Agreement.NOT_JUDGED, f"losses were not reported alike: {counts}")
    if numerics is Numerics.DIFFERENT:
        return Quality(Agreement.ANOTHER, "changes what is learned")
    if treatment.losses == reference.losses:
        return Quality(Agreement.SAME_BITS, f"the first {len(reference.losses)} losses are bitwise the same")
    return _exact(treatment, reference) if numerics is Numerics.EXACT else _close(treatment, reference)


def judge_score(treatment: Ready, reference: Ready, numerics: Numerics) -> Quality:
    """The score after the first steps against the reference's, where the evaluation itself is what is timed."""
    ours, theirs = treatment.score, reference.score
    if ours is None or theirs is None:
        return Quality(Agreement.NOT_JUDGED, "no score was reported")
    words = f"after the first steps it scores {ours:.6g}, the reference {theirs:.6g}"
    if not math.isfinite(ours):
        return Quality(Agreement.NAN, words)
    if not math.isfinite(theirs):
        return Quality(Agreement.NOT_JUDGED, f"the reference's score is not a finite number: {words}")
    if numerics is Numerics.DIFFERENT:
        return Quality(Agreement.ANOTHER, "changes what is learned")
    if ours == theirs:
        return Quality(Agreement.SAME_BITS, f"after the first steps both score {ours:.6g}")
    within = numerics is Numerics.CLOSE or reference.repeat_spread
    close = within and abs(ours - theirs) <= SCORE_TOLERANCE
    return Quality(Agreement.CLOSE if close else Agreement.DIFFERS, words)


def _exact(treatment: Ready, reference: Ready) -> Quality:
    if reference.repeat_spread:
        return _repeated(treatment, reference, reference.repeat_spread)
    differences = (abs(ours - theirs) for ours, theirs in zip(treatment.losses, reference.losses, strict=True))
    step, difference = next((step, one) for step, one in enumerate(differences, 1) if one)
    return Quality(Agreement.DIFFERS, f"losses differ from step {step} by {difference:.2g}")


def _repeated(treatment: Ready, reference: Ready, spread: float) -> Quality:
    """Within what the reference's own repeats differ by; never wider than what is merely close."""
    mean = _mean_difference(treatment, reference)
    seeds = math.inf if reference.seed_spread is None else ENVELOPE * reference.seed_spread
    words = f"losses differ by {mean:.2g} on average, repeats of the reference by {spread:.2g}"
    return Quality(Agreement.CLOSE if mean <= min(REPEATS * spread, seeds) else Agreement.DIFFERS, words)


def _mean_difference(treatment: Ready, reference: Ready) -> float:
    pairs = zip(treatment.losses, reference.losses, strict=True)
    return sum(abs(ours - theirs) for ours, theirs in pairs) / len(reference.losses)


def _close(treatment: Ready, reference: Ready) -> Quality:
    if reference.seed_spread is None:
        return Quality(Agreement.NOT_JUDGED, "the reference reported no spread over seeds")
    mean = _mean_difference(treatment, reference)
    close = mean <= ENVELOPE * reference.seed_spread
    words = f"losses differ by {mean:.2g} on average, other seeds by {reference.seed_spread:.2g}"
    return Quality(Agreement.CLOSE if close else Agreement.DIFFERS, words)


# Verification: does an optimization take effect, and do its losses keep the promise of its numerics class?

SKIPPED, FAILED, NOT_ACTIVE = "skipped", "failed", "not active"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What became of one optimization on one workload."""

    workload: str
    label: str
    promised: Numerics | None  # None where it could not be tried
    status: str  # an Agreement, or skipped, failed, not active
    sentence: str

    @property
    def broken(self) -> bool:
        """Whether a promise was not kept; what could not be tried here has broken none."""
        return self.status in {FAILED, NOT_ACTIVE, Agreement.DIFFERS, Agreement.NAN}


def verified(treatment: Ready | Lost, reference: Ready | Lost, promised: Numerics, timing: Timing) -> tuple[str, str]:
    """Status and sentence of an arm beside its reference: did it run, did it engage, do its losses agree?"""
    for name, arm in (("reference", reference), ("treatment", treatment)):
        if isinstance(arm, Lost):
            return FAILED, f"the {name}: {arm.reason}"
    assert isinstance(treatment, Ready) and isinstance(reference, Ready)  # noqa: S101, PT018  the loop has seen to it
    if treatment.inactive:
        return NOT_ACTIVE, "; ".join(treatment.inactive)
    quality = _checked_losses(treatment, reference, promised, timing)
    return str(quality.status), quality.sentence


def _checked_losses(treatment: Ready, reference: Ready, promised: Numerics, timing: Timing) -> Quality:
    if timing is not Timing.EVALUATION:
        return judge_losses(treatment, reference, promised)
    # An evaluation must leave the training alone, whatever it does to the score.
    trained = judge_losses(treatment, reference, Numerics.EXACT)
    if trained.status not in LEARNS_ALIKE:
        return trained
    return judge_score(treatment, reference, promised)
