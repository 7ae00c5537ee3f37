"""The sweep: what an option is worth on emulated devices of many speeds, and at which step time it stops paying."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness.analyze.estimate import Estimate
from harness.analyze.matrix import Matrix
from harness.core.configuration import Configuration

PAYS = 1.05  # a speedup of 5 %: whatever shortens the input never stops paying altogether, however long a step is


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """An option at one step time of the device."""

    step_s: float
    estimate: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossover:
    """A step time, in seconds, at which a speedup crosses `PAYS`: 0 and infinite lie beyond what was measured.

    `low_s` and `high_s` are where the ends of the intervals cross it. All three are on straight lines between the
    measured points, over the logarithm of the step time.
    """

    at_s: float
    low_s: float
    high_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One option over the device's step time, the shortest first."""

    label: str
    points: tuple[Point, ...]
    no_results: Mapping[float, str]  # why there is none at a step time

    @property
    def until(self) -> Crossover:
        """Up to which step time it pays; 0 where it does at none."""
        return Crossover(
            at_s=last_above(self._line("ratio")),
            low_s=last_above(self._line("low")),
            high_s=last_above(self._line("high")),
        )

    @property
    def since(self) -> Crossover:
        """From which step time on it pays, as workers do only where there is something to hide behind; 0: from all."""
        return Crossover(
            at_s=first_above(self._line("ratio")),
            low_s=first_above(self._line("high")),
            high_s=first_above(self._line("low")),
        )

    def _line(self, name: str) -> list[tuple[float, float]]:
        return [(one.step_s, getattr(one.estimate, name)) for one in self.points]

    @property
    def best(self) -> Point:
        """Where it gives most."""
        return max(self.points, key=lambda one: one.estimate.ratio)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """One workload on devices of many speeds."""

    reference: Configuration
    host: str  # on which all of it but the device was real
    curves: tuple[Curve, ...]


def sweep_of(matrices: Iterable[tuple[float, Matrix]]) -> tuple[Sweep, ...]:
    """The workloads of runs that differ in the device's step time, in seconds, alone."""
    found = sorted(matrices, key=lambda one: one[0])
    references = dict.fromkeys(table.config for _, matrix in found for table in matrix.tables)
    return tuple(_of_one(reference, found) for reference in references)


def _of_one(reference: Configuration, matrices: Sequence[tuple[float, Matrix]]) -> Sweep:
    points: dict[str, list[Point]] = {}
    missing: dict[str, dict[float, str]] = {}
    for step_s, matrix in matrices:
        for row in (row for table in matrix.tables if table.config == reference for row in table.rows):
            if row.estimate and math.isfinite(row.estimate.high):
                points.setdefault(row.label, []).append(Point(step_s=step_s, estimate=row.estimate))
            else:
                words = row.absence.words if row.absence else "too few replicates"
                missing.setdefault(row.label, {})[step_s] = words
    curves = [
        Curve(label=label, points=tuple(held), no_results=missing.get(label, {})) for label, held in points.items()
    ]
    environment = matrices[0][1].environment
    return Sweep(
        reference=reference,
        host=f"{environment.cpu}, {environment.cores} cores",
        curves=tuple(sorted(curves, key=lambda one: -one.best.estimate.ratio)),
    )


def last_above(points: Sequence[tuple[float, float]], level: float = PAYS) -> float:
    """The largest step time up to which a line through the points lies above a level; 0 or infinite beyond its ends.

    A line that comes up again after it fell is followed to its last crossing.
    """
    if not points or all(ratio < level for _, ratio in points):
        return 0.0
    if points[-1][1] >= level:
        return math.inf
    found = [
        _crossing(one, other, level) for one, other in pairwise(points) if one[1] >= level > other[1]
    ]  # fmt: skip
    return found[-1]


def first_above(points: Sequence[tuple[float, float]], level: float = PAYS) -> float:
    """The smallest step time from which on a line through the points lies above a level; 0 or infinite beyond them."""
    turned = [(1 / at, ratio) for at, ratio in reversed(points)]
    found = last_above(turned, level)
    return 1 / found if found else math.inf


def _crossing(one: tuple[float, float], other: tuple[float, float], level: float) -> float:
    (early, above), (late, below) = one, other
    share = math.log(above / level) / math.log(above / below)
    return math.exp(math.log(early) + share * math.log(late / early))


def spaced(first_s: float, last_s: float, count: int) -> tuple[float, ...]:
    """So many step times from the first to the last, each as many times longer than the one before."""
    if count < 2:
        return (first_s,)
    ratio = (last_s / first_s) ** (1 / (count - 1))
    return tuple(first_s * ratio**number for number in range(count))
