"""Noise: what cells that are the same show of a machine, as functions of arrays.

Sources: the successive differences of lag_one are J. von Neumann's (1941), Distribution of the ratio of the mean square
successive difference to the variance, Annals of Mathematical Statistics 12(4); the rest are textbook least squares.
"""

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, stats

from harness.analyze.moderation import Array

MISSED, PASSED = 0.05, 0.98  # intervals that miss the truth by chance; sound machines that a bound must let pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A value with its 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether there is something."""
        return self.low > 0 or self.high < 0


def allowed_misses(intervals: int) -> int:
    """How many of so many 95 % intervals may miss the truth, so that 98 % of sound machines pass: 3 of 20."""
    return int(stats.binom.ppf(PASSED, intervals, MISSED))


def mean_of(values: Sequence[float]) -> Span | None:
    """The mean with Student's t over values that are independent; None where there are fewer than two."""
    if len(values) < 2:
        return None
    array = np.asarray(values)
    half = float(stats.t.ppf(0.975, len(array) - 1) * array.std(ddof=1) / math.sqrt(len(array)))
    return Span(value=float(array.mean()), low=float(array.mean()) - half, high=float(array.mean()) + half)


def trend(values: Sequence[float], places: Sequence[float], groups: Sequence[Hashable]) -> Span | None:
    """The slope of values over places within groups, each group with a level of its own; None where nothing can tell.

    Least squares on values and places less their groups' means, with one degree of freedom less for every group.
    """
    y, x = (_centred(np.asarray(one, dtype=np.float64), groups) for one in (values, places))
    freedom, spread = len(y) - len(set(groups)) - 1, float(x @ x)
    if freedom < 1 or spread == 0:
        return None
    slope = float(x @ y) / spread
    error = math.sqrt(float(((y - slope * x) ** 2).sum()) / freedom / spread)
    half = float(stats.t.ppf(0.975, freedom)) * error
    return Span(value=slope, low=slope - half, high=slope + half)


def _centred(values: Array, groups: Sequence[Hashable]) -> Array:
    names = list(groups)
    means = {name: float(values[[one == name for one in names]].mean()) for name in set(names)}
    centred: Array = values - np.array([means[name] for name in names])
    return centred


def lag_one(series: Iterable[Sequence[float]]) -> float | None:
    """The correlation of neighbours within series, as of an autoregression; None where no series has three values.

    A few values have a mean of their own, which makes neighbours look unlike each other: the usual coefficient of five
    independent values is -0.2. Squared differences of neighbours over the variance do not suffer from that where there
    is no correlation; where there is one, the autoregression is taken that would show the same in series as short.
    """
    known = [np.asarray(one, dtype=np.float64) for one in series if len(one) > 2]
    variance = sum(float(one.var(ddof=1)) for one in known)
    if not variance:
        return None
    seen = sum(float((np.diff(one) ** 2).mean()) for one in known) / variance
    lengths = [len(one) for one in known]
    low, high = -0.95, 0.95
    if not _shown(high, lengths) < seen < _shown(low, lengths):
        return high if seen <= _shown(high, lengths) else low
    return float(optimize.brentq(lambda correlation: _shown(correlation, lengths) - seen, low, high))


def _shown(correlation: float, lengths: Iterable[int]) -> float:
    """Squared differences of neighbours over variances, as they are expected of autoregressions of such lengths."""
    differences = variances = 0.0
    for count in lengths:
        lags = np.arange(1, count)
        differences += 2 * (1 - correlation)
        variances += 1 - 2 / (count - 1) * float(((1 - lags / count) * correlation**lags).sum())
    return differences / variances


def cost_of_a_burst(arms: Iterable[Sequence[tuple[int, float]]]) -> Span | None:
    """Seconds that a burst takes beside its steps, from the steps and seconds of each arm's bursts.

    Every arm gives the intercept of a line through bursts of several lengths; None where too few arms have them.
    """
    found = []
    for bursts in arms:
        steps, seconds = np.array(bursts, dtype=np.float64).T
        if len(set(steps)) > 2:
            found.append(float(stats.linregress(steps, seconds).intercept))
    return mean_of(found)
