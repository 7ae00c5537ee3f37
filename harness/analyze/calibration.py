"""Calibration: what a machine shows where the truth is known, from copies against themselves and from added delays."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from statistics import fmean

import numpy as np
from scipy import stats

from harness.analyze.estimate import Estimate, results
from harness.analyze.evidence import Evidence, gather
from harness.analyze.grouping import ratios_of_sums, together
from harness.analyze.pairing import Pairs, log_totals, pair
from harness.analyze.soundness import Absence
from harness.analyze.verdict import MARGIN, Thresholds
from harness.core.configuration import DELAY_S, Comparison, planted
from harness.core.plan import Plan
from harness.core.records import Record

MISSED, PASSED = 0.05, 0.98  # intervals that miss the truth by chance; sound machines that a bound must let pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A value with its 95 % interval."""

    value: float
    low: float
    high: float


def allowed_misses(intervals: int) -> int:
    """How many of so many 95 % intervals may miss the truth, so that 98 % of sound machines pass: 3 of 20."""
    return int(stats.binom.ppf(PASSED, intervals, MISSED))


DESIGN = "calibration"  # of the runs that can calibrate
ENOUGH = 20  # configurations against themselves; fewer let too many unsound machines pass


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


# Calibrating: the records of a run of the design `calibration` become what they say of the machine.
#
# Every configuration is judged by the thresholds that the configurations of other blocks set, so that none helps to
# find itself right.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Copy:
    """A configuration against itself that has an estimate."""

    block: str
    pairs: Pairs


def calibrate(plan: Plan, records: Iterable[Record]) -> Calibration:
    """What a run says of its machine, finished or not; raises Mistake where an option has no promise in the plan."""
    gathered = tuple(gather(plan, records))
    copies = [
        _Copy(block=block, pairs=pair(one.windows, one.position))
        for block, one, result in zip(_blocks(plan), gathered, results(gathered, plan.protocol), strict=True)
        if one.comparison.is_copy and isinstance(result, Estimate)
    ]
    known = tuple(_known(plan, gathered, copies))
    controls = together((percent, one) for one in known if (percent := planted(one.comparison)))
    levels = tuple(Level(percent=percent, controls=tuple(controls[percent])) for percent in sorted(controls))
    return Calibration(
        copies=tuple(one for one in known if one.comparison.is_copy and one.estimate),
        levels=levels,
        thresholds=_thresholds(copies, _margin(levels)),
    )


def _blocks(plan: Plan) -> Iterator[str]:
    return (block.identity for block in plan.blocks for _ in block.comparisons)


def _known(plan: Plan, gathered: Sequence[Evidence], copies: Sequence[_Copy]) -> Iterator[Known]:
    """Every comparison, judged by the thresholds of the copies in other blocks."""
    by_block = {
        name: results(gathered, plan.protocol, _thresholds([one for one in copies if one.block != name], MARGIN))
        for name in dict.fromkeys(_blocks(plan))
    }
    for index, (block, one) in enumerate(zip(_blocks(plan), gathered, strict=True)):
        truth = 1.0 if one.comparison.is_copy else _truth(one)
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
