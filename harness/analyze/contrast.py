"""Contrasts: a speedup here over the same speedup elsewhere, with an interval and a verdict."""

import math
from dataclasses import dataclass
from enum import StrEnum

from scipy import stats

from harness.analyze.estimate import Estimate
from harness.analyze.verdict import MARGIN, Verdict, verdict

ALIKE = 1.025  # two speedups whose ratio lies this near to 1, or to 1 / 1.025, are alike for anybody who chooses


class Difference(StrEnum):
    """One word for how a speedup relates to the one it is held against."""

    MORE = "pays more"
    LESS = "pays less"
    ALIKE = "alike"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """A ratio of two ratios with its 95 % interval."""

    ratio: float  # above 1: it pays more here
    low: float
    high: float  # infinite where one side is known within no bounds
    df: float
    difference: Difference

    @property
    def differs(self) -> bool:
        """Whether the two speedups surely differ."""
        return self.difference in {Difference.MORE, Difference.LESS}


def contrast(here: Estimate, there: Estimate) -> Contrast:
    """The speedup here over the speedup there, from runs that share neither processes nor time.

    Logs subtract and their squared standard errors add. The degrees of freedom are Satterthwaite's (1946, Biometrics
    Bulletin 2, 110-114), as Welch uses them for two means of unequal spread (1947, Biometrika 34, 28-35). No difference
    is known better than the side of it that is known worst (docs/decisions/comparing-machines.md).
    """
    (ours, our_df), (theirs, their_df) = here.standard_error, there.standard_error
    least = max(here.half_width, there.half_width)
    centre, variance = math.log(here.ratio / there.ratio), ours**2 + theirs**2
    if math.isinf(variance):
        low, high, df = 0.0, math.inf, min(our_df, their_df)
    else:
        df = variance**2 / (ours**4 / our_df + theirs**4 / their_df)
        half_width = max(least, float(stats.t.ppf(max(here.point, there.point), df)) * math.sqrt(variance))
        low, high = _exponential(centre - half_width), _exponential(centre + half_width)
    disturbed = here.disturbed or there.disturbed
    margin = max(here.terms.margin, there.terms.margin)
    word = Difference.UNDECIDED if disturbed else difference(low, high, margin)
    return Contrast(ratio=math.exp(centre), low=low, high=high, df=df, difference=word)


def difference(low: float, high: float, margin: float = MARGIN) -> Difference:
    """The word for an interval; it is the opposite word when the two sides change places."""
    if verdict(low, high, margin) is Verdict.FASTER:
        return Difference.MORE
    if high > 0 and verdict(1 / high, 1 / low if low else math.inf, margin) is Verdict.FASTER:
        return Difference.LESS
    alike = low >= 1 / ALIKE and high <= ALIKE and margin <= MARGIN
    return Difference.ALIKE if alike else Difference.UNDECIDED


def _exponential(log: float) -> float:
    return math.exp(log) if log < 700.0 else math.inf  # where a float ends
