"""Estimates: ratios with intervals, from restarts that are the unit and a pool that lends its variances."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from harness.analyze.moderation import Array, Moderated, moderate
from harness.analyze.pairing import Pairs
from harness.analyze.verdict import Verdict, verdict

DISTURBED = 0.25  # interference above which no verdict is given
FEWEST_RESTARTS = 2
# Standard deviation of a restart's log ratio below which no pool is believed: what processes differ by, whatever a few
# restarts show (docs/decisions/least-spread.md).
LEAST_SPREAD, LEAST_FREEDOM = 0.009, 30.0
TRIMMED = 0.3  # of the brackets of a restart, at either end (docs/decisions/trimmed-brackets.md)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A speedup with its 95 % interval, what stands behind it, and what may be said of it."""

    ratio: float  # above 1 is faster
    low: float
    high: float  # infinite where two restarts disagree beyond all bounds
    pairs: int
    processes: int  # restarts, each with fresh processes of both arms
    df: float
    method: str  # "moderated t" or "t"
    outlying: bool  # its restarts disagree more than the pool's, so it keeps its own variance
    verdict: Verdict
    interference: float
    plain_ratio: float  # from all brackets, the extreme ones too

    @property
    def disturbed(self) -> bool:
        """Whether the machine was too restless for a verdict."""
        return self.interference > DISTURBED

    @property
    def sensitive(self) -> bool:
        """Whether leaving out extreme brackets matters: with them the ratio moves by more than half the interval."""
        half_width = np.log(self.high / self.ratio)
        return bool(abs(np.log(self.plain_ratio / self.ratio)) > half_width + 1e-9)  # beyond rounding


def estimates(pool: Sequence[Pairs]) -> tuple[Estimate, ...]:
    """One estimate for each, in order; raises ValueError where one has fewer than two restarts.

    A restart gives one trimmed mean of bracket log-ratios, so that one burst that a neighbour spoils does not decide
    it. The interval is Student's t over restarts, because processes differ and brackets of one process are not
    independent.
    """
    if any(len(pairs.log_ratios) < FEWEST_RESTARTS for pairs in pool):
        raise ValueError("an estimate needs two restarts at least")
    means = [_restart_means(pairs) for pairs in pool]
    variances = np.array([one.var(ddof=1) for one in means])
    freedom = np.array([len(one) - 1.0 for one in means])
    moderated = moderate(variances, freedom)
    own = Moderated(variances=variances, freedom=freedom, outlying=np.zeros(len(means), dtype=np.bool_))
    return tuple(
        _estimate(pairs, moderated or own, index, pooled=moderated is not None) for index, pairs in enumerate(pool)
    )


def _restart_means(pairs: Pairs) -> Array:
    return np.array([stats.trim_mean(restart, TRIMMED) for restart in pairs.log_ratios])


def _estimate(pairs: Pairs, spread: Moderated, index: int, *, pooled: bool) -> Estimate:
    centre, restarts = float(_restart_means(pairs).mean()), len(pairs.log_ratios)
    df, outlying = float(spread.freedom[index]), bool(spread.outlying[index])
    own = stats.t.ppf(0.975, df) * np.sqrt(spread.variances[index])
    least = stats.t.ppf(0.975, LEAST_FREEDOM) * LEAST_SPREAD
    half_width = float(max(own, least) / np.sqrt(restarts))
    with np.errstate(over="ignore"):
        ratio, low, high = (float(np.exp(value)) for value in (centre, centre - half_width, centre + half_width))
    return Estimate(
        ratio=ratio,
        low=low,
        high=high,
        pairs=pairs.count,
        processes=restarts,
        df=df,
        method="moderated t" if pooled and not outlying else "t",
        outlying=outlying,
        verdict=verdict(low, high) if pairs.interference <= DISTURBED else Verdict.UNDECIDED,
        interference=pairs.interference,
        plain_ratio=float(np.exp(np.mean([np.mean(restart) for restart in pairs.log_ratios]))),
    )
