"""Verdicts: what a 95 % interval of a speedup allows to be said."""

from enum import StrEnum


class Verdict(StrEnum):
    """One word for an interval; `faster` and `slower` need a margin of 1 %, `no effect` proof within 2 %."""

    FASTER = "faster"
    SLOWER = "slower"
    NO_EFFECT = "no effect"
    UNDECIDED = "undecided"


def verdict(low: float, high: float) -> Verdict:
    """The verdict of an interval; an interval too wide for any of them is undecided."""
    if low > 1.01:
        return Verdict.FASTER
    if high < 0.99:
        return Verdict.SLOWER
    if low >= 0.98 and high <= 1.02:
        return Verdict.NO_EFFECT
    return Verdict.UNDECIDED
