"""Estimates: ratios with intervals, from replicates that are the unit and a pool that lends its variances."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeVar

import numpy as np
from scipy import stats

from harness.analyze.evidence import Evidence, Side, tells_energy
from harness.analyze.grouping import together
from harness.analyze.pairing import (
    SMALLEST_POOL,
    Array,
    Device,
    Moderated,
    Pairs,
    Shared,
    Tail,
    errors,
    freedom_together,
    log_totals,
    moderate,
    pair,
)
from harness.analyze.soundness import Absence, absence
from harness.analyze.verdict import MARGIN, UNCALIBRATED, Thresholds, Verdict, limits, verdict
from harness.core.emulation import BY_TABLE
from harness.core.optimization import Timing
from harness.core.protocol import FEWEST_REPLICATES, REPLICATES_ALONE, Protocol
from harness.core.records import Precision, Window

DISTURBED = 0.25  # interference above which no verdict is given
CONTENDED = 0.1  # of all cores, beyond which others took too many for one (docs/decisions/crowding.md)
# Points of Student's t for an interval that holds in 95 % of cases: where the number of replicates was fixed before,
# and where it depended on the interval's width (docs/decisions/width-stopping.md).
FIXED, BY_WIDTH = 0.975, 0.985
TRIMMED = 0.3  # of the pairs of a replicate, at either end, for the check of what single windows weigh
BY_LEAST = "least spread"  # the method, where replicates scatter less than is ever believed of a machine
BY_WINDOWS = "scatter of windows"  # the method, where replicates agree better than their windows allow
OF_RUNS = "average of runs"  # the method, where several runs measured the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A speedup with its 95 % interval, what stands behind it, and what may be said of it."""

    ratio: float  # above 1 is faster
    low: float
    high: float  # infinite where two replicates disagree beyond all bounds
    pairs: int
    processes: int  # replicates, each with fresh processes of both arms
    df: float
    method: str  # "moderated t" in a pool, "t" without one, BY_LEAST, BY_WINDOWS, or OF_RUNS
    outlying: bool  # its replicates disagree more than the pool's, so it keeps its own variance
    verdict: Verdict
    drift: float
    trimmed_ratio: float  # mean of log ratios of pairs without the extreme ones: what stalls do not reach
    thresholds: Thresholds = UNCALIBRATED  # its machine's
    contention: float = 0.0  # share of the cores that others took while none was idle: the larger mean of both arms
    in_turn: int = 0  # replicates whose arms were alive one after the other
    shared: bool = False  # both arms lived in one process, beside others
    lent: bool = True  # others like it lend it a variance, which is then no luck of a few replicates
    looked_up: bool = False  # of an emulated device's step alone, which is its table's own figures
    device: Device | None = None  # how it was meanwhile, where a driver told
    point: float = FIXED  # of Student's t behind the interval, unless that is the narrowest that is believed
    windows: int = 0  # of both arms, with those that were left out
    left_out: tuple[tuple[str, int], ...] = ()  # reason -> windows; evidence from outside of the arms alone
    spoilt: int = 0  # replicates that were left out, since most of their windows were disturbed from outside
    tainted: int = 0  # such replicates that stayed, since too few others remain
    tails: tuple[Tail | None, Tail | None] = (None, None)  # of the reference and of the treatment
    runs: int = 1  # that it is the average of
    scale: float = 1.0  # times as far apart as their own intervals explain those runs lie
    error: float | None = None  # standard error of an average, whose interval reaches no further than those of its runs
    freedom: float = math.inf  # degrees of freedom between replicates, where windows decide the interval too

    @property
    def half_width(self) -> float:
        """Of the log ratio's interval; infinite where two replicates disagree beyond all bounds."""
        return math.log(self.high / self.ratio)

    @property
    def standard_error(self) -> tuple[float, float]:
        """Of the log ratio, with its degrees of freedom, as they stand behind the interval.

        Where the interval is the narrowest that is believed (docs/decisions/least-spread.md), its own degrees of
        freedom would turn it into a standard error that is far too small.
        """
        least = self.thresholds.least_spread / math.sqrt(self.processes)
        if self.half_width <= narrowest(self.thresholds) / math.sqrt(self.processes) * (1 + 1e-9):  # rounding
            return least, self.thresholds.least_freedom
        if self.error is not None:
            return max(least, self.error), self.df
        return self.half_width / float(stats.t.ppf(self.point, self.df)), self.df

    @property
    def disturbed(self) -> bool:
        """Whether the machine was too restless for a verdict."""
        return self.disturbance is not None

    @property
    def disturbance(self) -> str | None:
        """Why the machine was too restless for a verdict, in words; None where it was not."""
        return _disturbance(self)

    @property
    def is_calm(self) -> bool:
        """Whether it was measured on a calm machine, and has an interval."""
        return math.isfinite(self.half_width) and not self.disturbed and not self.looked_up

    @property
    def is_sound(self) -> bool:
        """Whether an average of runs may hold it: its width is known well enough, or surely not too small.

        One that scatters more than its run's others rests on its own few replicates: without it an average would hold
        those runs alone whose replicates agreed.
        """
        return self.is_calm and (self.outlying or min(self.df, self.freedom) >= LEAST_DF)

    @property
    def apart(self) -> bool:
        """Whether the runs whose average it is clearly disagree."""
        return self.scale > APART

    @property
    def withheld(self) -> bool:
        """Whether its interval would give a verdict on a machine that finds smaller effects."""
        usual = verdict(self.low, self.high)
        return self.verdict is Verdict.UNDECIDED and usual is not Verdict.UNDECIDED and not self.looked_up

    @property
    def sensitive(self) -> bool:
        """Whether a few windows weigh much: without them the ratio moves by more than half the interval."""
        return abs(math.log(self.trimmed_ratio / self.ratio)) > self.half_width + 1e-9  # beyond rounding


def point_of(protocol: Protocol) -> float:
    """The point of Student's t that a protocol's way to choose the number of replicates asks for."""
    return FIXED if protocol.target is None else BY_WIDTH


def estimates(
    pool: Sequence[Pairs],
    point: float = FIXED,
    thresholds: Thresholds = UNCALIBRATED,
    blocks: Sequence[str] = (),
    *,
    joined: bool = False,
) -> tuple[Estimate, ...]:
    """One estimate for each, in order; raises ValueError where one has fewer than two replicates.

    A replicate gives one log ratio of totals. The interval is Student's t over replicates, because processes differ and
    windows of one process are not independent, but never narrower than the scatter of windows within replicates allows:
    two replicates may agree by luck. `point` is that of the distribution (docs/decisions/total-time.md). Comparisons of
    one of the `blocks` share their reference; without blocks each has its own. A pool that was joined of several small
    ones makes no interval narrower than its own replicates do.
    """
    if any(len(pairs.replicates) < FEWEST_REPLICATES for pairs in pool):
        raise ValueError("an estimate needs two replicates at least")
    means = [log_totals(pairs) for pairs in pool]
    numbers = [tuple(one.number for one in pairs.replicates) for pairs in pool]
    spread, method = _spread(means, list(zip(blocks, numbers, strict=True)) if blocks else ())
    if joined:
        spread = replace(spread, variances=np.maximum(spread.variances, [one.var(ddof=1) for one in means]))
    own = stats.t.ppf(point, spread.freedom) * np.sqrt(spread.variances)
    # A constant, or the calibration's: no look of this run depends on it.
    least = narrowest(thresholds)
    found = []
    for index, (pairs, one, (within, freedom)) in enumerate(zip(pool, means, _within(pool), strict=True)):
        outlying = bool(spread.outlying[index])
        between = float(max(own[index], least) / np.sqrt(len(one)))
        by_windows = within > between
        usual = BY_LEAST if own[index] < least else "t" if outlying else method
        estimate = _estimate(
            pairs,
            max(between, within),
            thresholds,
            df=freedom if by_windows else float(spread.freedom[index]),
            freedom=float(spread.freedom[index]),
            method=BY_WINDOWS if by_windows else usual,
            outlying=outlying,
            lent=method == "moderated t" and not outlying,
            point=FIXED if by_windows else point,
        )
        found.append(estimate)
    return tuple(found)


def so_far(pairs: Pairs) -> tuple[float, float] | None:
    """The ratio of what was timed so far, and by which factor the scatter of its windows alone lets it be off.

    It lacks how replicates differ, which an estimate has. None without a pair; the factor is infinite for a single one.
    """
    if not pairs.replicates:
        return None
    variance, freedom = errors(pairs)
    error = _error_by_windows(pairs, variance)
    off = math.exp(float(stats.t.ppf(FIXED, freedom)) * error) if freedom else math.inf
    return math.exp(float(log_totals(pairs).mean())), off


def _error_by_windows(pairs: Pairs, variance: float) -> float:
    """The standard error of the mean over replicates, if windows are all that differs."""
    counts = [len(one.window_pairs) for one in pairs.replicates]
    return math.sqrt(variance * sum(1 / count for count in counts)) / len(counts)


def trimmed_means(pairs: Pairs) -> Array:
    """The trimmed mean of every replicate's log ratios of pairs: the summary that looks past whatever is rare."""
    cuts = ((sorted(logs), int(TRIMMED * len(logs))) for logs in pairs.log_ratios)
    return np.array([float(np.mean(logs[cut : len(logs) - cut])) for logs, cut in cuts])


def _within(pool: Sequence[Pairs]) -> Iterator[tuple[float, float]]:
    """Every configuration's half width by its windows' scatter, with its degrees of freedom; 0 where none is known.

    Variances are pooled over a configuration's replicates, then moderated over the pool as those of replicates are.
    Like the least spread it is a lower bound, at the point of a fixed number: what looks cost is paid between
    replicates.
    """
    known = [errors(pairs) for pairs in pool]
    variances, freedom = (np.array(column, dtype=np.float64) for column in zip(*known, strict=True))
    if freedom.all() and (moderated := moderate(variances, freedom)):
        variances, freedom = moderated.variances, moderated.freedom
    for pairs, variance, degrees in zip(pool, variances, freedom, strict=True):
        error = _error_by_windows(pairs, variance)
        yield (float(stats.t.ppf(FIXED, degrees)) * error if degrees else 0.0), float(degrees)


def _spread(means: Sequence[Array], references: Sequence[Shared]) -> tuple[Moderated, str]:
    """Every configuration's variance between replicates: helped by the pool, else its own.

    A pool whose configurations share the luck of their references knows its variance with fewer degrees of freedom: as
    many as the share that is found allows, and no more than twice those that there would be if all luck were the
    references'. Few replicates may show a small variance and little in common at once, by luck
    (docs/decisions/shared-references.md).
    """
    variances = np.array([one.var(ddof=1) for one in means])
    freedom = np.array([len(one) - 1.0 for one in means])
    if moderated := moderate(variances, freedom):
        if references:
            calm = np.flatnonzero(~moderated.outlying).tolist()
            known = [means[one] for one in calm], [references[one] for one in calm]
            most = min(freedom_together(*known), 2 * freedom_together(*known, 1.0))
            moderated = replace(moderated, freedom=np.maximum(freedom, np.minimum(moderated.freedom, most)))
        return moderated, "moderated t"
    alone = np.zeros(len(means), dtype=np.bool_)
    return Moderated(variances=variances, freedom=freedom, outlying=alone), "t"


def _estimate(pairs: Pairs, half_width: float, thresholds: Thresholds, **rests_on: Any) -> Estimate:
    centre = float(log_totals(pairs).mean())
    with np.errstate(over="ignore"):
        ratio, low, high = (float(np.exp(value)) for value in (centre, centre - half_width, centre + half_width))
    return Estimate(
        ratio=ratio,
        low=low,
        high=high,
        pairs=pairs.count,
        processes=len(pairs.replicates),
        verdict=verdict(low, high, thresholds.margin, disturbed=_disturbance(pairs) is not None),
        drift=pairs.drift,
        trimmed_ratio=float(np.exp(trimmed_means(pairs).mean())),
        thresholds=thresholds,
        contention=pairs.contention,
        in_turn=pairs.in_turn,
        device=pairs.device,
        windows=pairs.windows,
        left_out=pairs.left_out,
        spoilt=pairs.spoilt,
        tainted=pairs.tainted,
        tails=pairs.tails,
        **rests_on,
    )


def _disturbance(found: Pairs | Estimate) -> str | None:
    if found.drift > DISTURBED:
        return f"the reference's own rate changed by {100 * found.drift:.0f} % from window to window"
    if found.contention > CONTENDED:
        return f"other processes took {100 * found.contention:.0f} % of its cores"
    if found.tainted:
        return (
            f"most windows of {found.tainted} of its replicates were disturbed from outside, and too few others remain"
        )
    return found.device.disturbance if found.device else None


# Pools: results for all comparisons of a run, each estimated beside those that are alike.

# Workload, size, batch, timing, and whether arms were alive in turn or shared a process: replicates of such
# configurations vary alike.
_Pool = tuple[str, str, int, Timing, bool, bool]


OF_TABLE = (
    "its device's table tells what launches and a step take, and nothing of it was measured, or what was gives no "
    "verdict alone"
)


def looked_up(evidence: Evidence, result: Estimate | Absence) -> Estimate | Absence:
    """A result of an emulated device, without a verdict where its table decides the ratio.

    Of a stack too, whose verdict would be another one if the table gave both arms the same step.
    """
    comparison = evidence.comparison
    if isinstance(result, Absence) or comparison.timing is Timing.LOADER:
        return result
    differing = set(comparison.differing)
    known = bool(differing) and differing <= BY_TABLE
    decided = result.verdict.gains or result.verdict.loses
    in_part = decided and bool(differing & BY_TABLE) and _hangs_on_table(evidence, result)
    if comparison.timing is Timing.COMPUTE or known or in_part:
        return replace(result, looked_up=True, verdict=Verdict.UNDECIDED)
    return result


def _hangs_on_table(evidence: Evidence, found: Estimate) -> bool:
    """Whether a ratio has another verdict without the table: were the treatment's step as long as the reference's."""
    ours, theirs = (_in_table_s(side) for side in (evidence.treatment, evidence.reference))
    windows = evidence.reference.windows
    spent_s, steps = sum(one.wall_s for one in windows), sum(one.steps for one in windows)
    if ours is None or theirs is None or not spent_s:
        return False
    saved = (theirs - ours) * steps / spent_s  # of the reference's step
    low, high = (1 / max(1e-9, (1 / one if one else math.inf) + saved) for one in (found.low, found.high))
    return verdict(low, high, found.thresholds.margin) is not found.verdict


def _in_table_s(side: Side) -> float | None:
    """What the table says of an arm's step: the device's time, or the host's for its launches where that is longer.

    A step that is named by its time holds its launches.
    """
    names = "emulated_step_ms", "emulated_stage_ms", "emulated_host_ms"
    told = next((one.effective for one in side.readies if names[0] in one.effective), None)
    if told is None:
        return None
    step, stage, host = (float(told.get(name) or 0.0) for name in names)
    return max(step + stage, min(step, host) if told.get("emulated_whole") else host) / 1000


def results(
    gathered: Sequence[Evidence], protocol: Protocol, thresholds: Thresholds = UNCALIBRATED
) -> list[Estimate | Absence]:
    """An estimate or an absence for each, in order; variances are shared within one pool only."""
    found: dict[int, Estimate | Absence] = {}
    paired: dict[int, Pairs] = {}
    for index, evidence in enumerate(gathered):
        pairs = pair(evidence.windows, evidence.position)
        why = absence(evidence, pairs)
        if why is None:
            paired[index] = pairs
        else:
            found[index] = why
    found.update(_estimated(gathered, paired, protocol, thresholds))
    return [found[index] for index in range(len(gathered))]


def energies(
    gathered: Sequence[Evidence], protocol: Protocol, thresholds: Thresholds = UNCALIBRATED
) -> list[Estimate | None]:
    """For each, in order: samples a joule over the reference's, estimated as rates are; above 1 is thriftier.

    None where there is no ratio of rates either, where the device counts no energy, and where a window is too short
    for its counter: that lags behind, so that the shorter of two windows would always look thriftier.
    """
    paired: dict[int, Pairs] = {}
    for index, evidence in enumerate(gathered):
        counted = [one for one in evidence.windows if one.energy_j is not None]
        if counted and all(map(tells_energy, counted)):
            pairs = pair(counted, evidence.position, _joules)
            if absence(evidence, pairs) is None:
                paired[index] = pairs
    found = _estimated(gathered, paired, protocol, thresholds)
    return [found.get(index) for index in range(len(gathered))]


def _estimated(
    gathered: Sequence[Evidence], paired: Mapping[int, Pairs], protocol: Protocol, thresholds: Thresholds
) -> dict[int, Estimate]:
    pools = _pools((_pool(gathered[index], pairs), index) for index, pairs in paired.items())
    found: dict[int, Estimate] = {}
    for (*_, shared), indices in pools.items():
        blocks = [gathered[index].windows[0].arm.block for index in indices]
        # How isolated copies scatter says nothing of shared arms; what a machine misses, it misses in both.
        own = replace(UNCALIBRATED, margin=thresholds.margin) if shared else thresholds
        joined = len({_pool(gathered[index], paired[index]) for index in indices}) > 1
        estimated = estimates([paired[index] for index in indices], point_of(protocol), own, blocks, joined=joined)
        found.update((index, replace(one, shared=shared)) for index, one in zip(indices, estimated, strict=True))
    return found


def _pools(placed: Iterable[tuple[_Pool, int]]) -> dict[_Pool, list[int]]:
    """Configurations by pool; pools too small to lend a variance are joined with others whose arms were timed alike.

    What differs between workloads is then part of how much variances differ (docs/decisions/moderated-variances.md).
    """
    pools = together(placed)
    small = together((pool[-3:], pool) for pool, indices in pools.items() if len(indices) < SMALLEST_POOL)
    for alike in small.values():
        joined = [index for pool in alike for index in pools.pop(pool)]
        pools[alike[0]] = joined
    return pools


def _pool(evidence: Evidence, pairs: Pairs) -> _Pool:
    reference, timing = evidence.comparison.reference, evidence.comparison.timing
    return reference.workload, reference.size, reference.batch, timing, pairs.in_turn > 0, evidence.shared


def _joules(window: Window) -> float:
    return window.energy_j or 0.0


def precision(estimate: Estimate) -> Precision:
    """All of an estimate but what it came to.

    Few replicates that agree by luck must not end a measurement: without a variance of others no fewer than
    REPLICATES_ALONE are narrow (docs/decisions/width-stopping.md).
    """
    few = estimate.processes < REPLICATES_ALONE and not estimate.lent
    return Precision(half_width=math.inf if few else estimate.half_width, outlying=estimate.outlying)


One = TypeVar("One")


def surest_of(known: Sequence[tuple[Estimate, One]]) -> One:
    """Of estimates of one question, the newest first: a calm one of isolated arms with most replicates.

    Where widths ended both measurements, the narrower of the newest two (docs/decisions/averages-of-runs.md).
    """
    calm = [pair for pair in known if not pair[0].disturbed] or known
    isolated = [pair for pair in calm if not pair[0].shared] or calm
    most = max(estimate.processes for estimate, _ in isolated)
    newest = [pair for pair in isolated if pair[0].processes == most][:2]
    if any(estimate.point != BY_WIDTH for estimate, _ in newest):
        return newest[0][1]
    return min(newest, key=lambda pair: round(pair[0].half_width, 9))[1]  # beyond rounding the newest


# Averages: one ratio from several runs that measured the same in one environment.

LEAST_DF = 3  # of an estimate that an average holds: four replicates alone; of two some seem far too sure
APART = 1.4  # scale beyond which runs are said to lie apart


def average(several: Sequence[Estimate]) -> Estimate:
    """The weighted average of estimates by different runs; the first tells what is no number of replicates or windows.

    Its interval: `_weighted`. Raises IndexError where there is none.
    """
    first = several[0]
    if len(several) == 1:
        return first
    thresholds, processes = _strictest([one.thresholds for one in several]), sum(one.processes for one in several)
    mean = _weighted(several, thresholds)
    half_width = max(mean.half_width, narrowest(thresholds) / math.sqrt(processes))
    low, high = math.exp(mean.log - half_width), math.exp(mean.log + half_width)
    left_out = together(entry for one in several for entry in one.left_out)
    return replace(
        first,
        ratio=math.exp(mean.log),
        low=low,
        high=high,
        pairs=sum(one.pairs for one in several),
        processes=processes,
        df=mean.df,
        freedom=mean.df,
        error=mean.error,
        method=OF_RUNS,
        outlying=False,
        verdict=verdict(low, high, thresholds.margin),
        drift=max(one.drift for one in several),
        trimmed_ratio=math.exp(float(mean.weights @ np.log([one.trimmed_ratio for one in several]))),
        thresholds=thresholds,
        contention=max(one.contention for one in several),
        in_turn=sum(one.in_turn for one in several),
        point=BY_WIDTH,
        windows=sum(one.windows for one in several),
        left_out=tuple((reason, sum(counts)) for reason, counts in left_out.items()),
        spoilt=sum(one.spoilt for one in several),
        runs=len(several),
        scale=mean.scale,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mean:
    """A mean of log ratios, the half-width of its 95 % interval, and what that rests on."""

    log: float
    error: float  # standard, widened by the scale
    half_width: float
    df: float
    scale: float
    weights: Array  # of each, together 1


def _weighted(several: Sequence[Estimate], thresholds: Thresholds) -> _Mean:
    """The mean by inverse squared standard errors, which hold what differs from run to run.

    That is DerSimonian and Laird's: without it the run whose replicates agreed best would decide alone, in whatever
    hour it was. Since those errors are estimated, that of the mean is enlarged (Meier 1953, Biometrics 9, 59-73). Runs
    that lie further apart than that explains widen the interval by the root of chi-square per degree of freedom, which
    never narrows it: the scale factor of the Particle Data Group (Birge 1932, Physical Review 40, 207-227). How surely
    that is known counts in the degrees of freedom, and no interval reaches beyond those of all runs
    (docs/decisions/averages-of-runs.md).
    """
    logs = np.log([one.ratio for one in several])
    floors = np.array([thresholds.least_spread / math.sqrt(one.processes) for one in several])
    errors, freedom = (np.array(column) for column in zip(*(one.standard_error for one in several), strict=True))
    own, others = np.maximum(errors, floors), len(several) - 1
    between, excess = between_runs(logs, own)
    errors = np.sqrt(own**2 + between)
    total = float(np.sum(errors**-2))
    weights = errors**-2 / total
    log = float(weights @ logs)
    scale = math.sqrt(max(1.0, float(np.sum(((logs - log) / errors) ** 2)) / others))
    each = errors**4 / (own**4 / freedom + between**2 / others)  # degrees of freedom
    error = math.sqrt((1 + 4 * float(np.sum(weights * (1 - weights) / each))) / total)
    scattered = scale**4 if scale > APART else (scale**2 - 1) ** 2  # where runs lie apart, few of them tell all of it
    common = between * float(np.sum(weights**2)) * total  # share of the mean's variance that all runs tell together
    single = float(np.sum((weights * own) ** 4 / freedom)) * total**2
    df = scale**4 / (single + (common**2 + scattered) / others)
    reach = max(log - math.log(min(one.low for one in several)), math.log(max(one.high for one in several)) - log)
    # Somebody measured again, perhaps since a verdict was missing: the point is that of a number that widths decided.
    half_width = min(float(stats.t.ppf(BY_WIDTH, df)) * error * scale, reach)
    apart = math.sqrt(max(1.0, 1 + excess / others))  # by which their own errors do not explain them
    return _Mean(log=log, error=error * scale, half_width=half_width, df=df, scale=apart, weights=weights)


def between_runs(logs: Array, errors: Array) -> tuple[float, float]:
    """The variance between runs of such standard errors, and the chi-square beyond what these explain.

    By DerSimonian and Laird (1986, Controlled Clinical Trials 7, 177-188).
    """
    plain = errors**-2 / np.sum(errors**-2)
    excess = float(np.sum(((logs - plain @ logs) / errors) ** 2)) - (len(logs) - 1)
    return max(0.0, excess / float(np.sum(errors**-2) * (1 - np.sum(plain**2)))), excess


def _strictest(several: Sequence[Thresholds]) -> Thresholds:
    widest = max(several, key=lambda one: one.least_spread)
    return replace(widest, margin=max(one.margin for one in several))


# Contrasts: a speedup here over the same speedup elsewhere, with an interval and a verdict.

ALIKE = 1.025  # two speedups whose ratio lies this near to 1, or to 1 / 1.025, are alike for anybody who chooses


class Difference(StrEnum):
    """One word for how a speedup relates to the one it is held against."""

    MORE = "pays more"
    LESS = "pays less"
    ALIKE = "alike"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """A ratio of two ratios with its 95 % interval."""

    ratio: float  # above 1: it pays more here
    low: float
    high: float  # infinite where one side is known within no bounds
    df: float
    difference: Difference

    @property
    def differs(self) -> bool:
        """Whether the two speedups surely differ."""
        return self.difference in {Difference.MORE, Difference.LESS}


def contrast(here: Estimate, there: Estimate, among: int = 1) -> Contrast:
    """The speedup here over the speedup there, from runs that share neither processes nor time.

    `among` so many, all intervals hold together in 95 % of cases (Bonferroni).
    Logs subtract and their squared standard errors add. The degrees of freedom are Satterthwaite's (1946, Biometrics
    Bulletin 2, 110-114), as Welch uses them for two means of unequal spread (1947, Biometrika 34, 28-35). No difference
    is known better than the side of it that is known worst (docs/decisions/comparing-machines.md). It is undecided
    where a machine was disturbed, or a device's table decides a side.
    """
    (ours, our_df), (theirs, their_df) = here.standard_error, there.standard_error
    single = max(here.point, there.point)
    point = 1 - (1 - single) / among
    sides = ((here.half_width, our_df), (there.half_width, their_df))
    least = max(width * float(stats.t.ppf(point, df) / stats.t.ppf(single, df)) for width, df in sides)
    centre, variance = math.log(here.ratio / there.ratio), ours**2 + theirs**2
    if math.isinf(variance):
        low, high, df = 0.0, math.inf, min(our_df, their_df)
    else:
        df = variance**2 / (ours**4 / our_df + theirs**4 / their_df)
        half_width = max(least, float(stats.t.ppf(point, df)) * math.sqrt(variance))
        low, high = _exponential(centre - half_width), _exponential(centre + half_width)
    is_open = any(one.disturbed or one.looked_up for one in (here, there))
    margin = max(here.thresholds.margin, there.thresholds.margin)
    word = Difference.UNDECIDED if is_open else difference(low, high, margin)
    return Contrast(ratio=math.exp(centre), low=low, high=high, df=df, difference=word)


def difference(low: float, high: float, margin: float = MARGIN) -> Difference:
    """The word for an interval; it is the opposite word when the two sides change places."""
    if verdict(low, high, margin).gains:
        return Difference.MORE
    if high > 0 and verdict(1 / high, 1 / low if low else math.inf, margin).gains:
        return Difference.LESS
    alike = low >= 1 / ALIKE and high <= ALIKE and margin <= MARGIN
    return Difference.ALIKE if alike else Difference.UNDECIDED


def _exponential(log: float) -> float:
    return math.exp(log) if log < 700.0 else math.inf  # where a float ends


# Deciding: about how many replicates would end an `undecided`.

MOST_REPLICATES = 100  # beyond which nobody will wait for a verdict


def replicates_to_decide(estimate: Estimate) -> int | None:
    """About how many replicates give a verdict, if the estimate stays where it is; None where none in reach do.

    Its interval must come down to the gap between the estimate and the nearest verdict.
    """
    if math.isinf(estimate.thresholds.margin):
        return None
    centre = math.log(estimate.ratio)
    bounds = limits(estimate.thresholds.margin)
    gaps = [centre - math.log(bounds.faster), math.log(max(bounds.slower, 0.01)) - centre]
    if bounds.same:
        gaps.append(min(centre - math.log(bounds.same[0]), math.log(bounds.same[1]) - centre))
    return replicates_for(
        max(gaps),
        estimate.half_width,
        df=estimate.df,
        point=estimate.point,
        replicates=estimate.processes,
        least=narrowest(estimate.thresholds),
    )


def narrowest(thresholds: Thresholds) -> float:
    """The half-width of one replicate below which none is believed; that of more is narrower by their root."""
    return float(stats.t.ppf(FIXED, thresholds.least_freedom)) * thresholds.least_spread


def half_width_of(deviation: float, count: int, least: float = 0.0) -> float:
    """Of a mean's 95 % interval by Student's t, from the standard deviation of so many values.

    `least` is the half-width of one value below which none is believed.
    """
    return max(float(stats.t.ppf(FIXED, count - 1)) * deviation, least) / math.sqrt(count)


def replicates_for(
    gap: float,
    half_width: float,
    *,
    df: float,
    point: float,
    replicates: int,
    least: float = 0.0,
    most: int = MOST_REPLICATES,
) -> int | None:
    """The fewest replicates, more than there are, whose interval is no wider than the gap; None where not even `most`.

    `half_width` is what so many replicates have, at that point of Student's t with `df` degrees of freedom. Another
    replicate narrows an interval twice: by the root of their number, and by one degree of freedom more. `least` is the
    half-width of one replicate below which none is believed.
    """
    counts = np.arange(replicates + 1, most + 1)
    if gap <= 0 or math.isinf(half_width) or not len(counts):
        return None
    deviation = half_width / float(stats.t.ppf(point, df)) * math.sqrt(replicates)
    widths = np.maximum(stats.t.ppf(point, df + counts - replicates) * deviation, least) / np.sqrt(counts)
    enough = np.flatnonzero(widths <= gap)
    return int(counts[enough[0]]) if len(enough) else None
