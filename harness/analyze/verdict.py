"""Verdicts: what a 95 % interval of a ratio allows to be said, and the only place of the limits that decide it."""

from enum import StrEnum
from typing import NamedTuple

MARGIN = 0.01  # nobody cares for less
SAME = (0.98, 1.02)  # two one-sided tests: within it nothing changes that matters


class Verdict(StrEnum):
    """One word for an interval; `faster` and `slower` need a margin of 1 %, `no effect` proof within 2 %."""

    FASTER = "faster"
    SLOWER = "slower"
    NO_EFFECT = "no effect"
    UNDECIDED = "undecided"


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


def verdict(low: float, high: float, margin: float = MARGIN) -> Verdict:
    """The verdict of an interval by a machine's limits; an interval too wide for any of them is undecided."""
    found = limits(margin)
    if low > found.faster:
        return Verdict.FASTER
    if high < found.slower:
        return Verdict.SLOWER
    if found.same and found.same[0] <= low and high <= found.same[1]:
        return Verdict.NO_EFFECT
    return Verdict.UNDECIDED
