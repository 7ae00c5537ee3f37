"""Verdicts: what a 95 % interval of a ratio allows to be said, and the only place of the limits that decide it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

MARGIN = 0.01  # nobody cares for less
SAME = (0.98, 1.02)  # two one-sided tests: within it nothing changes that matters


class Verdict(StrEnum):
    """One word for an interval; `faster` and `slower` need a margin of 1 %, `no effect` proof within 2 %.

    `disturbed` is none: the machine was too restless for the interval to be believed.
    """

    FASTER = "faster"
    SLOWER = "slower"
    NO_EFFECT = "no effect"
    UNDECIDED = "undecided"
    DISTURBED = "disturbed"

    @property
    def is_open(self) -> bool:
        """Whether it leaves open what the option does."""
        return self in {Verdict.UNDECIDED, Verdict.DISTURBED}

    @property
    def gains(self) -> bool:
        """Whether it says that a training is faster."""
        return self is Verdict.FASTER

    @property
    def loses(self) -> bool:
        """Whether it says that a training is slower."""
        return self is Verdict.SLOWER


class Limits(NamedTuple):
    """What an interval must lie below, above or within."""

    slower: float
    faster: float
    same: tuple[float, float] | None  # None on a machine that cannot say that there is no effect


def limits(margin: float = MARGIN) -> Limits:
    """The limits of a machine.

    A larger margin is that of a machine which did not find a small effect that was there. It cannot say either that
    there is none.
    """
    return Limits(slower=1 - margin, faster=1 + margin, same=SAME if margin <= MARGIN else None)


def verdict(low: float, high: float, margin: float = MARGIN, *, disturbed: bool = False) -> Verdict:
    """The verdict of an interval by a machine's limits; an interval too wide for any of them is undecided."""
    if disturbed:
        return Verdict.DISTURBED
    found = limits(margin)
    if low > found.faster:
        return Verdict.FASTER
    if high < found.slower:
        return Verdict.SLOWER
    if found.same and found.same[0] <= low and high <= found.same[1]:
        return Verdict.NO_EFFECT
    return Verdict.UNDECIDED


# Thresholds: what the calibration of a machine decides for every interval and verdict that is given on it.

# Standard deviation of a replicate's log ratio below which no pool is believed: what processes differ by, whatever few
# replicates show. A constant where the machine was not calibrated (docs/decisions/least-spread.md).
LEAST_SPREAD, LEAST_FREEDOM = 0.009, 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """What holds for all configurations of a machine; as they stand, for one that was not calibrated."""

    least_spread: float = LEAST_SPREAD
    least_freedom: float = LEAST_FREEDOM  # degrees with which that is known
    margin: float = MARGIN  # by which an interval must leave 1 behind; infinite where no verdict can be given


UNCALIBRATED = Thresholds()
