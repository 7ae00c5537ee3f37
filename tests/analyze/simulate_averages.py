"""How often the average of several runs holds, beside a single run, where hours of a machine differ.

python -m tests.analyze.simulate_averages [AVERAGES]     prints the table of docs/decisions/averages-of-runs.md

The truth is a ratio of 1. A run draws its standard error, from that its log ratio and from that the error it believes;
the average and its interval are the harness's own.
"""

import math
import sys
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from harness.analyze.estimate import BY_WIDTH, Estimate, average, estimates
from tests.analyze.synthetic import pairs_of

TYPICAL, UNLIKE = 0.08, 0.4  # standard error of a log ratio, and by how much that differs from run to run
(_MADE,) = estimates([pairs_of((0.0,), (0.1,))])


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Shares of intervals that hold the truth, and how wide the average's is beside a single run's, in the median."""

    single: float
    average: float
    width: float


def run(generator: np.random.Generator, between: float, freedom: int) -> Estimate:
    """One run's estimate; hours differ by `between` typical standard errors."""
    error = TYPICAL * math.exp(generator.normal(0, UNLIKE))
    log = generator.normal(0, math.hypot(error, between * TYPICAL))
    believed = error * math.sqrt(generator.chisquare(freedom) / freedom)
    half_width = float(stats.t.ppf(BY_WIDTH, freedom)) * believed
    ratio, low, high = (math.exp(log + sign * half_width) for sign in (0, -1, 1))
    return replace(_MADE, ratio=ratio, low=low, high=high, df=freedom, point=BY_WIDTH, trimmed_ratio=ratio)


def held(runs: int, between: float, count: int, freedom: int = 9, seed: int = 0) -> Held:
    """What so many averages come to, each of so many runs."""
    generator = np.random.default_rng(seed)
    found = [[run(generator, between, freedom) for _ in range(runs)] for _ in range(count)]
    means = [average(several) for several in found]
    return Held(
        single=float(np.mean([one.low <= 1 <= one.high for several in found for one in several])),
        average=float(np.mean([one.low <= 1 <= one.high for one in means])),
        width=float(
            np.median([mean.half_width / several[0].half_width for mean, several in zip(means, found, strict=True)])
        ),
    )


if __name__ == "__main__":
    cases = [(of, df, apart) for of in (2, 4) for df in (3, 4, 9) for apart in (0.0, 0.5, 1.0, 2.0)]
    for of, df, apart in cases:
        one = held(of, apart, int(sys.argv[1]) if sys.argv[1:] else 10_000, df)
        print(f"| {of} | {df} | {apart:g} | {one.single:.1%} | {one.average:.1%} | {one.width:.2f} |")
