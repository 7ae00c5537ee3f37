"""How each tool spends the time it is given, settled before it runs from what starting it was seen to cost."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from scipy import stats

Settings = Mapping[str, float]

LEAST_S = 0.2  # of timing, however short the time is
# What speedmatrix is told to expect when it divides time between fresh processes and rounds: standard deviations in
# log points of a process, and of a pair (docs/decisions/total-time.md). Only the division depends on them.
OF_PROCESS, OF_WINDOW_PAIR = 0.005, 0.015
ROUND_S = 0.25  # two windows of 0.1 s, and what it takes to resume an arm
MOST_REPLICATES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Seconds that are spent whatever the settings, and for each further unit of a tool's own kind."""

    fixed_s: float
    unit_s: float = 1.0
    lent: float = 0.0  # degrees of freedom that a calibration of the machine adds to what replicates show


def timed(seconds: float, cost: Cost, parts: int) -> Settings:
    """Everything that starting leaves, in equal parts."""
    return {"seconds": max(LEAST_S, (seconds - cost.fixed_s) / parts)}


def processes(seconds: float, cost: Cost) -> Settings:
    """As many worker processes for either side as the time allows, beside the one that counts loops; two at least."""
    return {"processes": max(2, math.floor((seconds - cost.fixed_s) / (2 * cost.unit_s)) - 1)}


def replicates(seconds: float, cost: Cost) -> Settings:
    """The division into replicates and rounds with the narrowest expected interval (Kalibera and Jones 2013).

    A unit is an attempt of both arms with one round.
    """
    possible = {}
    for count in range(2, MOST_REPLICATES + 1):
        rounds = 1 + math.floor(((seconds - cost.fixed_s) / count - cost.unit_s) / ROUND_S)
        if rounds >= 2:
            possible[count] = rounds
    if not possible:
        return {"restarts": 2, "rounds": 1}
    best = min(possible, key=lambda count: _half_width(count, possible[count], cost.lent))
    return {"restarts": best, "rounds": possible[best]}


def _half_width(count: int, rounds: int, lent: float) -> float:
    spread = math.sqrt(OF_PROCESS**2 + OF_WINDOW_PAIR**2 / rounds)
    return float(stats.t.ppf(0.975, count - 1 + lent)) * spread / math.sqrt(count)
