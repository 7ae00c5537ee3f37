"""Repeated answers: the same question measured by two runs, each with processes of its own, often on different days.

Of two honest 95 % intervals of equal width one holds the other's ratio in 83 % of cases only, since both ratios err;
their difference lies within the root of the sum of both squared half-widths in 95 % (G. Cumming and R. Maillardet 2006,
Confidence intervals and replication: where will the next mean fall?).
"""

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from harness.analyze.collection import Entry, Kept, Question, entries
from harness.analyze.estimate import Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated:
    """A question with an estimate of an earlier run and one of the next run that asked it."""

    earlier: Entry
    later: Entry
    first: Estimate
    second: Estimate

    @property
    def apart(self) -> float:
        """The log of the later ratio over the earlier one."""
        return math.log(self.second.ratio / self.first.ratio)

    @property
    def agrees(self) -> bool:
        """Whether the difference of the two lies within the 95 % interval of a difference."""
        return abs(self.apart) <= math.hypot(self.first.half_width, self.second.half_width)

    @property
    def is_inside(self) -> bool:
        """Whether each ratio lies inside the other's interval, as of 83 % of honest pairs."""
        one, other = self.first, self.second
        return one.low <= other.ratio <= one.high and other.low <= one.ratio <= other.high


def repeated(runs: Iterable[Kept]) -> tuple[Repeated, ...]:
    """Every question that two runs of the same version and environment answered; the furthest apart first."""
    asked: dict[tuple[Question, str], list[Entry]] = defaultdict(list)
    for entry in entries(runs):
        if entry.row.estimate is not None and not entry.kept.contributed:
            asked[entry.question, entry.kept.version].append(entry)
    found = [_pair(earlier, later) for held in asked.values() for later, earlier in pairwise(held)]
    return tuple(sorted((one for one in found if one is not None), key=lambda one: -abs(one.apart)))


def _pair(earlier: Entry, later: Entry) -> Repeated | None:
    first, second = earlier.row.estimate, later.row.estimate
    if first is None or second is None:
        return None
    return Repeated(earlier=earlier, later=later, first=first, second=second)
