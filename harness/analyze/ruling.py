"""Rulings: what an interval lets be said of a claim, by rules that were fixed before anything was measured.

The rules are those of docs/decisions/claims-ledger.md: a range is confirmed when the whole 95 % interval lies in it.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

from harness.core.claim import Bound, Claim, Metric

WIDENED_GAIN, LEAST_WIDENING = 0.25, 0.03  # of a point on either side
NEARLY = 0.95  # of an `up to` that must be reached
SURE_GAIN, SURE_LOSS = 1.01, 0.99
SAME = (0.98, 1.02)  # two one-sided tests: within it nothing changes that matters
PATIENCE = 900  # times as many restarts as there are, beyond which nobody will wait


class Ruling(StrEnum):
    """What may be said of a claim."""

    CONFIRMED = "confirmed"
    OVERSTATED = "overstated"  # a gain, but less
    UNDERSTATED = "understated"
    NO_EFFECT = "no effect"
    HARMFUL = "harmful"
    UNDECIDED = "undecided"
    NOT_MEASURED = "not measured yet"
    NOT_TESTABLE_HERE = "not testable here"
    UNTESTABLE = "untestable"


REFUTED = frozenset({Ruling.OVERSTATED, Ruling.NO_EFFECT, Ruling.HARMFUL})


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauged:
    """What a claim is about, as measured: times better, or a share from 0 to 1, with a 95 % interval."""

    value: float
    low: float
    high: float
    restarts: int


def allowed(claim: Claim) -> tuple[float, float]:
    """From where to where the truth may lie if the claim holds; a point is widened."""
    low, high = claim.low or 0.0, claim.high or math.inf
    if claim.bound is Bound.POINT:
        margin = max(WIDENED_GAIN * abs(low - 1), LEAST_WIDENING)
        return low - margin, low + margin
    if claim.bound is Bound.UP_TO:
        return (0.0, high) if claim.metric is Metric.DEVICE_SHARE else (max(NEARLY * high, SURE_GAIN), math.inf)
    named = {Bound.FREE: SAME, Bound.GAIN: (SURE_GAIN, math.inf), Bound.LOSS: (0.0, SURE_LOSS)}
    return named.get(claim.bound, (low, high))


def rule(claim: Claim, gauged: Gauged) -> Ruling:
    """The ruling of an interval; one that is too wide for any other is undecided."""
    low, high = allowed(claim)
    if low <= gauged.low and gauged.high <= high:
        return Ruling.CONFIRMED
    if claim.metric is Metric.DEVICE_SHARE:
        return _ruled_share(low, high, gauged)
    if gauged.high < min(SURE_LOSS, low):
        return Ruling.HARMFUL
    if gauged.high < low and gauged.low > SURE_GAIN:
        return Ruling.OVERSTATED
    if SAME[0] <= gauged.low and gauged.high <= SAME[1] and promises_an_effect(claim):
        return Ruling.NO_EFFECT
    return Ruling.UNDERSTATED if gauged.low > high else Ruling.UNDECIDED


def _ruled_share(low: float, high: float, gauged: Gauged) -> Ruling:
    if gauged.high < low:
        return Ruling.OVERSTATED
    return Ruling.UNDERSTATED if gauged.low > high else Ruling.UNDECIDED


def promises_an_effect(claim: Claim) -> bool:
    """Whether a claim would be refuted by nothing happening at all."""
    low, high = allowed(claim)
    return claim.bound in {Bound.GAIN, Bound.LOSS, Bound.UP_TO} or low > SAME[1] or high < SAME[0]


def restarts_needed(claim: Claim, gauged: Gauged) -> int | None:
    """About how many restarts would decide, if the estimate stays where it is; None where none in reach would.

    An interval narrows with the root of its restarts, so reaching a half-width h from hw takes R·(hw/h)².
    """
    logarithmic = claim.metric is not Metric.DEVICE_SHARE
    width = _half_width(gauged, logarithmic=logarithmic)
    if not 0 < width < math.inf:
        return None
    decided, undecided = 0.0, 1.0  # shares of the half-width
    for _ in range(40):
        share = (decided + undecided) / 2
        if rule(claim, _narrowed(gauged, share * width, logarithmic=logarithmic)) is Ruling.UNDECIDED:
            undecided = share
        else:
            decided = share
    return math.ceil(gauged.restarts / decided**2) if decided > PATIENCE**-0.5 else None


def _half_width(gauged: Gauged, *, logarithmic: bool) -> float:
    if not logarithmic:
        return gauged.high - gauged.value
    return math.log(gauged.high / gauged.value) if gauged.value > 0 else math.inf


def _narrowed(gauged: Gauged, width: float, *, logarithmic: bool) -> Gauged:
    value = gauged.value
    low, high = (value * math.exp(-width), value * math.exp(width)) if logarithmic else (value - width, value + width)
    return Gauged(value=value, low=low, high=high, restarts=gauged.restarts)
