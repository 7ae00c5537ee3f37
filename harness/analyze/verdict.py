"""Verdicts: what a 95 % interval of a speedup allows to be said."""

from enum import StrEnum

MARGIN = 0.01  # nobody cares for less


class Verdict(StrEnum):
    """One word for an interval; `faster` and `slower` need a margin of 1 %, `no effect` proof within 2 %."""

    FASTER = "faster"
    SLOWER = "slower"
    NO_EFFECT = "no effect"
    UNDECIDED = "undecided"


def verdict(low: float, high: float, margin: float = MARGIN) -> Verdict:
    """The verdict of an interval; an interval too wide for any of them is undecided.

    A larger margin is that of a machine which did not find a small effect that was there. It cannot say either that
    there is none: then `no effect` is undecided too.
    """
    if low > 1 + margin:
        return Verdict.FASTER
    if high < 1 - margin:
        return Verdict.SLOWER
    if low >= 0.98 and high <= 1.02 and margin <= MARGIN:
        return Verdict.NO_EFFECT
    return Verdict.UNDECIDED
