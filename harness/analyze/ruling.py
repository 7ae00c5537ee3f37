"""Rulings: what an interval lets be said of a claim, by rules that were fixed before anything was measured.

The rules are those of docs/decisions/claims-ledger.md: a range is confirmed when the whole 95 % interval lies in it.
"""

import math
from dataclasses import dataclass, replace
from enum import StrEnum

from harness.analyze.verdict import MARGIN, SAME, Verdict, limits, verdict
from harness.core.claim import Bound, Claim, Metric

WIDENED_GAIN, LEAST_WIDENING = 0.25, 0.03  # of a point on either side
NEARLY = 0.95  # of an `up to` that must be reached
PATIENCE = 900  # times as many restarts as there are, beyond which nobody will wait


class Ruling(StrEnum):
    """What may be said of a claim."""

    CONFIRMED = "confirmed"
    OVERSTATED = "overstated"  # a gain, but less; of a loss, less of it or none
    UNDERSTATED = "understated"
    NO_EFFECT = "no effect"
    HARMFUL = "harmful"
    TESTED_OTHERWISE = "tested otherwise"  # something else was measured than it names: neither right nor wrong
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
    margin: float = MARGIN  # by which an interval must leave 1 behind on its machine


def allowed(claim: Claim, margin: float = MARGIN) -> tuple[float, float]:
    """From where to where the truth may lie if the claim holds; a point is widened."""
    low, high = claim.low or 0.0, claim.high or math.inf
    sure = limits(margin)
    if claim.bound is Bound.POINT:
        width = max(WIDENED_GAIN * abs(low - 1), LEAST_WIDENING)
        return low - width, low + width
    if claim.bound is Bound.UP_TO:
        return (0.0, high) if claim.metric is Metric.DEVICE_SHARE else (max(NEARLY * high, sure.faster), math.inf)
    free = min(SAME[0], sure.slower), max(SAME[1], sure.faster)
    named = {Bound.FREE: free, Bound.GAIN: (sure.faster, math.inf), Bound.LOSS: (0.0, sure.slower)}
    return named.get(claim.bound, (low, high))


def rule(claim: Claim, gauged: Gauged) -> Ruling:
    """The ruling of an interval; one that is too wide for any other is undecided."""
    if math.isinf(gauged.margin):
        return Ruling.UNDECIDED
    low, high = allowed(claim, gauged.margin)
    if low <= gauged.low and gauged.high <= high:
        return Ruling.CONFIRMED if claim.bound is not Bound.FREE or limits(gauged.margin).same else Ruling.UNDECIDED
    return (_ruled_share if claim.metric is Metric.DEVICE_SHARE else _ruled_ratio)(claim, low, high, gauged)


def _ruled_ratio(claim: Claim, low: float, high: float, gauged: Gauged) -> Ruling:
    seen = verdict(gauged.low, gauged.high, gauged.margin)
    if gauged.high < low and seen in {Verdict.SLOWER, Verdict.FASTER}:
        return Ruling.HARMFUL if seen is Verdict.SLOWER else Ruling.OVERSTATED
    if _changes_nothing(gauged) and promises_an_effect(claim):
        return Ruling.NO_EFFECT
    if promises_a_loss(claim):
        return Ruling.OVERSTATED if gauged.low > _no_such_loss(claim, gauged.margin) else Ruling.UNDECIDED
    return Ruling.UNDERSTATED if gauged.low > high else Ruling.UNDECIDED


def _no_such_loss(claim: Claim, margin: float) -> float:
    """Where a promised loss ends; a machine that misses small effects must see a gain to say that there is none."""
    sure = limits(margin)
    return sure.faster if claim.bound is Bound.LOSS and not sure.same else allowed(claim, margin)[1]


def _changes_nothing(gauged: Gauged) -> bool:
    """Whether it lies within 2 % of 1, be it a sure gain of less or not."""
    same = limits(gauged.margin).same
    return same is not None and same[0] <= gauged.low and gauged.high <= same[1]


def _ruled_share(claim: Claim, low: float, high: float, gauged: Gauged) -> Ruling:
    if gauged.high < low:
        return Ruling.OVERSTATED
    if gauged.low > high:  # `up to` of a share is a complaint: the device idles for the rest
        return Ruling.OVERSTATED if claim.bound is Bound.UP_TO else Ruling.UNDERSTATED
    return Ruling.UNDECIDED


def promises_an_effect(claim: Claim) -> bool:
    """Whether a claim would be refuted by nothing happening at all."""
    return claim.bound in {Bound.GAIN, Bound.UP_TO} or allowed(claim)[0] > SAME[1] or promises_a_loss(claim)


def promises_a_loss(claim: Claim) -> bool:
    """Whether a claim says that something is worse, so that it is wrong where less is lost, or nothing."""
    return claim.bound is Bound.LOSS or allowed(claim)[1] < SAME[0]


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
    return replace(gauged, low=low, high=high)
