"""The campaign: in which legs all workloads of a machine are measured, in which order, each for how long.

The calibration comes first, since every interval rests on it, then something of every workload, then each for itself.
A leg ends at a mark of the campaign's own time: what one leaves, the next has.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from harness.core.mistake import Mistake

PAGES_S = 25.0  # kept back for the claims, the pages and their figures
LEAST_SLICE_S = 45.0  # below which starting, saving and the pages leave nothing to measure in


class Kind(StrEnum):
    """What a leg measures."""

    CALIBRATION = "calibration"
    FIRST_LOOK = "first look"  # everything together and the system as it was found, of all workloads
    MATRIX = "matrix"
    CLAIMS = "claims"
    BEST = "best"


# No leg may spend more of the minutes than this before others had their turn.
MOST = {Kind.CALIBRATION: 0.30, Kind.FIRST_LOOK: 0.25}
WEIGHTS = {Kind.MATRIX: 0.5, Kind.CLAIMS: 0.2, Kind.BEST: 0.3}  # of what is left after those
DISPENSABLE = (Kind.BEST, Kind.CLAIMS)  # in this order, where the minutes are few


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """What a leg would measure if there were time for all of it."""

    kind: Kind
    workloads: tuple[str, ...]
    comparisons: int  # none where a search decides for itself
    seconds: float  # infinite where nobody can tell
    least_s: float = 0.0  # in less than that it would come to nothing
    problem: str = ""  # why nothing of it can be measured here, in words


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """A part of the campaign and its share of the time."""

    kind: Kind
    workloads: tuple[str, ...]
    share_s: float
    until_s: float  # of the campaign's own time: the shares of all legs up to this one

    @property
    def name(self) -> str:
        """What it is called: `matrix leak`, or `first look`, which is about all workloads."""
        alone = self.kind in {Kind.MATRIX, Kind.CLAIMS, Kind.BEST}
        return f"{self.kind} {' '.join(self.workloads)}" if alone else str(self.kind)


def legs(minutes: float, wants: Sequence[Want]) -> tuple[Leg, ...]:
    """The legs with their shares, which with the pages fill the minutes; raises Mistake where these are too few."""
    able = [one for one in wants if not one.problem]
    if not able:
        reasons = "; ".join(dict.fromkeys(one.problem for one in wants))
        raise Mistake(f"Nothing of a campaign can be measured here ({reasons}); ./speedmatrix doctor may tell why.")
    left_s = 60 * minutes - PAGES_S
    _check(minutes, left_s, able)
    return tuple(_marked(able, left_s, 0.0))


def shared_anew(wants: Sequence[Want], spent_s: float, until_s: float) -> tuple[Leg, ...]:
    """Legs that fill the campaign's time from one mark to another; where that is little, what comes first has it."""
    return tuple(_marked(wants, max(0.0, until_s - spent_s), spent_s))


def _check(minutes: float, left_s: float, able: Sequence[Want]) -> None:
    least = _needed(able)
    if left_s < least:
        count = len({name for one in able for name in one.workloads})
        label = f"{_number(count)} workload{'s' if count != 1 else ''}"
        raise Mistake(
            f"--minutes {minutes:g} is too short for {label}; give {math.ceil((least + PAGES_S) / 60)} or more, "
            f"name fewer workloads, or take a smaller --size{_costliest(able)}."
        )


def _costliest(able: Sequence[Want]) -> str:
    """Words on the workload that needs most of the minutes, where several are wanted."""
    alone = [one for one in able if one.kind is Kind.MATRIX]
    if len(alone) < 2:
        return ""
    most = max(alone, key=lambda one: one.least_s)
    return f": one comparison of {' '.join(most.workloads)} takes about {most.least_s / 60:.1f} minutes"


def _first(left_s: float, able: Sequence[Want]) -> Iterator[tuple[Want, float]]:
    """What comes before everything else, each with a bounded share; what is needed at least is left to all."""
    needed = _needed(able)
    for one in able:
        if one.kind in MOST:
            bound = min(max(one.least_s, MOST[one.kind] * left_s), left_s - (needed - one.least_s))
            yield one, min(max(one.seconds, one.least_s), bound)


def _needed(able: Sequence[Want]) -> float:
    """What comes first must hold something of every workload."""
    return sum(one.least_s for one in able if one.kind in MOST)


def _afterwards(rest_s: float, others: Sequence[Want]) -> dict[int, float]:
    """The rest by weight; what would get too little to begin has nothing, and whoever comes before it has more."""
    poured_out = poured(rest_s, [one.seconds for one in others], [WEIGHTS[one.kind] for one in others])
    shares = dict(zip(map(id, others), poured_out, strict=True))
    short = any(shares[id(one)] < min(one.least_s, one.seconds) for one in others if one.kind in DISPENSABLE)
    kind = next((kind for kind in DISPENSABLE if short and any(one.kind is kind for one in others)), None)
    if kind is None:
        return shares
    nothing = dict.fromkeys((id(one) for one in others if one.kind is kind), 0.0)
    return nothing | _afterwards(rest_s, [one for one in others if one.kind is not kind])


def _marked(able: Sequence[Want], left_s: float, spent_s: float) -> Iterator[Leg]:
    shares = _shares(left_s, able)
    for one in able:
        spent_s += shares[id(one)]
        yield Leg(kind=one.kind, workloads=one.workloads, share_s=shares[id(one)], until_s=spent_s)


def _shares(left_s: float, able: Sequence[Want]) -> dict[int, float]:
    shares = {id(one): share for one, share in _first(left_s, able)}
    others = [one for one in able if id(one) not in shares]
    shares |= _afterwards(left_s - sum(shares.values()), others)
    # Where everything is wanted less than there is time, the last may go on narrowing intervals.
    shares[id(able[-1])] += left_s - sum(shares.values())
    return shares


def poured(amount: float, wanted: Sequence[float], weights: Sequence[float]) -> list[float]:
    """An amount shared out by weight, nobody getting more than is wanted; what one leaves, the others have."""
    shares = [0.0] * len(wanted)
    thirsty = list(range(len(wanted)))
    while thirsty:
        unit = max(0.0, amount) / sum(weights[one] for one in thirsty)
        content = [one for one in thirsty if wanted[one] <= unit * weights[one]]
        for one in content or thirsty:
            shares[one] = min(wanted[one], unit * weights[one])
            amount -= shares[one]
        thirsty = [one for one in thirsty if one not in content] if content else []
    return shares


def check_slice(seconds: float | None) -> None:
    """Raises Mistake for a slice in which nothing could be measured."""
    if seconds is not None and seconds < LEAST_SLICE_S:
        raise Mistake(
            f"A slice of {seconds:.0f} s is too short to start, measure and save in; give --slice {LEAST_SLICE_S:.0f}s "
            "or more, or leave it out."
        )


def _number(count: int) -> str:
    words = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    return words[count] if count < len(words) else str(count)
