"""Order: whether it matters when an arm was started, or when its turn comes, where all arms are the same."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from harness.analyze.evidence import Evidence
from harness.analyze.noise import Span, mean_of, trend
from harness.analyze.pairing import log_ratio, log_totals, pair
from harness.core.bracket import Bracket, brackets
from harness.core.measurement import Arm, Burst, Ready, Record

_Life = tuple[str, int, int]  # block, restart, number


def in_the_order_of_start(copies: Iterable[Evidence], records: Iterable[Record]) -> Span | None:
    """Log ratio of an arm that was started last over one that was started first, in lives with the same reference.

    The places of a block are dealt out anew in every life, so that the order of start is the only place there is.
    """
    places, found = _places(records), []
    for one in copies:
        for ours, both in _lives(one):
            means = log_totals(pair(both, one.position))
            if len(means) and ours[0].arm in places:
                found.append((float(means[0]), places[ours[0].arm], _life(ours[0].arm)))
    return trend(*(list(column) for column in zip(*found, strict=True))) if found else None


def in_their_round(copies: Iterable[Evidence]) -> Span | None:
    """Log ratio of a burst right after the reference's over one of the same arm that comes after another's."""
    differences = []
    for one in copies:
        for _, bursts in _lives(one):
            early: dict[bool, list[float]] = defaultdict(list)
            for bracket in brackets(bursts, one.position):
                early[_is_first(bracket)].append(log_ratio(bracket))
            if early[True] and early[False]:
                differences.append(float(np.mean(early[True]) - np.mean(early[False])))
    return mean_of(differences)


def _is_first(bracket: Bracket) -> bool:
    return bracket.treatment.order == bracket.before.order + 1


def _lives(one: Evidence) -> Iterator[tuple[list[Burst], list[Burst]]]:
    """The treatment's bursts of each life, and both sides' together."""
    ours, both = (_by_life(bursts) for bursts in (one.treatment.bursts, one.bursts))
    for life, bursts in ours.items():
        yield bursts, both[life]


def _by_life(bursts: Iterable[Burst]) -> Mapping[_Life, list[Burst]]:
    found: dict[_Life, list[Burst]] = defaultdict(list)
    for burst in bursts:
        found[_life(burst.arm)].append(burst)
    return found


def _places(records: Iterable[Record]) -> dict[Arm, float]:
    """From 0 for the arm of a life that was started first to 1 for the last, as records follow each other."""
    started: dict[_Life, list[Arm]] = defaultdict(list)
    for record in records:
        if isinstance(record, Ready):
            started[_life(record.arm)].append(record.arm)
    return {
        arm: place / (len(arms) - 1) for arms in started.values() if len(arms) > 1 for place, arm in enumerate(arms)
    }


def _life(arm: Arm) -> _Life:
    return arm.block, arm.restart, arm.life
