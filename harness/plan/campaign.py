"""The campaign: in which phases all workloads of a machine are measured, in which order, and what each may take.

Ratios of all workloads come first; then the calibration, if there is time for all of it, since what it finds judges
what was measured before it as well; then each workload for itself. Quotas are shares of one deadline: they are computed
again before each phase, from what is left and what is still open.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from harness.core.mistake import Mistake

PAGES_S = 25.0  # kept back for the claims, the pages and their figures
LEAST_SESSION_S = 45.0  # below which starting, saving and the pages leave nothing to measure in


class Kind(StrEnum):
    """What a phase measures."""

    FIRST_LOOK = "first look"  # what `run` measures, of all workloads
    CALIBRATION = "calibration"
    MATRIX = "matrix"
    CLAIMS = "claims"
    BEST = "best"


# No phase may take more of the time than this before others had their turn.
MOST = {Kind.FIRST_LOOK: 0.75, Kind.CALIBRATION: 0.25}
WEIGHTS = {Kind.MATRIX: 0.5, Kind.CLAIMS: 0.2, Kind.BEST: 0.3}  # of what is left after those
DISPENSABLE = (Kind.BEST, Kind.CLAIMS)  # in this order, where the minutes are few


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A part of the campaign, and what it would take if there were time for all of it."""

    kind: Kind
    workloads: tuple[str, ...]
    comparisons: int = 0  # none where a search decides for itself
    seconds: float = 0.0  # infinite where nobody can tell
    least_s: float = 0.0  # in less than that it would come to nothing
    problem: str = ""  # why nothing of it can be measured here, in words

    @property
    def name(self) -> str:
        """What it is called: `matrix leak`, or `first look`, which is about all workloads."""
        return f"{self.kind} {' '.join(self.workloads)}" if self.kind in WEIGHTS else str(self.kind)


def measuring_s(minutes: float) -> float:
    """Seconds of a campaign to measure in; the rest is for the pages."""
    return 60 * minutes - PAGES_S


def check_minutes(minutes: float, phases: Sequence[Phase]) -> None:
    """Raises Mistake where nothing can be measured, or the minutes do not hold something of every workload."""
    able = [one for one in phases if not one.problem]
    if not able:
        reasons = "; ".join(dict.fromkeys(one.problem for one in phases))
        raise Mistake(f"Nothing of a campaign can be measured here ({reasons}); ./speedmatrix doctor may tell why.")
    if measuring_s(minutes) < (least_s := _needed(able)):
        count = len({name for one in able for name in one.workloads})
        label = f"{_number(count)} workload{'s' if count != 1 else ''}"
        raise Mistake(
            f"--minutes {minutes:g} is too short for {label}; give {math.ceil((least_s + PAGES_S) / 60)} or more, "
            f"name fewer workloads, or take a smaller --size{_costliest(able)}."
        )


def quotas(left_s: float, phases: Sequence[Phase], spent_s: Mapping[str, float] | None = None) -> dict[str, float]:
    """Seconds that each of the phases may still take, by name, in all as many as are left.

    What a phase has spent already, in an earlier session, counts as a part of its quota.
    """
    if not phases:
        return {}
    spent = [(spent_s or {}).get(one.name, 0.0) for one in phases]
    found = _shares(max(0.0, left_s) + sum(spent), phases)
    still = [max(0.0, found[one.name] - used) for one, used in zip(phases, spent, strict=True)]
    scale = max(0.0, left_s) / sum(still) if sum(still) else 0.0
    return {one.name: scale * seconds for one, seconds in zip(phases, still, strict=True)}


def _shares(time_s: float, phases: Sequence[Phase]) -> dict[str, float]:
    shares = dict(_first(time_s, phases))
    others = [one for one in phases if one.kind not in MOST]
    shares |= _afterwards(time_s - sum(shares.values()), others)
    # Where everything is wanted less than there is time, the last may go on narrowing intervals.
    shares[phases[-1].name] += max(0.0, time_s - sum(shares.values()))
    return shares


def _first(time_s: float, phases: Sequence[Phase]) -> Iterator[tuple[str, float]]:
    """What comes before everything else, each with a bounded share; what is needed at least is left to all."""
    needed = _needed(phases)
    for one in phases:
        if one.kind in MOST:
            bound = min(max(one.least_s, MOST[one.kind] * time_s), time_s - (needed - one.least_s))
            wanted = max(one.seconds, one.least_s)
            is_too_much = one.kind is Kind.CALIBRATION and wanted > bound  # half of one decides nothing
            yield one.name, 0.0 if is_too_much else max(0.0, min(wanted, bound))


def _needed(phases: Sequence[Phase]) -> float:
    """What comes first must hold something of every workload."""
    return sum(one.least_s for one in phases if one.kind in MOST)


def _afterwards(rest_s: float, others: Sequence[Phase]) -> dict[str, float]:
    """The rest by weight; what would get too little to begin has nothing, and whoever comes before it has more."""
    found = poured(rest_s, [one.seconds for one in others], [WEIGHTS[one.kind] for one in others])
    shares = dict(zip((one.name for one in others), found, strict=True))
    short = any(shares[one.name] < min(one.least_s, one.seconds) for one in others if one.kind in DISPENSABLE)
    kind = next((kind for kind in DISPENSABLE if short and any(one.kind is kind for one in others)), None)
    if kind is None:
        return shares
    nothing = dict.fromkeys((one.name for one in others if one.kind is kind), 0.0)
    return nothing | _afterwards(rest_s, [one for one in others if one.kind is not kind])


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


def check_session(seconds: float | None) -> None:
    """Raises Mistake for a session in which nothing could be measured."""
    if seconds is not None and seconds < LEAST_SESSION_S:
        raise Mistake(
            f"A slice of {seconds:.0f} s is too short to start, measure and save in; give --slice "
            f"{LEAST_SESSION_S:.0f}s or more, or leave it out."
        )


def _costliest(able: Sequence[Phase]) -> str:
    """Words on the workload that needs most of the minutes, where several are wanted."""
    alone = [one for one in able if one.kind is Kind.MATRIX]
    if len(alone) < 2:
        return ""
    most = max(alone, key=lambda one: one.least_s)
    return f": one comparison of {' '.join(most.workloads)} takes about {most.least_s / 60:.1f} minutes"


def _number(count: int) -> str:
    words = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    return words[count] if count < len(words) else str(count)
