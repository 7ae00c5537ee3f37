"""Generality: what several workloads say together of a claim about training in general."""

import math
from collections.abc import Sequence

import numpy as np
from scipy import stats

from harness.analyze.claims import Finding
from harness.analyze.ruling import Gauged, Ruling, rule
from harness.core.claim import ANY, Bound, Claim, Metric

FEWEST_WORKLOADS = 4


def general(claim: Claim, parts: Sequence[Finding]) -> Finding:
    """The claim over all workloads; it holds in general only if it would hold for a workload nobody has tried."""
    known = [one for one in parts if one.gauged is not None and one.ruling is not Ruling.TESTED_OTHERWISE]
    found = Finding(claim=claim, workload=ANY, ruling=Ruling.UNDECIDED, parts=tuple(parts))
    if claim.metric is Metric.QUALITY:
        return _with(found, *_quality(parts))
    if not known:
        return _with(found, *_silence(parts))
    if claim.bound is Bound.UP_TO:
        return _with(found, *_best(known))
    if len(known) < FEWEST_WORKLOADS:
        return _with(found, Ruling.UNDECIDED, _too_few(len(known)))
    gauged = predicted([one.gauged for one in known if one.gauged is not None])
    ruling = rule(claim, gauged)
    words = f"over {len(known)} workloads; the interval is where a further workload would lie"
    return Finding(claim=claim, workload=ANY, ruling=ruling, words=words, gauged=gauged, parts=tuple(parts))


def predicted(gauged: Sequence[Gauged]) -> Gauged:
    """The random-effects mean of ratios, with a 95 % prediction interval for a further workload.

    DerSimonian and Laird's variance between workloads; the interval is that of Higgins, Thompson and Spiegelhalter
    (2009), t with k - 2 degrees of freedom. A workload's standard error is its half-width over 1.96, which is more
    than it needs to be where restarts are few.
    """
    effects = np.array([math.log(one.value) for one in gauged])
    variances = np.array([min(max(math.log(one.high / one.value) / 1.96, 1e-6), 50.0) ** 2 for one in gauged])
    weights, freedom = 1 / variances, len(gauged) - 1
    fixed = float((weights * effects).sum() / weights.sum())
    excess = float((weights * (effects - fixed) ** 2).sum()) - freedom
    between = max(0.0, excess / float(weights.sum() - (weights**2).sum() / weights.sum()))
    weights = 1 / (variances + between)
    mean = float((weights * effects).sum() / weights.sum())
    half_width = float(stats.t.ppf(0.975, len(gauged) - 2)) * math.sqrt(between + 1 / float(weights.sum()))
    restarts = min(one.restarts for one in gauged)
    low, high = (math.exp(min(one, 700.0)) for one in (mean - half_width, mean + half_width))
    margin = max(one.margin for one in gauged)
    return Gauged(value=math.exp(mean), low=low, high=high, restarts=restarts, margin=margin)


def _with(found: Finding, ruling: Ruling, words: str) -> Finding:
    return Finding(claim=found.claim, workload=ANY, ruling=ruling, words=words, parts=found.parts)


def _too_few(count: int) -> str:
    return f"{count} workload{'s' if count != 1 else ''} so far; {FEWEST_WORKLOADS} are needed to speak in general"


def _silence(parts: Sequence[Finding]) -> tuple[Ruling, str]:
    """Why nothing is known: what was measured in its place, then what most could be done about it."""
    if otherwise := [one.workload for one in parts if one.ruling is Ruling.TESTED_OTHERWISE]:
        return Ruling.TESTED_OTHERWISE, f"on {', '.join(otherwise)}"
    for ruling in (Ruling.NOT_MEASURED, Ruling.UNDECIDED, Ruling.NOT_TESTABLE_HERE, Ruling.UNTESTABLE):
        words = [one.words for one in parts if one.ruling is ruling]
        if words and ruling is Ruling.NOT_MEASURED:
            return ruling, "speedmatrix run --design claims"
        if words:
            return ruling, "; ".join(dict.fromkeys(words))
    return Ruling.UNTESTABLE, "no workload to test it on"


def _best(known: Sequence[Finding]) -> tuple[Ruling, str]:
    """An `up to` is reached if one workload reaches it, and refuted if none of enough does."""
    rulings = [one.ruling for one in known]
    if Ruling.CONFIRMED in rulings:
        reached = ", ".join(one.workload for one in known if one.ruling is Ruling.CONFIRMED)
        return Ruling.CONFIRMED, f"reached on {reached}"
    if len(known) < FEWEST_WORKLOADS:
        return Ruling.UNDECIDED, _too_few(len(known))
    if Ruling.UNDECIDED in rulings:
        return Ruling.UNDECIDED, "not reached for certain anywhere, and not ruled out everywhere"
    best = next(one for one in (Ruling.OVERSTATED, Ruling.NO_EFFECT, Ruling.HARMFUL) if one in rulings)
    return best, f"not reached on any of {len(known)} workloads"


def _quality(parts: Sequence[Finding]) -> tuple[Ruling, str]:
    judged = [one for one in parts if one.ruling in {Ruling.CONFIRMED, Ruling.HARMFUL, Ruling.NO_EFFECT}]
    if not judged:
        return _silence(parts)
    if harmed := [one.workload for one in judged if one.ruling is Ruling.HARMFUL]:
        return Ruling.HARMFUL, f"on {', '.join(harmed)}"
    if len(judged) < FEWEST_WORKLOADS:
        return Ruling.UNDECIDED, _too_few(len(judged))
    if len({one.ruling for one in judged}) > 1:
        return Ruling.UNDECIDED, "; ".join(f"{one.ruling} on {one.workload}" for one in judged)
    return judged[0].ruling, f"on all of {len(judged)} workloads"
