"""Claims: what a machine's runs say of each promise in the ledger."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

import numpy as np
from scipy import stats

from harness.analyze.estimate import (
    FIXED,
    Estimate,
    average,
    half_width_of,
    looked_up,
    narrowest,
    replicates_for,
    results,
    surest_of,
)
from harness.analyze.evidence import Evidence, Side, gather
from harness.analyze.grouping import ratios_of_sums
from harness.analyze.matrix import no_verdict
from harness.analyze.quality import LEARNS_ALIKE, Agreement, Quality
from harness.analyze.soundness import UNFINISHED, Absence
from harness.analyze.verdict import (
    LEAST_FREEDOM,
    LEAST_SPREAD,
    MARGIN,
    SAME,
    UNCALIBRATED,
    Thresholds,
    limits,
    verdict,
)
from harness.core.claims import ANY, Bound, Claim, Metric, Resolution, Tried, Untried
from harness.core.configuration import Configuration, changes_batch
from harness.core.optimization import Timing
from harness.core.plan import Plan
from harness.core.protocol import FEWEST_REPLICATES
from harness.core.records import Record
from harness.core.workload import Workload

# Rulings: what an interval lets be said of a claim, by rules that were fixed before anything was measured.
#
# The rules are those of docs/decisions/claims-ledger.md: a range is confirmed when the whole 95 % interval lies in it.

WIDENED_GAIN, LEAST_WIDENING = 0.25, 0.03  # of a point on either side
NEARLY = 0.95  # of an `up to` that must be reached
PATIENCE = 900  # times as many replicates as there are, beyond which nobody will wait


class ClaimVerdict(StrEnum):
    """What may be said of a claim."""

    CONFIRMED = "confirmed"
    OVERSTATED = "overstated"  # a gain, but less; of a loss, less of it or none
    UNDERSTATED = "understated"
    NO_EFFECT = "no effect"
    HARMFUL = "harmful"
    TESTED_OTHERWISE = "tested otherwise"  # something else was measured than it names: neither right nor wrong
    HOLDS_EMULATED = "holds on an emulated device"
    FAILS_EMULATED = "fails on an emulated device"
    UNDECIDED = "undecided"
    NO_RESULT = "no result"  # it was tried, and no number came of it that can be believed
    NOT_MEASURED = "not measured yet"
    NOT_TESTABLE_HERE = "not testable here"
    UNTESTABLE = "untestable"


UNTRIED = frozenset({ClaimVerdict.NOT_MEASURED, ClaimVerdict.NOT_TESTABLE_HERE, ClaimVerdict.UNTESTABLE})
REFUTED = frozenset({ClaimVerdict.OVERSTATED, ClaimVerdict.NO_EFFECT, ClaimVerdict.HARMFUL})


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredValue:
    """What a claim is about, as measured: times better, or a share from 0 to 1, with a 95 % interval."""

    value: float
    low: float
    high: float
    replicates: int
    margin: float = MARGIN  # by which an interval must leave 1 behind on its machine
    df: float = math.inf  # behind the interval, and its point of Student's t
    point: float = FIXED
    least: float = 0.0  # half-width of one replicate below which none is believed


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


def rule(claim: Claim, seen: MeasuredValue) -> ClaimVerdict:
    """The verdict of an interval; one that is too wide for any other is undecided."""
    if math.isinf(seen.margin):
        return ClaimVerdict.UNDECIDED
    low, high = allowed(claim, seen.margin)
    if low <= seen.low and seen.high <= high:
        provable = claim.bound is not Bound.FREE or limits(seen.margin).same
        return ClaimVerdict.CONFIRMED if provable else ClaimVerdict.UNDECIDED
    return (_ruled_share if claim.metric is Metric.DEVICE_SHARE else _ruled_ratio)(claim, low, high, seen)


def _ruled_ratio(claim: Claim, low: float, high: float, seen: MeasuredValue) -> ClaimVerdict:
    word, sure = verdict(seen.low, seen.high, seen.margin), limits(seen.margin)
    if seen.high < low and (word.gains or word.loses):
        return ClaimVerdict.HARMFUL if word.loses else ClaimVerdict.OVERSTATED
    within = sure.same is not None and sure.same[0] <= seen.low and seen.high <= sure.same[1]
    if within and promises_an_effect(claim):  # be it a sure gain of less than 2 % or not
        return ClaimVerdict.NO_EFFECT
    if promises_a_loss(claim):
        # A machine that misses small effects must see a gain to say that there is no loss.
        end = sure.faster if claim.bound is Bound.LOSS and not sure.same else high
        return ClaimVerdict.OVERSTATED if seen.low > end else ClaimVerdict.UNDECIDED
    return ClaimVerdict.UNDERSTATED if seen.low > high else ClaimVerdict.UNDECIDED


def _ruled_share(claim: Claim, low: float, high: float, seen: MeasuredValue) -> ClaimVerdict:
    if seen.high < low:
        return ClaimVerdict.OVERSTATED
    if seen.low > high:  # `up to` of a share is a complaint: the device idles for the rest
        return ClaimVerdict.OVERSTATED if claim.bound is Bound.UP_TO else ClaimVerdict.UNDERSTATED
    return ClaimVerdict.UNDECIDED


def promises_an_effect(claim: Claim) -> bool:
    """Whether a claim would be refuted by nothing happening at all."""
    return claim.bound in {Bound.GAIN, Bound.UP_TO} or allowed(claim)[0] >= SAME[1] or promises_a_loss(claim)


def promises_a_loss(claim: Claim) -> bool:
    """Whether a claim says that something is worse, so that it is wrong where less is lost, or nothing."""
    return claim.bound is Bound.LOSS or allowed(claim)[1] < SAME[0]


def replicates_needed(claim: Claim, seen: MeasuredValue) -> int | None:
    """About how many replicates would decide, if the estimate stays where it is; None where none in reach would."""
    logarithmic = claim.metric is not Metric.DEVICE_SHARE
    if logarithmic:
        width = math.log(seen.high / seen.value) if seen.value > 0 else math.inf
    else:
        width = seen.high - seen.value
    if not 0 < width < math.inf:
        return None
    decided, undecided = 0.0, 1.0  # shares of the half-width
    for _ in range(40):
        share = (decided + undecided) / 2
        if rule(claim, _narrowed(seen, share * width, logarithmic=logarithmic)) is ClaimVerdict.UNDECIDED:
            undecided = share
        else:
            decided = share
    return replicates_for(
        decided * width,
        width,
        df=seen.df,
        point=seen.point,
        replicates=seen.replicates,
        least=seen.least,
        most=PATIENCE * seen.replicates,
    )


def _narrowed(seen: MeasuredValue, width: float, *, logarithmic: bool) -> MeasuredValue:
    if logarithmic:
        return replace(seen, low=seen.value * math.exp(-width), high=seen.value * math.exp(width))
    return replace(seen, low=0.0, high=seen.value + width)  # a share is bounded from above alone


# Measured values: what a claim is about, read from the records of the comparison that tests it.

Values = Mapping[int, float]  # by replicate


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One comparison of a run: its result in the matrix, and the evidence behind it."""

    result: Estimate | Absence
    evidence: Evidence
    data: str = ""  # what the real data of its workload are, in words; empty where they are the suite's own


def trials(
    plan: Plan, records: Iterable[Record], thresholds: Thresholds = UNCALIBRATED, *, emulated: bool = False
) -> tuple[Trial, ...]:
    """Every comparison of a run, in the plan's order; raises Mistake where an option has no promise in the plan.

    None of two batches is among them: a claim is about options.
    """
    gathered = list(gather(plan, records))
    found = results(gathered, plan.protocol, thresholds)
    if emulated:
        found = [looked_up(one, result) for one, result in zip(gathered, found, strict=True)]
    return tuple(
        Trial(result=result, evidence=one, data=plan.data.get(one.comparison.treatment.workload, ""))
        for one, result in zip(gathered, found, strict=True)
        if not changes_batch(one.comparison)
    )


def measure(metric: Metric, trial: Trial) -> MeasuredValue | str:
    """What a comparison says of a metric, or why it says nothing; quality is judged elsewhere."""
    if metric is Metric.THROUGHPUT:
        return _throughput(trial.result)
    if metric is Metric.DEVICE_SHARE:
        shares = _shares(trial.evidence.treatment)
        if len(shares) < FEWEST_REPLICATES:
            return "no device times were recorded"
        # An upper bound: the span of a step holds gaps in which the device waits for the host.
        return replace(_interval(shares), low=0.0)
    measured = _COSTS[metric]
    ours, theirs = measured(trial.evidence.treatment), measured(trial.evidence.reference)
    known = (one for one in ours.keys() & theirs.keys() if min(ours[one], theirs[one]) > 0)  # else it has no logarithm
    ratios = {replicate: math.log(theirs[replicate] / ours[replicate]) for replicate in known}
    if len(ratios) < FEWEST_REPLICATES:
        return f"{metric} was not recorded in two replicates"
    logs = _interval(ratios, spread=LEAST_SPREAD)
    with np.errstate(over="ignore"):
        value, low, high = (float(np.exp(one)) for one in (logs.value, logs.low, logs.high))
    return replace(logs, value=value, low=low, high=high)


def _throughput(result: Estimate | Absence) -> MeasuredValue | str:
    if isinstance(result, Absence):
        return result.words
    if words := no_verdict(result):
        return words
    return MeasuredValue(
        value=result.ratio,
        low=result.low,
        high=result.high,
        replicates=result.processes,
        margin=result.thresholds.margin,
        df=result.df,
        point=result.point,
        least=narrowest(result.thresholds),
    )


def _peak_bytes(name: str, side: Side) -> Values:
    """The largest peak of each replicate; what was resident after a window says little of what a window needs."""
    found: dict[int, float] = {}
    for window in side.windows:
        if count := getattr(window, name):
            found[window.arm.replicate] = max(float(count), found.get(window.arm.replicate, 0.0))
    return found


def _start_s(side: Side) -> Values:
    return {replicate: one.build_s + one.first_step_s for replicate, one in side.first_starts.items()}


def _shares(side: Side) -> Values:
    known = (one for one in side.windows if one.device_s)  # older records have 0 where nothing bounded its work
    return ratios_of_sums((one.arm.replicate, one.device_s or 0.0, one.wall_s) for one in known)


_COSTS: Mapping[Metric, Callable[[Side], Values]] = {
    Metric.HOST_MEMORY: partial(_peak_bytes, "host_peak_bytes"),
    Metric.DEVICE_MEMORY: partial(_peak_bytes, "device_bytes"),
    Metric.START_UP: _start_s,
}


def _interval(values: Values, spread: float = 0.0) -> MeasuredValue:
    """Student's t over replicates, no narrower than a spread allows: two replicates may agree by luck."""
    array = np.array(list(values.values()))
    centre, count = float(array.mean()), len(array)
    least = float(stats.t.ppf(FIXED, LEAST_FREEDOM)) * (spread or LEAST_SPREAD * abs(centre))
    half_width = half_width_of(float(array.std(ddof=1)), count, least)
    low, high = centre - half_width, centre + half_width
    return MeasuredValue(value=centre, low=low, high=high, replicates=count, df=count - 1, least=least)


AS_CLAIMED = "standard"  # the size at which a device's step is as long as the claim's


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One run's answer to one claim on one workload: how the claim is tested where it was made, and its comparison."""

    run: str
    resolution: Resolution
    trial: Trial | None
    made_in: str = ""  # the environment's digest and the version


def as_timed(
    claim: Claim, resolution: Resolution, trial: Trial | None, workload: Workload, *, former: bool = False
) -> Resolution:
    """The resolution with what a run adds to its shortfalls: a small set has short epochs and passes.

    And steps may be by a `former` table of an emulated device.
    """
    if trial is None or not isinstance(resolution, Tried) or claim.metric is Metric.QUALITY:
        return resolution
    name = trial.evidence.comparison.reference.size
    size, found = workload.sizes[name], list(resolution.shortfalls)
    if resolution.timing is Timing.EPOCH and size.epoch_steps <= 0.9 * size.original_epoch_steps:
        found.append(
            f"an epoch had {size.epoch_steps} steps in place of {size.original_epoch_steps:,}, so that its boundary, "
            "where workers start, weighs more"
        )
    items, original = size.evaluation_items, workload.original_evaluation_items
    begins = any(one.effective.get("evaluation_workers") for one in trial.evidence.readies)
    if resolution.timing is Timing.EVALUATION and begins and original and items <= 0.9 * original:
        found.append(
            f"a pass had {items} items in place of {original:,}, so that its start, where workers begin, weighs more"
        )
    reference = trial.evidence.comparison.reference
    if size.batch != reference.batch == trial.evidence.comparison.treatment.batch:
        found.append(f"in batches of {reference.batch} in place of {size.batch}")
    device_decides = resolution.timing in {Timing.STEP, Timing.EPOCH, Timing.COMPUTE}
    if device_decides and name != AS_CLAIMED:
        on_gpu = any(one.device_s is not None for one in trial.evidence.windows)
        found.append(
            f"on a model of size {name}, which leaves the device more idle than that of size {AS_CLAIMED}"
            if on_gpu
            else f"with a step of size {name}, smaller than the real system's"
        )
    found += ["with steps by a former table of the emulated device"] if former else []
    return replace(resolution, shortfalls=tuple(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """By what a claim was judged."""

    run: str
    config: Configuration  # the treatment
    reference: Configuration
    tried: Tried
    data: str = ""  # what the real data were, in words; empty where they were the suite's own
    runs: int = 1  # whose average the ratio is, that run's among them


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A claim on one machine: the verdict, the words that belong to it, and what it rests on."""

    claim: Claim
    workload: str  # or `any`, for what several workloads say together
    claim_verdict: ClaimVerdict
    words: str = ""
    measured_value: MeasuredValue | None = None
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

    A run with an estimate of what the claim names decides, else one with an estimate of something like it: of those
    of the newest one's environment and version all together, as an average. Raises ValueError where there is none.
    """
    newest = looks[0].resolution
    if claim.untestable:
        return Finding(claim=claim, workload=workload, claim_verdict=ClaimVerdict.UNTESTABLE, words=claim.untestable)
    answers = [look for look in looks if look.trial is not None and _is_answer(claim, look.trial)]
    if answers:
        return _judged(claim, workload, _surest(claim, answers))
    if isinstance(newest, Untried):
        here = ClaimVerdict.NOT_TESTABLE_HERE
        return Finding(claim=claim, workload=workload, claim_verdict=here, words=newest.reason)
    slow = any(one.name == "compile" for one in newest.treatment)  # a first look gives no start so much time
    command = f"speedmatrix run {workload} --design claims" + " --protocol standard" * slow
    return Finding(claim=claim, workload=workload, claim_verdict=ClaimVerdict.NOT_MEASURED, words=command)


def _surest(claim: Claim, answers: Sequence[Look]) -> Look:
    """Of the runs that say most, by the version and in the environment of the newest; a calm one if there is one.

    Where several calm ones measured the very same, its ratio is their average.
    """
    best = min(_rank(claim, look) for look in answers)
    ranked = [look for look in answers if _rank(claim, look) == best]
    known = [(look.trial.result, look) for look in ranked if look.trial and isinstance(look.trial.result, Estimate)]
    if claim.metric is Metric.QUALITY or not known:
        return ranked[0]
    alike = [pair for pair in known if pair[1].made_in == known[0][1].made_in]
    return _averaged(surest_of(alike), [look for _, look in alike])


def _averaged(first: Look, looks: Sequence[Look]) -> Look:
    """A look with the average of all sound ratios of the very same comparison."""
    found = [one.trial.result for one in looks if one.trial and _sound_question(one) == _sound_question(first)]
    several = [one for one in found if isinstance(one, Estimate)]
    if first.trial is None or _sound_question(first) is None or len(several) < 2:
        return first
    return replace(first, trial=replace(first.trial, result=average(several)))


def _sound_question(look: Look) -> tuple[object, ...] | None:
    """What a look's ratio answers; None where no average may hold it."""
    result = look.trial.result if look.trial else None
    if look.trial is None or not isinstance(result, Estimate) or not result.is_sound:
        return None
    return look.trial.evidence.comparison, look.trial.data, result.shared


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
    if isinstance(trial.result, Absence) and trial.result.outcome in UNFINISHED:
        return False
    return claim.metric is not Metric.DEVICE_SHARE or bool(trial.evidence.treatment.windows)


def _judged(claim: Claim, workload: str, look: Look) -> Finding:
    trial, tried = look.trial, look.resolution
    if trial is None or not isinstance(tried, Tried):
        raise ValueError("only a comparison that was made can be judged")
    comparison = trial.evidence.comparison
    basis = Basis(
        run=look.run,
        config=comparison.treatment,
        reference=comparison.reference,
        tried=tried,
        data=trial.data,
        runs=trial.result.runs if isinstance(trial.result, Estimate) else 1,
    )
    found = Finding(claim=claim, workload=workload, claim_verdict=ClaimVerdict.UNDECIDED, basis=basis)
    quality = trial.evidence.quality if claim.metric is Metric.QUALITY else None
    if isinstance(trial.result, Absence) and not (quality and _is_broken(trial)):
        return replace(found, claim_verdict=ClaimVerdict.NO_RESULT, words=trial.result.words)
    if quality is not None:
        claim_verdict = ClaimVerdict.TESTED_OTHERWISE if tried.shortfalls else _ruled_quality(claim, quality)
        return replace(found, claim_verdict=claim_verdict, words=quality.sentence)
    if claim.metric is Metric.QUALITY:
        return replace(found, words="no losses were reported")
    timed = claim.metric in {Metric.START_UP, Metric.DEVICE_SHARE}
    if timed and isinstance(trial.result, Estimate) and trial.result.disturbed:
        return replace(found, claim_verdict=ClaimVerdict.NO_RESULT, words=no_verdict(trial.result) or "")
    seen = measure(claim.metric, trial)
    if isinstance(seen, str):
        return replace(found, claim_verdict=_without_value(claim, trial.result), words=seen)
    claim_verdict = ClaimVerdict.TESTED_OTHERWISE if tried.shortfalls else rule(claim, seen)
    repeated = isinstance(trial.result, Estimate) and trial.result.runs > 1  # replicates are not all that scatters
    open_ = claim_verdict is ClaimVerdict.UNDECIDED and not trial.evidence.treatment.pointless and not repeated
    more = (_more_replicates(claim, seen),) if open_ else ()
    words = "; ".join((*more, *_caveats(trial)))
    return replace(found, claim_verdict=claim_verdict, words=words, measured_value=seen)


def _without_value(claim: Claim, result: Estimate | Absence) -> ClaimVerdict:
    """The verdict where there is nothing to hold against a claim, by why there is nothing."""
    if claim.metric is not Metric.THROUGHPUT:
        return ClaimVerdict.NOT_MEASURED  # a cost that no record holds was not measured at all
    believed = isinstance(result, Estimate) and not result.disturbed and not result.looked_up
    return ClaimVerdict.UNDECIDED if believed else ClaimVerdict.NO_RESULT


def _caveats(trial: Trial) -> Iterator[str]:
    """What a reader must know beside a verdict: that there was nothing to act on, or that it no longer learns alike."""
    yield from trial.evidence.treatment.pointless
    if isinstance(trial.result, Estimate) and trial.result.apart:
        yield f"average of {trial.result.runs} runs, which disagree"
    quality = trial.evidence.quality
    if quality is not None and quality.status in {Agreement.DIFFERS, Agreement.NAN}:
        yield f"but its quality {quality.status}: {quality.sentence}"


def _more_replicates(claim: Claim, seen: MeasuredValue) -> str:
    needed = replicates_needed(claim, seen)
    if needed is None and claim.metric is Metric.DEVICE_SHARE:
        return "a share that is known by an upper bound alone cannot confirm it"
    if needed is None:
        return "too close to call: no number of replicates in reach would decide"
    return f"about {max(needed, seen.replicates + 1)} replicates would decide, {seen.replicates} were made"


def _ruled_quality(claim: Claim, quality: Quality) -> ClaimVerdict:
    if quality.status in {Agreement.ANOTHER, Agreement.NOT_JUDGED}:
        return ClaimVerdict.UNDECIDED
    if quality.status in LEARNS_ALIKE:
        return ClaimVerdict.CONFIRMED if claim.bound is Bound.FREE else ClaimVerdict.NO_EFFECT
    return ClaimVerdict.CONFIRMED if claim.bound is Bound.LOSS else ClaimVerdict.HARMFUL


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
    return wanted == (treatment.workload, treatment.options, reference.options, comparison.timing)


# Generality: what several workloads say together of a claim about training in general.

FEWEST_WORKLOADS = 4
KNOWN = math.log(1.1)  # half-width of a log ratio at most: wider ones would count as agreeing with whatever there is


def general(claim: Claim, parts: Sequence[Finding]) -> Finding:
    """The claim over all workloads; it holds in general only if it would hold for a workload nobody has tried."""
    otherwise = ClaimVerdict.TESTED_OTHERWISE
    known = [one for one in parts if one.measured_value is not None and one.claim_verdict is not otherwise]
    values = [one.measured_value for one in known if one.measured_value is not None]
    precise = [one for one in values if math.log(one.high / one.value) <= KNOWN]
    found = Finding(claim=claim, workload=ANY, claim_verdict=ClaimVerdict.UNDECIDED, parts=tuple(parts))
    if claim.metric is Metric.QUALITY:
        word, words = _quality(parts)
    elif not known:
        word, words = _silence(parts)
    elif claim.bound is Bound.UP_TO:
        word, words = _best(known)
    elif len(precise) < FEWEST_WORKLOADS:
        word, words = ClaimVerdict.UNDECIDED, _too_few(len(precise), " to ±10 %")
    else:
        found = replace(found, measured_value=predicted(precise))
        word = rule(claim, predicted(precise))
        words = f"over {len(precise)} workloads; the interval is where a further workload would lie"
    return replace(found, claim_verdict=word, words=words)


def predicted(values: Sequence[MeasuredValue]) -> MeasuredValue:
    """The random-effects mean of ratios, with a 95 % prediction interval for a further workload.

    DerSimonian and Laird's variance between workloads, and no less than that of the ratios themselves: standard errors
    that are half-widths over 1.96, more than they need to be where replicates are few, would explain all of it away.
    The interval is that of Higgins, Thompson and Spiegelhalter (2009), t with k - 2 degrees of freedom.
    """
    effects = np.array([math.log(one.value) for one in values])
    variances = np.array([min(max(math.log(one.high / one.value) / 1.96, 1e-6), 50.0) ** 2 for one in values])
    weights, freedom = 1 / variances, len(values) - 1
    fixed = float((weights * effects).sum() / weights.sum())
    excess = float((weights * (effects - fixed) ** 2).sum()) - freedom
    drawn = excess / float(weights.sum() - (weights**2).sum() / weights.sum())
    between = max(drawn, float(effects.var(ddof=1)))
    weights = 1 / (variances + between)
    mean = float((weights * effects).sum() / weights.sum())
    half_width = float(stats.t.ppf(0.975, len(values) - 2)) * math.sqrt(between + 1 / float(weights.sum()))
    replicates = min(one.replicates for one in values)
    low, high = (math.exp(min(one, 700.0)) for one in (mean - half_width, mean + half_width))
    margin = max(one.margin for one in values)
    return MeasuredValue(value=math.exp(mean), low=low, high=high, replicates=replicates, margin=margin)


def _too_few(count: int, how: str = "") -> str:
    return f"{count} workload{'s' if count != 1 else ''}{how} so far; {FEWEST_WORKLOADS} are needed to speak in general"


def _silence(parts: Sequence[Finding]) -> tuple[ClaimVerdict, str]:
    """Why nothing is known: what was measured in its place, then what most could be done about it."""
    if otherwise := [one.workload for one in parts if one.claim_verdict is ClaimVerdict.TESTED_OTHERWISE]:
        return ClaimVerdict.TESTED_OTHERWISE, f"on {', '.join(otherwise)}"
    if any(one.claim_verdict is ClaimVerdict.NOT_MEASURED for one in parts):
        return ClaimVerdict.NOT_MEASURED, "speedmatrix run --design claims"
    for word in (
        ClaimVerdict.UNDECIDED,
        ClaimVerdict.NO_RESULT,
        ClaimVerdict.NOT_TESTABLE_HERE,
        ClaimVerdict.UNTESTABLE,
    ):
        if words := [one.words for one in parts if one.claim_verdict is word]:
            return word, "; ".join(dict.fromkeys(words))
    return ClaimVerdict.UNTESTABLE, "no workload to test it on"


def _best(known: Sequence[Finding]) -> tuple[ClaimVerdict, str]:
    """An `up to` is reached if one workload reaches it, and refuted if none of enough does."""
    if reached := [one.workload for one in known if one.claim_verdict is ClaimVerdict.CONFIRMED]:
        return ClaimVerdict.CONFIRMED, f"reached on {', '.join(reached)}"
    if len(known) < FEWEST_WORKLOADS:
        return ClaimVerdict.UNDECIDED, _too_few(len(known))
    words = {one.claim_verdict for one in known}
    if ClaimVerdict.UNDECIDED in words:
        return ClaimVerdict.UNDECIDED, "not reached for certain anywhere, and not ruled out everywhere"
    best = next(one for one in (ClaimVerdict.OVERSTATED, ClaimVerdict.NO_EFFECT, ClaimVerdict.HARMFUL) if one in words)
    return best, f"not reached on any of {len(known)} workloads"


def _quality(parts: Sequence[Finding]) -> tuple[ClaimVerdict, str]:
    answers = {ClaimVerdict.CONFIRMED, ClaimVerdict.HARMFUL, ClaimVerdict.NO_EFFECT}
    judged = [one for one in parts if one.claim_verdict in answers]
    if not judged:
        return _silence(parts)
    if harmed := [one.workload for one in judged if one.claim_verdict is ClaimVerdict.HARMFUL]:
        return ClaimVerdict.HARMFUL, f"on {', '.join(harmed)}"
    if len(judged) < FEWEST_WORKLOADS:
        return ClaimVerdict.UNDECIDED, _too_few(len(judged))
    if len({one.claim_verdict for one in judged}) > 1:
        return ClaimVerdict.UNDECIDED, "; ".join(f"{one.claim_verdict} on {one.workload}" for one in judged)
    return judged[0].claim_verdict, f"on all of {len(judged)} workloads"


# Emulated devices: only what their host does was timed, so that nothing is confirmed or refuted there.

TOLD_EMULATED = frozenset({Timing.STEP, Timing.EPOCH})
AHEAD = frozenset({"workers", "device_prefetch", "deferred_metrics"})  # load or train while the other goes on


def on_emulated(found: Finding) -> Finding:
    """What a machine whose device is emulated says of a claim, in verdicts of their own."""
    claim, word = found.claim, found.claim_verdict
    parts = tuple(map(on_emulated, found.parts))
    if word is ClaimVerdict.UNTESTABLE:
        return replace(found, parts=parts)
    if claim.metric is not Metric.THROUGHPUT or claim.timing not in TOLD_EMULATED:
        words = "an emulated device tells nothing but the throughput of training"
        here = ClaimVerdict.NOT_TESTABLE_HERE
        return Finding(claim=claim, workload=found.workload, claim_verdict=here, words=words, parts=parts)
    sizes = {one.basis.config.size for one in (found, *parts) if one.basis}
    otherwise = [f"the device's step is not that of size {AS_CLAIMED}"] if sizes - {AS_CLAIMED} else []
    if claim.bound not in {Bound.GAIN, Bound.LOSS}:
        otherwise.append("the device's step time comes from a table, which is too rough for a figure")
    elif word is ClaimVerdict.NO_EFFECT:
        otherwise.append("the device's step time comes from a table, and beside a longer step no loader shows")
    elif word is ClaimVerdict.HARMFUL and claim.differing & AHEAD:  # what they cost beside a fast device they may gain
        otherwise.append("the device's step time comes from a table, and beside another one it may gain")
    if word in _RULED and otherwise:
        words = "; ".join(filter(None, (*otherwise, found.words)))
        return replace(found, claim_verdict=ClaimVerdict.TESTED_OTHERWISE, words=words, parts=parts)
    if word in REFUTED:
        words = "; ".join(filter(None, (str(word), found.words)))
        return replace(found, claim_verdict=ClaimVerdict.FAILS_EMULATED, words=words, parts=parts)
    holds = word in {ClaimVerdict.CONFIRMED, ClaimVerdict.UNDERSTATED}
    return replace(found, claim_verdict=ClaimVerdict.HOLDS_EMULATED if holds else word, parts=parts)


_RULED = frozenset({ClaimVerdict.CONFIRMED, ClaimVerdict.UNDERSTATED, *REFUTED})
