"""Moderated variances: a few replicates borrow from the other configurations of a pool what they cannot know alone.

Source: G. K. Smyth (2004), Linear models and empirical Bayes methods for assessing differential expression in
microarray experiments, Statistical Applications in Genetics and Molecular Biology 3(1), article 3, section 6.2.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

Array = NDArray[np.float64]

SMALLEST_POOL = 4  # configurations; a prior from fewer would be a guess
OUTLYING = 0.99  # the point of the F distribution beyond which a configuration keeps its own variance


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """A scaled inverse chi-square law of the configurations' variances; endless `freedom` means that all are alike."""

    variance: float
    freedom: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Moderated:
    """One variance for each configuration with its degrees of freedom; an outlying configuration keeps its own."""

    variances: Array
    freedom: Array
    outlying: NDArray[np.bool_]


def moderate(variances: Array, freedom: Array) -> Moderated | None:
    """Variances shrunk towards the pool's, or None where the pool is too small or shows no variance at all.

    How much they are shrunk, and which configurations stand apart, is Smyth's. They are shrunk to the plain mean of the
    configurations that do not stand apart: with one or two degrees of freedom a configuration, Smyth's mean of logs is
    too uncertain, and intervals from pools of four hold in 94 % of cases, not in 95 %
    (docs/decisions/moderated-variances.md). No configuration gets more degrees of freedom than those configurations
    have together, as in limma.
    """
    if len(variances) < SMALLEST_POOL or np.median(variances) == 0:
        return None
    prior = fit_prior(variances, freedom)
    outlying = variances > prior.variance * stats.f.ppf(OUTLYING, freedom, min(prior.freedom, 1e6))
    pooled = float(np.average(variances[~outlying], weights=freedom[~outlying]))
    weight = freedom / (prior.freedom + freedom)
    return Moderated(
        variances=np.where(outlying, variances, pooled + weight * (variances - pooled)),
        freedom=np.where(outlying, freedom, np.minimum(prior.freedom + freedom, freedom[~outlying].sum())),
        outlying=outlying,
    )


def lent(variances: Array, freedom: Array, prior: Prior) -> Moderated:
    """Variances without a pool, shrunk towards a prior from elsewhere; one that stands apart keeps its own."""
    outlying = variances > prior.variance * stats.f.ppf(OUTLYING, freedom, prior.freedom)
    weight = freedom / (prior.freedom + freedom)
    return Moderated(
        variances=np.where(outlying, variances, prior.variance + weight * (variances - prior.variance)),
        freedom=np.where(outlying, freedom, prior.freedom + freedom),
        outlying=outlying,
    )


def prior_of(variances: Array, freedom: Array) -> Prior | None:
    """The prior that a pool can lend to others; None where the pool is too small or shows no variance.

    Its variance is the plain mean, as in a pool of its own, and its freedom no more than all configurations have
    together.
    """
    if len(variances) < SMALLEST_POOL or np.median(variances) == 0:
        return None
    together = float(freedom.sum())
    mean = float(np.average(variances, weights=freedom))
    return Prior(variance=mean, freedom=min(fit_prior(variances, freedom).freedom, together))


def fit_prior(variances: Array, freedom: Array) -> Prior:
    """The prior whose mean and variance of log variances match the pool's (Smyth 2004, section 6.2)."""
    half = freedom / 2
    floored = np.maximum(variances, 1e-5 * np.median(variances))  # as limma does, since a log cannot take zero
    centred = np.log(floored) - special.digamma(half) + np.log(half)
    excess = float(centred.var(ddof=1) - special.polygamma(1, half).mean())
    if excess <= 0:
        return Prior(variance=math.exp(float(centred.mean())), freedom=math.inf)
    half_prior = _trigamma_inverse(excess)
    scale = float(centred.mean() + special.digamma(half_prior) - math.log(half_prior))
    return Prior(variance=math.exp(scale), freedom=2 * half_prior)


def _trigamma_inverse(value: float) -> float:
    """Newton's method on 1/trigamma, which is nearly straight, so that it converges from below (Smyth's appendix)."""
    guess = 0.5 + 1 / value
    for _ in range(50):
        trigamma = float(special.polygamma(1, guess))
        step = trigamma * (1 - trigamma / value) / float(special.polygamma(2, guess))
        guess += step
        if -step / guess < 1e-8:
            break
    return guess
