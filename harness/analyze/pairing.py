"""Pairing: bracket log-ratios of one comparison, kept apart by restart."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness.analyze.device import Device, device_of
from harness.core.bracket import Bracket, alone, brackets
from harness.core.measurement import Burst


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """What one comparison's bursts say, before any statistics."""

    log_ratios: tuple[tuple[float, ...], ...]  # of the brackets, one tuple for each restart that has any
    interference: float  # root mean square of the reference's own log change from burst to burst
    crowding: float = 0.0  # mean share of the cores that others took while none was idle
    in_turn: int = 0  # restarts whose arms were alive one after the other, because memory did not hold both
    device: Device | None = None  # how it was meanwhile, where a driver told

    @property
    def count(self) -> int:
        """How many brackets there are in all restarts together."""
        return sum(len(restart) for restart in self.log_ratios)


Spent = Callable[[Burst], float]  # what a burst took, of whatever there is less of the better


def seconds(burst: Burst) -> float:
    """What a rate is told in."""
    return burst.wall_s


def pair(bursts: Iterable[Burst], position: int, spent: Spent = seconds) -> Pairs:
    """The brackets of the arm at `position` of one block; all lives of a restart count together.

    A restart whose arms were alive one after the other gives one log ratio, of their rates over all bursts.
    A rate is samples a second, or samples over whatever else is `spent`, which must not be 0 in any burst.
    """
    bursts = tuple(bursts)
    by_restart: dict[int, list[float]] = defaultdict(list)
    changes: list[float] = []
    others: list[float] = []
    for (restart, _), life in _lives(bursts).items():
        by_restart[restart] += [log_ratio(bracket, spent) for bracket in brackets(life, position)]
        changes += _reference_changes(life, spent)
        others += [one.others for one in life if one.arm.position in {0, position} and one.others is not None]
    in_turn = _in_turn(bursts, position, spent)
    for restart, ratio in in_turn.items():
        by_restart[restart].append(ratio)
    return Pairs(
        log_ratios=tuple(tuple(ratios) for _, ratios in sorted(by_restart.items()) if ratios),
        interference=math.sqrt(sum(change**2 for change in changes) / len(changes)) if changes else 0.0,
        crowding=sum(others) / len(others) if others else 0.0,
        in_turn=len(in_turn),
        device=device_of(bursts, position),
    )


def log_ratio(bracket: Bracket, spent: Spent = seconds) -> float:
    """Log of the treatment's rate over the reference's at the same moment, which lies on a line between neighbours."""
    before_s, moment_s, after_s = (_middle_s(one) for one in (bracket.before, bracket.treatment, bracket.after))
    share = (moment_s - before_s) / (after_s - before_s)
    before, treatment, after = (_rate([one], spent) for one in (bracket.before, bracket.treatment, bracket.after))
    return math.log(treatment) - math.log(before + share * (after - before))


def _in_turn(bursts: Sequence[Burst], position: int, spent: Spent) -> dict[int, float]:
    """By restart: the log ratio of arms that were alive one after the other, both for some bursts."""
    found = {}
    for restart in sorted({burst.arm.restart for burst in bursts}):
        mine = [burst for burst in bursts if burst.arm.restart == restart]
        ours, theirs = alone(mine, position), alone(mine, 0)
        if ours and theirs:
            found[restart] = math.log(_rate(ours, spent) / _rate(theirs, spent))
    return found


def _rate(bursts: Sequence[Burst], spent: Spent) -> float:
    return sum(burst.samples for burst in bursts) / sum(map(spent, bursts))


def _lives(bursts: Iterable[Burst]) -> Mapping[tuple[int, int], list[Burst]]:
    lives: dict[tuple[int, int], list[Burst]] = defaultdict(list)
    for burst in bursts:
        lives[burst.arm.restart, burst.arm.life].append(burst)
    return lives


def _reference_changes(life: Iterable[Burst], spent: Spent) -> list[float]:
    own = sorted((burst for burst in life if burst.arm.position == 0), key=lambda burst: burst.order)
    rates = [_rate([one], spent) for one in own]
    return [math.log(later / earlier) for earlier, later in pairwise(rates)]


def _middle_s(burst: Burst) -> float:
    return burst.began_s + burst.wall_s / 2
