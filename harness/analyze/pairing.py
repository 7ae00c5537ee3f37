"""Pairing: bracket log-ratios of one comparison, kept apart by restart."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from harness.core.bracket import Bracket, brackets
from harness.core.measurement import Burst


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """What one comparison's bursts say, before any statistics."""

    log_ratios: tuple[tuple[float, ...], ...]  # of the brackets, one tuple for each restart that has any
    interference: float  # root mean square of the reference's own log change from burst to burst

    @property
    def count(self) -> int:
        """How many brackets there are in all restarts together."""
        return sum(len(restart) for restart in self.log_ratios)


def pair(bursts: Iterable[Burst], position: int) -> Pairs:
    """The brackets of the arm at `position` of one block; all lives of a restart count together."""
    by_restart: dict[int, list[float]] = defaultdict(list)
    changes: list[float] = []
    for (restart, _), life in _lives(bursts).items():
        by_restart[restart] += [log_ratio(bracket) for bracket in brackets(life, position)]
        changes += _reference_changes(life)
    return Pairs(
        log_ratios=tuple(tuple(ratios) for _, ratios in sorted(by_restart.items()) if ratios),
        interference=math.sqrt(sum(change**2 for change in changes) / len(changes)) if changes else 0.0,
    )


def log_ratio(bracket: Bracket) -> float:
    """Log of the treatment's rate over the reference's at the same moment, which lies on a line between neighbours."""
    before_s, moment_s, after_s = (_middle_s(one) for one in (bracket.before, bracket.treatment, bracket.after))
    share = (moment_s - before_s) / (after_s - before_s)
    reference = bracket.before.rate + share * (bracket.after.rate - bracket.before.rate)
    return math.log(bracket.treatment.rate) - math.log(reference)


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
