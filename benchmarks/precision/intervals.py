"""What the data of each tool says of a pair: a speedup with a 95 % interval, and whether the tool calls it a change.

Speedups are the reference's seconds over the treatment's. Where a tool states an interval for each side and none for
the ratio, the two are put together as independent, in logarithms.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

Z95, Z99 = float(stats.norm.ppf(0.975)), float(stats.norm.ppf(0.995))


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A speedup, its 95 % interval, and the tool's own answer to whether anything changed."""

    ratio: float
    low: float
    high: float
    changed: bool | None  # None where the tool says that it cannot tell
    method: str = ""  # of the interval, where a tool has several

    @property
    def excludes_one(self) -> bool:
        """Whether the interval leaves out that nothing changed."""
        return not self.low <= 1.0 <= self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """The seconds that a tool states for one side, with its interval."""

    seconds: float
    low: float
    high: float

    @property
    def spread(self) -> float:
        """Half the interval's width as a share of the time, near enough to logarithms; asv's may reach below zero."""
        return (self.high - self.low) / (2 * self.seconds)


def of_means(reference: Sequence[float], treatment: Sequence[float], *, pooled: bool) -> Finding:
    """The ratio of two means with Student's t, its error propagated from both sides; needs two values of each.

    `pooled` takes both sides to vary alike, as pyperf does; else the degrees of freedom are Welch's. A change is what
    the t test of the two means says at 5 %.
    """
    sides = [np.asarray(one, dtype=np.float64) for one in (reference, treatment)]
    if min(map(len, sides)) < 2:
        raise ValueError("a mean with an interval needs two values at least")
    ratio = float(sides[0].mean() / sides[1].mean())
    relative = [one.var(ddof=1) / one.mean() ** 2 for one in sides]
    freedom = [len(one) - 1 for one in sides]
    if pooled:
        variance = float(np.average(relative, weights=freedom) * sum(1 / len(one) for one in sides))
        df = float(sum(freedom))
    else:
        parts = [float(own / len(one)) for own, one in zip(relative, sides, strict=True)]
        variance = sum(parts)
        df = variance**2 / sum(part**2 / own for part, own in zip(parts, freedom, strict=True)) if variance else 1.0
    test = stats.ttest_ind(sides[0], sides[1], equal_var=pooled)
    return _finding(ratio, float(stats.t.ppf(0.975, df)) * math.sqrt(variance), changed=bool(test.pvalue < 0.05))


def of_medians(reference: Sequence[float], treatment: Sequence[float]) -> Finding:
    """The ratio of two medians, each with the interval that the order of its values gives; needs six values of each."""
    found = of_stated(*(_median(one) for one in (reference, treatment)))
    return Finding(ratio=found.ratio, low=found.low, high=found.high, changed=found.excludes_one)


def of_stated(reference: Stated, treatment: Stated, *, scale: float = 1.0) -> Finding:
    """The ratio of two stated times; `scale` brings their intervals to 95 %. A change is when they do not overlap."""
    apart = reference.high < treatment.low or treatment.high < reference.low
    return _finding(
        reference.seconds / treatment.seconds, scale * math.hypot(reference.spread, treatment.spread), changed=apart
    )


def _median(values: Sequence[float]) -> Stated:
    """The median between two of the values, as far from either end as a binomial count allows."""
    ordered = sorted(values)
    rank = int(stats.binom.ppf(0.025, len(ordered), 0.5))
    if rank < 1:
        raise ValueError("a median with an interval needs six values at least")
    return Stated(seconds=float(np.median(ordered)), low=ordered[rank - 1], high=ordered[-rank])


def _finding(ratio: float, half_width: float, *, changed: bool) -> Finding:
    spread = math.exp(half_width)
    return Finding(ratio=ratio, low=ratio / spread, high=ratio * spread, changed=changed)
