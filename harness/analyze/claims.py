"""Claims: what a machine's runs say of each promise in the ledger."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from scipy import stats

from harness.analyze.estimate import Estimate, results
from harness.analyze.evidence import Evidence, Side, gather
from harness.analyze.matrix import unproven
from harness.analyze.quality import Agreement, Quality
from harness.analyze.soundness import Absence, Outcome
from harness.analyze.verdict import (
    LEAST_FREEDOM,
    LEAST_SPREAD,
    MARGIN,
    SAME,
    UNCALIBRATED,
    Terms,
    Verdict,
    limits,
    verdict,
)
from harness.core.cell import Cell
from harness.core.claims import ANY, Bound, Claim, Metric, Resolution, Tried, Untried
from harness.core.plan import Plan
from harness.core.protocol import FEWEST_RESTARTS
from harness.core.records import Record

# Rulings: what an interval lets be said of a claim, by rules that were fixed before anything was measured.
#
# The rules are those of docs/decisions/claims-ledger.md: a range is confirmed when the whole 95 % interval lies in it.

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


# Gauges: what a claim is about, read from the records of the comparison that tests it.

Values = Mapping[int, float]  # by restart


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One comparison of a run: its result in the matrix, and the evidence behind it."""

    result: Estimate | Absence
    evidence: Evidence
    data: str = ""  # what the real data of its workload are, in words; empty where they are the suite's own


def trials(plan: Plan, records: Iterable[Record], terms: Terms = UNCALIBRATED) -> tuple[Trial, ...]:
    """Every comparison of a run, in the plan's order; raises Mistake where a switch has no promise in the plan."""
    gathered = list(gather(plan, records))
    return tuple(
        Trial(result=result, evidence=one, data=plan.data.get(one.comparison.treatment.workload, ""))
        for one, result in zip(gathered, results(gathered, plan.protocol, terms), strict=True)
    )


def gauge(metric: Metric, trial: Trial) -> Gauged | str:
    """What a comparison says of a metric, or why it says nothing; quality is judged elsewhere."""
    if metric is Metric.THROUGHPUT:
        return _throughput(trial.result)
    if metric is Metric.DEVICE_SHARE:
        shares = _shares(trial.evidence.treatment)
        return _at_most(_interval(shares)) if len(shares) >= FEWEST_RESTARTS else "no device times were recorded"
    measured = _COSTS[metric]
    ours, theirs = measured(trial.evidence.treatment), measured(trial.evidence.reference)
    ratios = {restart: math.log(theirs[restart] / ours[restart]) for restart in ours.keys() & theirs.keys()}
    if len(ratios) < FEWEST_RESTARTS:
        return f"{metric} was not recorded in two restarts"
    return _exponential(_interval(ratios, spread=LEAST_SPREAD))


def _throughput(result: Estimate | Absence) -> Gauged | str:
    if isinstance(result, Absence):
        return result.words
    if result.unrest:
        return f"the machine was too disturbed: {result.unrest}"
    if result.withheld:
        return unproven(result)
    return Gauged(
        value=result.ratio,
        low=result.low,
        high=result.high,
        restarts=result.processes,
        margin=result.terms.margin,
    )


def _host_bytes(side: Side) -> Values:
    """Peaks alone: what was resident after a window says little of what a window needs."""
    known = ((burst.arm.restart, burst.host_peak_bytes) for burst in side.bursts)
    return _largest((restart, float(count)) for restart, count in known if count)


def _device_bytes(side: Side) -> Values:
    known = ((burst.arm.restart, burst.device_bytes) for burst in side.bursts)
    return _largest((restart, float(count)) for restart, count in known if count)


def _start_s(side: Side) -> Values:
    """Of the first life of each restart, since later ones find caches warm; readies come in the order of lives."""
    found: dict[int, float] = {}
    for ready in side.readies:
        found.setdefault(ready.arm.restart, ready.build_s + ready.first_step_s)
    return found


def _shares(side: Side) -> Values:
    device_s: dict[int, float] = defaultdict(float)
    wall_s: dict[int, float] = defaultdict(float)
    for burst in side.bursts:
        if burst.device_s:  # older records have 0 where nothing bounded the device's work
            device_s[burst.arm.restart] += burst.device_s
            wall_s[burst.arm.restart] += burst.wall_s
    return {restart: device_s[restart] / wall_s[restart] for restart in device_s}


_COSTS: Mapping[Metric, Callable[[Side], Values]] = {
    Metric.HOST_MEMORY: _host_bytes,
    Metric.DEVICE_MEMORY: _device_bytes,
    Metric.START_UP: _start_s,
}


def _largest(values: Iterable[tuple[int, float]]) -> Values:
    found: dict[int, float] = {}
    for restart, value in values:
        found[restart] = max(value, found.get(restart, 0.0))
    return found


def _interval(values: Values, spread: float = 0.0) -> Gauged:
    """Student's t over restarts, no narrower than a spread allows: two restarts may agree by luck."""
    array = np.array(list(values.values()))
    own = stats.t.ppf(0.975, len(array) - 1) * array.std(ddof=1)
    least = stats.t.ppf(0.975, LEAST_FREEDOM) * (spread or LEAST_SPREAD * abs(array.mean()))
    centre, half_width = float(array.mean()), float(max(own, least) / math.sqrt(len(array)))
    return Gauged(value=centre, low=centre - half_width, high=centre + half_width, restarts=len(array))


def _at_most(gauged: Gauged) -> Gauged:
    """The same as an upper bound: the span of a step holds gaps in which the device waits for the host."""
    return replace(gauged, low=0.0)


def _exponential(logs: Gauged) -> Gauged:
    with np.errstate(over="ignore"):
        value, low, high = (float(np.exp(one)) for one in (logs.value, logs.low, logs.high))
    return Gauged(value=value, low=low, high=high, restarts=logs.restarts)


# What another attempt may still put right; other absences are an answer.
_UNFINISHED = {Outcome.NOT_MEASURED, Outcome.ONE_RESTART, Outcome.INTERRUPTED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One run's answer to one claim on one workload: how the claim is tested where it was made, and its comparison."""

    run: str
    resolution: Resolution
    trial: Trial | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """By what a claim was judged."""

    run: str
    cell: Cell  # the treatment
    reference: Cell
    tried: Tried
    data: str = ""  # what the real data were, in words; empty where they were the suite's own


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A claim on one machine: the ruling, the words that belong to it, and what it rests on."""

    claim: Claim
    workload: str  # or `any`, for what several workloads say together
    ruling: Ruling
    words: str = ""
    gauged: Gauged | None = None
    basis: Basis | None = None
    parts: tuple["Finding", ...] = ()  # workload by workload, where a claim is about training in general


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """All findings of one machine, in the ledger's order."""

    machine: str
    runs: tuple[str, ...]  # those that were looked at, the newest first
    findings: tuple[Finding, ...]


def find(claim: Claim, workload: str, looks: Sequence[Look]) -> Finding:
    """What runs of one machine, the newest first, say of a claim on a workload.

    The newest run with an estimate of what the claim names decides, else the newest with an estimate of something like
    it; runs are never pooled. Raises ValueError where there is no run at all.
    """
    newest = looks[0].resolution
    if claim.untestable:
        return Finding(claim=claim, workload=workload, ruling=Ruling.UNTESTABLE, words=claim.untestable)
    answers = [look for look in looks if look.trial is not None and _is_answer(claim, look.trial)]
    answers.sort(key=lambda look: _rank(claim, look))  # stable: the newest of each kind stays first
    if answers:
        return _judged(claim, workload, answers[0])
    if isinstance(newest, Untried):
        return Finding(claim=claim, workload=workload, ruling=Ruling.NOT_TESTABLE_HERE, words=newest.reason)
    return Finding(claim=claim, workload=workload, ruling=Ruling.NOT_MEASURED, words=_command(workload))


def _command(workload: str) -> str:
    return f"speedmatrix run {workload} --design claims"


def _rank(claim: Claim, look: Look) -> int:
    """The place of a run among the answers: what was measured as claimed, then otherwise, then what has no estimate."""
    if not _is_decisive(claim, look):
        return 2
    return int(isinstance(look.resolution, Tried) and bool(look.resolution.shortfalls))


def _is_decisive(claim: Claim, look: Look) -> bool:
    """Whether a run has an estimate; a loss that became nan decides about quality without one."""
    if look.trial is None or isinstance(look.trial.result, Estimate):
        return look.trial is not None
    return claim.metric is Metric.QUALITY and _is_broken(look.trial)


def _is_broken(trial: Trial) -> bool:
    quality = trial.evidence.quality
    return quality is not None and quality.status is Agreement.NAN


def _is_answer(claim: Claim, trial: Trial) -> bool:
    """Whether nothing that another attempt would add is needed to judge."""
    if isinstance(trial.result, Absence) and trial.result.outcome in _UNFINISHED:
        return False
    return claim.metric is not Metric.DEVICE_SHARE or bool(trial.evidence.treatment.bursts)


def _judged(claim: Claim, workload: str, look: Look) -> Finding:
    trial, tried = look.trial, look.resolution
    if trial is None or not isinstance(tried, Tried):
        raise ValueError("only a comparison that was made can be judged")
    comparison = trial.evidence.comparison
    basis = Basis(run=look.run, cell=comparison.treatment, reference=comparison.reference, tried=tried, data=trial.data)
    found = Finding(claim=claim, workload=workload, ruling=Ruling.UNDECIDED, basis=basis)
    quality = trial.evidence.quality if claim.metric is Metric.QUALITY else None
    if isinstance(trial.result, Absence) and not (quality and _is_broken(trial)):
        return replace(found, words=trial.result.words)
    if quality is not None:
        ruling = Ruling.TESTED_OTHERWISE if tried.shortfalls else _ruled_quality(claim, quality)
        return replace(found, ruling=ruling, words=quality.sentence)
    if claim.metric is Metric.QUALITY:
        return replace(found, words="no losses were reported")
    gauged = gauge(claim.metric, trial)
    if isinstance(gauged, str):
        known = claim.metric is Metric.THROUGHPUT  # a cost that no record holds was not measured at all
        return replace(found, ruling=Ruling.UNDECIDED if known else Ruling.NOT_MEASURED, words=gauged)
    ruling = Ruling.TESTED_OTHERWISE if tried.shortfalls else rule(claim, gauged)
    words = (_more_restarts(claim, gauged),) if ruling is Ruling.UNDECIDED else ()
    return replace(found, ruling=ruling, words="; ".join((*words, *_caveats(trial))), gauged=gauged)


def _caveats(trial: Trial) -> Iterator[str]:
    """What a reader must know beside a ruling: that there was nothing to act on, or that it no longer learns alike."""
    yield from trial.evidence.treatment.pointless
    quality = trial.evidence.quality
    if quality is not None and quality.status in {Agreement.DIFFERS, Agreement.NAN}:
        yield f"but its quality {quality.status}: {quality.sentence}"


def _more_restarts(claim: Claim, gauged: Gauged) -> str:
    needed = restarts_needed(claim, gauged)
    if needed is None:
        return "too close to call: no number of restarts in reach would decide"
    return f"about {max(needed, gauged.restarts + 1)} restarts would decide, {gauged.restarts} were made"


def _ruled_quality(claim: Claim, quality: Quality) -> Ruling:
    if quality.status is Agreement.NOT_JUDGED:
        return Ruling.UNDECIDED
    kept = quality.status in {Agreement.SAME_BITS, Agreement.CLOSE}
    if claim.bound is Bound.LOSS:
        return Ruling.NO_EFFECT if kept else Ruling.CONFIRMED
    return Ruling.CONFIRMED if kept else Ruling.HARMFUL


def matching(resolution: Resolution, workload: str, made: Iterable[Trial]) -> Trial | None:
    """The comparison of a run that tests a claim there, whatever its size and batch; one with an estimate if it can."""
    if isinstance(resolution, Untried):
        return None
    found = [one for one in made if _matches(resolution, workload, one)]
    return min(found, key=lambda one: isinstance(one.result, Absence), default=None)


def _matches(tried: Tried, workload: str, trial: Trial) -> bool:
    comparison = trial.evidence.comparison
    wanted = (workload, tried.treatment, tried.reference, tried.timing)
    treatment, reference = comparison.treatment, comparison.reference
    return wanted == (treatment.workload, treatment.switches, reference.switches, comparison.timing)


# Generality: what several workloads say together of a claim about training in general.

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
