"""Pairing: bracket log-ratios of one comparison, kept apart by restart."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness.core.bracket import Bracket, alone, brackets
from harness.core.measurement import Burst


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """What one comparison's bursts say, before any statistics."""

    log_ratios: tuple[tuple[float, ...], ...]  # of the brackets, one tuple for each restart that has any
    interference: float  # root mean square of the reference's own log change from burst to burst
    crowding: float = 0.0  # mean share of the cores that others took while none was idle
    in_turn: int = 0  # restarts whose arms were alive one after the other, because memory did not hold both

    @property
    def count(self) -> int:
        """How many brackets there are in all restarts together."""
        return sum(len(restart) for restart in self.log_ratios)


def pair(bursts: Iterable[Burst], position: int) -> Pairs:
    """The brackets of the arm at `position` of one block; all lives of a restart count together.

    A restart whose arms were alive one after the other gives one log ratio, of their rates over all bursts.
    """
    bursts = tuple(bursts)
    by_restart: dict[int, list[float]] = defaultdict(list)
    changes: list[float] = []
    others: list[float] = []
    for (restart, _), life in _lives(bursts).items():
        by_restart[restart] += [log_ratio(bracket) for bracket in brackets(life, position)]
        changes += _reference_changes(life)
        others += [one.others for one in life if one.arm.position in {0, position} and one.others is not None]
    in_turn = _in_turn(bursts, position)
    for restart, ratio in in_turn.items():
        by_restart[restart].append(ratio)
    return Pairs(
        log_ratios=tuple(tuple(ratios) for _, ratios in sorted(by_restart.items()) if ratios),
        interference=math.sqrt(sum(change**2 for change in changes) / len(changes)) if changes else 0.0,
        crowding=sum(others) / len(others) if others else 0.0,
        in_turn=len(in_turn),
    )


def log_ratio(bracket: Bracket) -> float:
    """Log of the treatment's rate over the reference's at the same moment, which lies on a line between neighbours."""
    before_s, moment_s, after_s = (_middle_s(one) for one in (bracket.before, bracket.treatment, bracket.after))
    share = (moment_s - before_s) / (after_s - before_s)
    reference = bracket.before.rate + share * (bracket.after.rate - bracket.before.rate)
    return math.log(bracket.treatment.rate) - math.log(reference)


def _in_turn(bursts: Sequence[Burst], position: int) -> dict[int, float]:
    """By restart: the log ratio of arms that were alive one after the other, both for some bursts."""
    found = {}
    for restart in sorted({burst.arm.restart for burst in bursts}):
        mine = [burst for burst in bursts if burst.arm.restart == restart]
        ours, theirs = alone(mine, position), alone(mine, 0)
        if ours and theirs:
            found[restart] = math.log(_rate(ours) / _rate(theirs))
    return found


def _rate(bursts: Sequence[Burst]) -> float:
    return sum(burst.samples for burst in bursts) / sum(burst.wall_s for burst in bursts)


def _lives(bursts: Iterable[Burst]) -> Mapping[tuple[int, int], list[Burst]]:
    lives: dict[tuple[int, int], list[Burst]] = defaultdict(list)
    for burst in bursts:
        lives[burst.arm.restart, burst.arm.life].append(burst)
    return lives


def _reference_changes(life: Iterable[Burst]) -> list[float]:
    own = sorted((burst for burst in life if burst.arm.position == 0), key=lambda burst: burst.order)
    return [math.log(later.rate / earlier.rate) for earlier, later in pairwise(own)]


def _middle_s(burst: Burst) -> float:
    return burst.began_s + burst.wall_s / 2
