"""Calibration: what a machine shows where the truth is known, from cells against themselves and from added delays."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.analyze.absence import Absence
from harness.analyze.estimate import Estimate
from harness.analyze.noise import Span, allowed_misses
from harness.analyze.terms import Terms
from harness.core.cell import Comparison

DESIGN = "calibration"  # of the runs that can calibrate
ENOUGH = 20  # cells against themselves; fewer let too many unsound machines pass
CORRELATED = 0.2  # of neighbouring brackets, above which bursts are too short


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What a machine showed."""

    copies: tuple[Known, ...]  # cells against themselves that have an estimate
    levels: tuple[Level, ...]  # of delays, the smallest first
    order_of_start: Span | None  # log ratio of the arm started last over the one started first
    order_in_round: Span | None  # log ratio of bursts right after the reference's over later ones
    correlation: float | None  # of neighbouring brackets
    burst_s: Span | None  # seconds that a burst takes beside its steps
    terms: Terms

    @property
    def missed(self) -> int:
        """How many cells against themselves have an interval without 1."""
        return sum(not one.holds for one in self.copies)

    @property
    def allowed(self) -> int:
        """How many of them may, by chance."""
        return allowed_misses(len(self.copies))

    @property
    def sound(self) -> bool:
        """Whether enough cells were compared with themselves, and few enough differ."""
        return len(self.copies) >= ENOUGH and self.missed <= self.allowed

    @property
    def floor(self) -> float | None:
        """By how much 95 % of cells against themselves are off at most, as a share; None without any."""
        off = [abs(math.log(one.estimate.ratio)) for one in self.copies if one.estimate]
        return float(np.expm1(np.quantile(off, 0.95))) if off else None

    @property
    def least(self) -> int | None:
        """Per cent of the smallest delay that was recovered; None where none was."""
        return least_of(self.levels)

    @property
    def passed(self) -> bool:
        """Whether nothing stands against what the machine publishes."""
        return self.sound and bool(self.levels) and self.levels[0].recovered

    @property
    def sentence(self) -> str:
        """What stands in the header of every report of the machine."""
        return "; ".join((self._of_copies(), *self._of_levels()))

    def _of_copies(self) -> str:
        count = len(self.copies)
        said = f"A/A: {count} cells, {self.missed} missed 1.00" + (
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
        told = [_told(one) for one in self.levels if one is self.levels[0] or one.percent == self.least]
        if self.least is None:
            return (*told, "so no verdict is given")
        if self.least > self.levels[0].percent:
            return (*told, f"so nothing below {self.least} % is called faster or slower")
        return told


def least_of(levels: Sequence[Level]) -> int | None:
    """Per cent of the smallest delay that was recovered; None where none was."""
    return next((one.percent for one in levels if one.recovered), None)


def _told(level: Level) -> str:
    found, count = level.found, len(level.controls)
    kept = f"{count - level.lost} of {count} controls recovered"
    if found is None:
        return f"an added {level.percent} % was not found ({kept})"
    value, low, high = (100 * one for one in (found.value, found.low, found.high))
    return f"an added {level.percent} % was found as {value:.1f} % [{low:.1f}, {high:.1f}] ({kept})"
