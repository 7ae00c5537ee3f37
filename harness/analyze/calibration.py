"""Calibration: what a machine shows where the truth is known, from copies against themselves and from added delays."""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from statistics import fmean

import numpy as np
from scipy import optimize, stats

from harness.analyze.estimate import Estimate, results
from harness.analyze.evidence import Evidence, gather
from harness.analyze.grouping import ratios_of_sums, together
from harness.analyze.pairing import Array, Pairs, log_ratio, log_totals, pair
from harness.analyze.soundness import Absence
from harness.analyze.verdict import MARGIN, Thresholds
from harness.core.configuration import DELAY_S, Comparison, planted
from harness.core.plan import Plan
from harness.core.records import Arm, Ready, Record, Window, window_pairs

# Noise: what configurations that are the same show of a machine, as functions of arrays.
#
# Sources: the successive differences of lag_one are J. von Neumann's (1941), Distribution of the ratio of the mean
# square successive difference to the variance, Annals of Mathematical Statistics 12(4); the rest are textbook least
# squares.

MISSED, PASSED = 0.05, 0.98  # intervals that miss the truth by chance; sound machines that a bound must let pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A value with its 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether there is something."""
        return self.low > 0 or self.high < 0


def allowed_misses(intervals: int) -> int:
    """How many of so many 95 % intervals may miss the truth, so that 98 % of sound machines pass: 3 of 20."""
    return int(stats.binom.ppf(PASSED, intervals, MISSED))


def mean_of(values: Sequence[float]) -> Span | None:
    """The mean with Student's t over values that are independent; None where there are fewer than two."""
    if len(values) < 2:
        return None
    array = np.asarray(values)
    half = float(stats.t.ppf(0.975, len(array) - 1) * array.std(ddof=1) / math.sqrt(len(array)))
    return Span(value=float(array.mean()), low=float(array.mean()) - half, high=float(array.mean()) + half)


def trend(values: Sequence[float], places: Sequence[float], groups: Sequence[Hashable]) -> Span | None:
    """The slope of values over places within groups, each group with a level of its own; None where nothing can tell.

    Least squares on values and places less their groups' means, with one degree of freedom less for every group.
    """
    y, x = (_centred(np.asarray(one, dtype=np.float64), groups) for one in (values, places))
    freedom, spread = len(y) - len(set(groups)) - 1, float(x @ x)
    if freedom < 1 or spread == 0:
        return None
    slope = float(x @ y) / spread
    error = math.sqrt(float(((y - slope * x) ** 2).sum()) / freedom / spread)
    half = float(stats.t.ppf(0.975, freedom)) * error
    return Span(value=slope, low=slope - half, high=slope + half)


def _centred(values: Array, groups: Sequence[Hashable]) -> Array:
    names = list(groups)
    means = {name: float(values[[one == name for one in names]].mean()) for name in set(names)}
    centred: Array = values - np.array([means[name] for name in names])
    return centred


def lag_one(series: Iterable[Sequence[float]]) -> float | None:
    """The correlation of neighbours within series, as of an autoregression; None where no series has three values.

    A few values have a mean of their own, which makes neighbours look unlike each other: the usual coefficient of five
    independent values is -0.2. Squared differences of neighbours over the variance do not suffer from that where there
    is no correlation; where there is one, the autoregression is taken that would show the same in series as short.
    """
    known = [np.asarray(one, dtype=np.float64) for one in series if len(one) > 2]
    variance = sum(float(one.var(ddof=1)) for one in known)
    if not variance:
        return None
    seen = sum(float((np.diff(one) ** 2).mean()) for one in known) / variance
    lengths = [len(one) for one in known]
    low, high = -0.95, 0.95
    if not _shown(high, lengths) < seen < _shown(low, lengths):
        return high if seen <= _shown(high, lengths) else low
    return float(optimize.brentq(lambda correlation: _shown(correlation, lengths) - seen, low, high))


def _shown(correlation: float, lengths: Iterable[int]) -> float:
    """Squared differences of neighbours over variances, as they are expected of autoregressions of such lengths."""
    differences = variances = 0.0
    for count in lengths:
        lags = np.arange(1, count)
        differences += 2 * (1 - correlation)
        variances += 1 - 2 / (count - 1) * float(((1 - lags / count) * correlation**lags).sum())
    return differences / variances


def cost_of_a_window(arms: Iterable[Sequence[tuple[int, float]]]) -> Span | None:
    """Seconds that a window takes beside its steps, from the steps and seconds of each arm's windows.

    Every arm gives the intercept of a line through windows of several lengths; None where too few arms have them.
    """
    found = []
    for windows in arms:
        steps, seconds = np.array(windows, dtype=np.float64).T
        if len(set(steps)) > 2:
            found.append(float(stats.linregress(steps, seconds).intercept))
    return mean_of(found)


DESIGN = "calibration"  # of the runs that can calibrate
ENOUGH = 20  # configurations against themselves; fewer let too many unsound machines pass
CORRELATED = 0.2  # of neighbouring pairs, above which windows are too short


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """One comparison whose true ratio is known, and what became of it."""

    comparison: Comparison
    result: Estimate | Absence
    truth: float | None  # the ratio that was put in; None where its delay was not seen

    @property
    def estimate(self) -> Estimate | None:
        """The estimate, where there is one."""
        return self.result if isinstance(self.result, Estimate) else None

    @property
    def holds(self) -> bool:
        """Whether its interval holds the truth."""
        found, truth = self.estimate, self.truth
        return found is not None and truth is not None and found.low <= truth <= found.high

    @property
    def recovered(self) -> bool:
        """Whether its interval holds the truth and tells it from nothing."""
        found = self.estimate
        return self.holds and found is not None and not found.low <= 1 <= found.high


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """All controls with delays of one share of a step."""

    percent: int
    controls: tuple[Known, ...]

    @property
    def lost(self) -> int:
        """How many controls are not recovered."""
        return sum(not one.recovered for one in self.controls)

    @property
    def recovered(self) -> bool:
        """Whether so many are recovered that the others may be chance; of one or two, all must be."""
        count = len(self.controls)
        return count > 0 and self.lost <= min(allowed_misses(count), (count - 1) // 2)

    @property
    def found(self) -> Span | None:
        """What was added to a step, as a share of it, on average over the controls that have an estimate.

        Bounds are averaged like values: controls share references, and what they have in common does not cancel.
        """
        seen = [one.estimate for one in self.controls if one.estimate]
        if not seen:
            return None
        ratio, low, high = (
            float(np.exp(np.mean(np.log(bound))))
            for bound in ([one.ratio for one in seen], [one.low for one in seen], [one.high for one in seen])
        )
        return Span(value=1 / ratio - 1, low=1 / high - 1, high=1 / low - 1)

    @property
    def sentence(self) -> str:
        """What was found of the delay."""
        found, count = self.found, len(self.controls)
        kept = f"{count - self.lost} of {count} controls recovered"
        if found is None:
            return f"an added {self.percent} % was not found ({kept})"
        value, low, high = (100 * one for one in (found.value, found.low, found.high))
        return f"an added {self.percent} % was found as {value:.1f} % [{low:.1f}, {high:.1f}] ({kept})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What a machine showed."""

    copies: tuple[Known, ...]  # configurations against themselves that have an estimate
    levels: tuple[Level, ...]  # of delays, the smallest first
    order_of_start: Span | None  # log ratio of the arm started last over the one started first
    order_in_round: Span | None  # log ratio of windows right after the reference's over later ones
    correlation: float | None  # of neighbouring pairs
    window_s: Span | None  # seconds that a window takes beside its steps
    thresholds: Thresholds

    @property
    def missed(self) -> int:
        """How many configurations against themselves have an interval without 1."""
        return sum(not one.holds for one in self.copies)

    @property
    def allowed(self) -> int:
        """How many of them may, by chance."""
        return allowed_misses(len(self.copies))

    @property
    def sound(self) -> bool:
        """Whether enough configurations were compared with themselves, and few enough differ."""
        return len(self.copies) >= ENOUGH and self.missed <= self.allowed

    @property
    def floor(self) -> float | None:
        """By how much 95 % of configurations against themselves are off at most, as a share; None without any."""
        off = [abs(math.log(one.estimate.ratio)) for one in self.copies if one.estimate]
        return float(np.expm1(np.quantile(off, 0.95))) if off else None

    @property
    def least(self) -> int | None:
        """Per cent of the smallest delay from which on all were recovered; None where the largest was not."""
        return least_of(self.levels)

    @property
    def passed(self) -> bool:
        """Whether nothing stands against what the machine publishes."""
        return self.sound and bool(self.levels) and all(one.recovered for one in self.levels)

    @property
    def sentence(self) -> str:
        """What stands in the header of every report of the machine."""
        return "; ".join((self._of_copies(), *self._of_levels()))

    def _of_copies(self) -> str:
        count = len(self.copies)
        said = f"A/A: {count} configurations, {self.missed} missed 1.00" + (
            f", noise floor {100 * self.floor:.1f} %" if self.floor is not None else ""
        )
        if count < ENOUGH:
            return f"{said} (fewer than the {ENOUGH} that can tell a sound machine)"
        if not self.sound:
            return f"{said} (FAILED: chance explains {self.allowed}, so the intervals of this machine are too narrow)"
        return said

    def _of_levels(self) -> Sequence[str]:
        if not self.levels:
            return ("no added delay was measured, so no verdict is given",)
        first = self.levels[0]
        told = [one.sentence for one in self.levels if one is first or one.percent == self.least or not one.recovered]
        if self.least is None:
            return (*told, "so no verdict is given")
        if self.least > self.levels[0].percent:
            return (*told, f"so nothing below {self.least} % is called faster or slower")
        return told


def least_of(levels: Sequence[Level]) -> int | None:
    """Per cent of the smallest delay from which on all were recovered; None where the largest was not.

    A machine that finds 3 % and misses 10 % found the 3 % by luck.
    """
    kept = tuple(takewhile(lambda one: one.recovered, reversed(levels)))
    return kept[-1].percent if kept else None


# Order: whether it matters when an arm was started, or when its turn comes, where all arms are the same.

_Attempt = tuple[str, int, int]  # block, replicate, number


def in_the_order_of_start(copies: Iterable[Evidence], records: Iterable[Record]) -> Span | None:
    """Log ratio of an arm that was started last over one that was started first, in lives with the same reference.

    The places of a block are dealt out anew in every attempt, so that the order of start is the only place there is.
    """
    places, found = _places(records), []
    for one in copies:
        for ours, both in _attempts(one):
            means = log_totals(pair(both, one.position))
            if len(means) and ours[0].arm in places:
                found.append((float(means[0]), places[ours[0].arm], _attempt(ours[0].arm)))
    return trend(*(list(column) for column in zip(*found, strict=True))) if found else None


def in_their_round(copies: Iterable[Evidence]) -> Span | None:
    """Log ratio of a window right after the reference's over one of the same arm that comes after another's."""
    differences = []
    for one in copies:
        for _, windows in _attempts(one):
            pairs = window_pairs(windows, one.position)
            early = together((its.treatment.order == its.before.order + 1, log_ratio(its)) for its in pairs)
            if len(early) == 2:
                differences.append(float(np.mean(early[True]) - np.mean(early[False])))
    return mean_of(differences)


def _attempts(one: Evidence) -> Iterator[tuple[list[Window], list[Window]]]:
    """The treatment's windows of each attempt, and both sides' together."""
    ours, both = (together((_attempt(its.arm), its) for its in own) for own in (one.treatment.windows, one.windows))
    yield from ((own, both[attempt]) for attempt, own in ours.items() if attempt in both)


def _places(records: Iterable[Record]) -> dict[Arm, float]:
    """From 0 for the arm of an attempt that was started first to 1 for the last, as records follow each other."""
    started = together((_attempt(one.arm), one.arm) for one in records if isinstance(one, Ready))
    return {
        arm: place / (len(arms) - 1) for arms in started.values() if len(arms) > 1 for place, arm in enumerate(arms)
    }


def _attempt(arm: Arm) -> _Attempt:
    return arm.block, arm.replicate, arm.attempt


# Calibrating: the records of a run of the design `calibration` become what they say of the machine.
#
# Every configuration is judged by the thresholds that the configurations of other blocks set, so that none helps to
# find itself right.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Copy:
    """A configuration against itself that has an estimate."""

    block: str
    evidence: Evidence
    pairs: Pairs


def calibrate(plan: Plan, records: Iterable[Record]) -> Calibration:
    """What a run says of its machine, finished or not; raises Mistake where an option has no promise in the plan."""
    kept = tuple(records)
    gathered = tuple(gather(plan, kept))
    copies = [
        _Copy(block=block, evidence=one, pairs=pair(one.windows, one.position))
        for block, one, result in zip(_blocks(plan), gathered, results(gathered, plan.protocol), strict=True)
        if _is_copy(one.comparison) and isinstance(result, Estimate)
    ]
    known = tuple(_known(plan, gathered, copies))
    controls = together((percent, one) for one in known if (percent := planted(one.comparison)))
    levels = tuple(Level(percent=percent, controls=tuple(controls[percent])) for percent in sorted(controls))
    evidence = [one.evidence for one in copies]
    arms = together((one.arm, (one.steps, one.wall_s)) for one in kept if isinstance(one, Window))
    return Calibration(
        copies=tuple(one for one in known if _is_copy(one.comparison) and one.estimate),
        levels=levels,
        order_of_start=in_the_order_of_start(evidence, kept),
        order_in_round=in_their_round(evidence),
        correlation=lag_one(replicate for one in copies for replicate in one.pairs.log_ratios),
        window_s=cost_of_a_window(arms.values()),
        thresholds=_thresholds(copies, _margin(levels)),
    )


def _is_copy(comparison: Comparison) -> bool:
    return comparison.treatment == comparison.reference


def _blocks(plan: Plan) -> Iterator[str]:
    return (block.identity for block in plan.blocks for _ in block.comparisons)


def _known(plan: Plan, gathered: Sequence[Evidence], copies: Sequence[_Copy]) -> Iterator[Known]:
    """Every comparison, judged by the thresholds of the copies in other blocks."""
    by_block = {
        name: results(gathered, plan.protocol, _thresholds([one for one in copies if one.block != name], MARGIN))
        for name in dict.fromkeys(_blocks(plan))
    }
    for index, (block, one) in enumerate(zip(_blocks(plan), gathered, strict=True)):
        truth = 1.0 if _is_copy(one.comparison) else _truth(one)
        yield Known(comparison=one.comparison, result=by_block[block][index], truth=truth)


def _thresholds(copies: Sequence[_Copy], margin: float) -> Thresholds:
    """What copies set for all configurations of a machine.

    Their truth is known, so how far replicates lie from it is the spread, whatever the replicates of one configuration
    agree on. Copies that are alive together share the luck of their reference: they count as one.
    """
    if not copies:
        return Thresholds(margin=margin)
    means = [log_totals(one.pairs) for one in copies]
    attempts = {
        one.block: max(len(other.pairs.log_ratios) for other in copies if other.block == one.block) for one in copies
    }
    return Thresholds(
        least_spread=float(np.sqrt(np.mean(np.concatenate(means) ** 2))),
        least_freedom=float(sum(attempts.values())),
        margin=margin,
    )


def _margin(levels: Sequence[Level]) -> float:
    """The usual margin where all delays were recovered, else the smallest from which on they were; or endless."""
    least = least_of(levels)
    if least is None:
        return math.inf
    return MARGIN if least == levels[0].percent else least / 100


def _truth(one: Evidence) -> float | None:
    """The ratio that the delays put in, from their lengths as they were seen and the reference's own steps."""
    # Seconds of a step in each attempt, over its total time, as ratios are.
    windows = one.reference.windows
    steps = ratios_of_sums(((its.arm.replicate, its.arm.attempt), its.wall_s, its.steps) for its in windows)
    by_replicate: dict[int, list[float]] = defaultdict(list)
    for ready in one.treatment.readies:
        delay_s, step_s = ready.effective.get(DELAY_S), steps.get((ready.arm.replicate, ready.arm.attempt))
        if isinstance(delay_s, float) and step_s:
            by_replicate[ready.arm.replicate].append(math.log(step_s / (step_s + delay_s)))
    return math.exp(fmean(map(fmean, by_replicate.values()))) if by_replicate else None
