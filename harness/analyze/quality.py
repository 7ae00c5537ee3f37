"""Quality: whether an optimized run still learns what its reference learns."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from harness.core.measurement import Ready
from harness.core.optimization import Numerics

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
    NOT_JUDGED = "not judged"
    DIFFERS = "differs"
    NAN = "nan"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """A status word and the sentence that explains it."""

    status: Agreement
    sentence: str


def worst(found: Iterable[Quality]) -> Quality | None:
    """The worst of several judgements, or None if there is none."""
    order = list(Agreement)
    return max(found, key=lambda quality: order.index(quality.status), default=None)


def judge_losses(treatment: Ready, reference: Ready, numerics: Numerics) -> Quality:
    """The first losses against the reference's of the same block and restart."""
    for name, losses in (("treatment", treatment.losses), ("reference", reference.losses)):
        broken = next((step for step, loss in enumerate(losses, 1) if not math.isfinite(loss)), None)
        if broken:
            return _quality(Agreement.NAN, f"the {name}'s loss is not a finite number from step {broken} on")
    if not reference.losses or len(treatment.losses) != len(reference.losses):
        counts = f"{len(treatment.losses)} against {len(reference.losses)}"
        return _quality(Agreement.NOT_JUDGED, f"losses were not reported alike: {counts}")
    if numerics is Numerics.DIFFERENT:
        return _quality(Agreement.NOT_JUDGED, "changes what is learned")
    if treatment.losses == reference.losses:
        return _quality(Agreement.SAME_BITS, f"the first {len(reference.losses)} losses are bitwise the same")
    return _exact(treatment, reference) if numerics is Numerics.EXACT else _close(treatment, reference)


def judge_score(treatment: Ready, reference: Ready, numerics: Numerics) -> Quality:
    """The score after the first steps against the reference's, where the evaluation itself is what is timed."""
    ours, theirs = treatment.score, reference.score
    if ours is None or theirs is None:
        return _quality(Agreement.NOT_JUDGED, "no score was reported")
    words = f"after the first steps it scores {ours:.6g}, the reference {theirs:.6g}"
    if not math.isfinite(ours) or not math.isfinite(theirs):
        return _quality(Agreement.NAN, words)
    if numerics is Numerics.DIFFERENT:
        return _quality(Agreement.NOT_JUDGED, "changes what is learned")
    if ours == theirs:
        return _quality(Agreement.SAME_BITS, f"after the first steps both score {ours:.6g}")
    within = numerics is Numerics.CLOSE or reference.repeat_spread
    close = within and abs(ours - theirs) <= SCORE_TOLERANCE
    return _quality(Agreement.CLOSE if close else Agreement.DIFFERS, words)


def _exact(treatment: Ready, reference: Ready) -> Quality:
    if reference.repeat_spread:
        return _repeated(treatment, reference, reference.repeat_spread)
    differences = (abs(ours - theirs) for ours, theirs in zip(treatment.losses, reference.losses, strict=True))
    step, difference = next((step, one) for step, one in enumerate(differences, 1) if one)
    return _quality(Agreement.DIFFERS, f"losses differ from step {step} by {difference:.2g}")


def _repeated(treatment: Ready, reference: Ready, spread: float) -> Quality:
    """Within what the reference's own repeats differ by; never wider than what is merely close."""
    mean = _mean_difference(treatment, reference)
    seeds = math.inf if reference.seed_spread is None else ENVELOPE * reference.seed_spread
    words = f"losses differ by {mean:.2g} on average, repeats of the reference by {spread:.2g}"
    return _quality(Agreement.CLOSE if mean <= min(REPEATS * spread, seeds) else Agreement.DIFFERS, words)


def _mean_difference(treatment: Ready, reference: Ready) -> float:
    pairs = zip(treatment.losses, reference.losses, strict=True)
    return sum(abs(ours - theirs) for ours, theirs in pairs) / len(reference.losses)


def _close(treatment: Ready, reference: Ready) -> Quality:
    if reference.seed_spread is None:
        return _quality(Agreement.NOT_JUDGED, "the reference reported no spread over seeds")
    mean = _mean_difference(treatment, reference)
    close = mean <= ENVELOPE * reference.seed_spread
    words = f"losses differ by {mean:.2g} on average, other seeds by {reference.seed_spread:.2g}"
    return _quality(Agreement.CLOSE if close else Agreement.DIFFERS, words)


def _quality(status: Agreement, sentence: str) -> Quality:
    return Quality(status=status, sentence=sentence)
