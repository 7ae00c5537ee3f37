"""How often 95 % intervals hold, and how wide they are, for ways to share variances between the configs of a pool.

python -m tests.analyze.simulate_moderation [POOLS]     prints the tables of docs/decisions/moderated-variances.md

Written a second time, for many pools at once, so that it also checks `harness.analyze.pairing`.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

Array = NDArray[np.float64]
Law = Callable[[tuple[int, int], np.random.Generator], Array]  # the true variances of pools x configurations
SPREAD = 0.015  # the usual standard deviation of a replicate's mean log ratio
CONFIGS, REPLICATES = (4, 6, 10, 40), (2, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A way to moderate: what variances shrink to, the cap on degrees of freedom, and who keeps its own variance."""

    title: str
    centre: str  # "log mean", "plain mean" or "plain mean of the calm"
    cap: float  # as a share of the pool's degrees of freedom together
    outlying: float  # point of the F distribution
    judges: str = "all"  # the configurations whose prior tells who stands apart: "all" or "the others"


METHODS = (
    Method(title="log mean, limma's cap", centre="log mean", cap=1.0, outlying=0.90),
    Method(title="log mean, halved cap", centre="log mean", cap=0.5, outlying=0.90),
    Method(title="plain mean", centre="plain mean", cap=1.0, outlying=1.0),
    Method(title="plain mean, outliers apart", centre="plain mean of the calm", cap=1.0, outlying=0.99),
    Method(
        title="outliers judged by the others",
        centre="plain mean of the calm",
        cap=1.0,
        outlying=0.999,
        judges="the others",
    ),
)


def alike(shape: tuple[int, int], _: np.random.Generator) -> Array:
    """The same variance everywhere."""
    return np.full(shape, SPREAD**2)


def inverse_chi_square(shape: tuple[int, int], generator: np.random.Generator) -> Array:
    """Smyth's own law with 8 degrees of freedom."""
    return SPREAD**2 * 8 / generator.chisquare(8, shape)


def some_noisier(shape: tuple[int, int], generator: np.random.Generator) -> Array:
    """Three times the usual spread in 15 % of configurations."""
    return SPREAD**2 * np.where(generator.random(shape) < 0.15, 9.0, 1.0)


def one_wild(shape: tuple[int, int], _: np.random.Generator) -> Array:
    """Thirty times the usual spread in one configuration of every pool."""
    return np.concatenate([np.full((shape[0], 1), (30 * SPREAD) ** 2), alike((shape[0], shape[1] - 1), _)], axis=1)


LAWS: dict[str, Law] = {
    "all alike": alike,
    "inverse chi-square(8)": inverse_chi_square,
    "15 % three times noisier": some_noisier,
    "one thirty times noisier": one_wild,
}


def fitted(variances: Array, freedom: float) -> tuple[Array, Array]:
    """Smyth's prior variance and degrees of freedom of each pool, found by bisection."""
    floored = np.maximum(variances, 1e-5 * np.median(variances, axis=1, keepdims=True))
    logs = np.log(floored) - special.digamma(freedom / 2) + np.log(freedom / 2)
    excess = logs.var(axis=1, ddof=1) - special.polygamma(1, freedom / 2)
    low, high = np.full(len(logs), -6.0), np.full(len(logs), 16.0)  # logs of half the prior's degrees of freedom
    for _ in range(60):
        middle = (low + high) / 2
        too_small = special.polygamma(1, np.exp(middle)) > excess
        low, high = np.where(too_small, middle, low), np.where(too_small, high, middle)
    half = np.exp(low)
    endless = excess <= 0
    scale = logs.mean(axis=1) + np.where(endless, 0.0, special.digamma(half) - np.log(half))
    return np.exp(scale), np.where(endless, np.inf, 2 * half)


def moderated(variances: Array, freedom: float, method: Method) -> tuple[Array, Array]:
    """Variances and degrees of freedom of pools x configurations."""
    scale, prior = (one[:, None] for one in fitted(variances, freedom))
    outlying = standing_apart(variances, freedom, method)
    kept = ~outlying if method.centre == "plain mean of the calm" else np.ones_like(outlying)
    pooled = np.average(variances, axis=1, weights=kept)[:, None]
    centre = scale if method.centre == "log mean" else pooled
    most = method.cap * freedom * kept.sum(axis=1, keepdims=True)
    shrunk = centre + freedom / (prior + freedom) * (variances - centre)
    own = np.full_like(variances, freedom)
    return np.where(outlying, variances, shrunk), np.where(outlying, own, np.minimum(prior + freedom, most))


def standing_apart(variances: Array, freedom: float, method: Method) -> NDArray[np.bool_]:
    """Which configurations keep their own variance."""
    if method.judges == "all":
        scale, prior = (one[:, None] for one in fitted(variances, freedom))
    else:
        configs = range(variances.shape[1])
        fits = [fitted(np.delete(variances, config, axis=1), freedom) for config in configs]
        scale, prior = (np.stack(one, axis=1) for one in zip(*fits, strict=True))
    found: NDArray[np.bool_] = variances > scale * stats.f.ppf(method.outlying, freedom, np.minimum(prior, 1e6))
    return found & ~found.all(axis=1, keepdims=True)


def simulated(law: Law, configs: int, replicates: int, pools: int) -> tuple[Array, Array]:
    """Errors of mean log ratios and variances between replicates, pools x ratios; the seed is always the same."""
    generator = np.random.default_rng(20_040)
    deviations = np.sqrt(law((pools, configs), generator))[:, :, None]
    logs = deviations * generator.standard_normal((pools, configs, replicates))
    return logs.mean(axis=2), logs.var(axis=2, ddof=1)


def coverage(law: Law, configs: int, replicates: int, pools: int) -> list[str]:
    """For each method: per cent of intervals that hold the truth, and the median half-width in per cent."""
    errors, variances = simulated(law, configs, replicates, pools)
    found = []
    for method in METHODS:
        spread, freedom = moderated(variances, replicates - 1.0, method)
        half_widths = stats.t.ppf(0.975, freedom) * np.sqrt(spread / replicates)
        held = 100 * (np.abs(errors) <= half_widths).mean()
        found.append(f"{held:.1f} ±{100 * np.median(np.expm1(half_widths)):.1f}")
    return found


def main(pools: int) -> None:
    """Prints a Markdown table for each law."""
    for name, law in LAWS.items():
        rows = [
            f"| {name}: configurations, replicates | {' | '.join(one.title for one in METHODS)} |",
            "|---" * (1 + len(METHODS)) + "|",
        ]
        for replicates in REPLICATES:
            rows += [f"| {n}, {replicates} | {' | '.join(coverage(law, n, replicates, pools))} |" for n in CONFIGS]
        sys.stdout.write("\n".join(rows) + "\n\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4000)
