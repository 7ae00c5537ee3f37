"""Coverage: how often intervals hold a known truth, what they cost, and what other methods make of the same."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from harness.analyze.estimate import Estimate, estimates, trimmed_means
from harness.analyze.pairing import Array, Pairs
from harness.analyze.verdict import Verdict, verdict

PROMISED = (0.93, 0.98)  # of nominal 95 % intervals, the share that must hold the truth
WRONG_AT_MOST = 0.02  # of verdicts on configurations that change nothing
CHEAPER = 2.0  # times less machine time than the conventional plan for the same width, where a machine is restless
_NULL_VERDICTS = frozenset({Verdict.FASTER, Verdict.SLOWER})  # wrong where the true ratio is 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A 95 % interval of a ratio whose truth is known, and the machine time behind it."""

    truth: float
    low: float
    high: float
    verdict: Verdict
    machine_s: float

    @property
    def covers(self) -> bool:
        """Whether the truth lies in it."""
        return self.low <= self.truth <= self.high

    @property
    def half_width(self) -> float:
        """Half its width in the log."""
        return math.log(self.high / self.low) / 2

    @property
    def wrong(self) -> bool:
        """Whether a configuration that changes nothing was called faster or slower."""
        return self.truth == 1.0 and self.verdict in _NULL_VERDICTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One configuration, judged four ways."""

    ours: Held
    trimmed: Held  # the same windows, summarised by trimmed means of pairs
    window_pairs_alone: Held  # the same windows, as if every pair were independent of the others
    conventional: Held
    replicates: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A share of configurations, with the 95 % interval that the number of configurations and their likeness allow."""

    value: float
    low: float
    high: float
    configs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """One method in one environment: medians of half-widths in the log, means of machine seconds for each ratio."""

    coverage: Share
    wrong_verdicts: Share  # of the configurations that change nothing
    half_width: float
    machine_s: float

    def machine_s_at(self, half_width: float) -> float:
        """Machine time that it would need for another width: an interval narrows with the root of the time."""
        return self.machine_s * (self.half_width / half_width) ** 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """All trials in one environment: ours, the same windows summarised in two other ways, and the conventional plan."""

    name: str
    replicates: float  # mean
    ours: Tally
    trimmed: Tally
    window_pairs_alone: Tally
    conventional: Tally
    stalls: bool = False  # of the workload's own decide the width: against them no arrangement helps, only time

    @property
    def covers(self) -> bool:
        """Whether intervals hold the truth as often as they promise, and more often by no more than chance allows."""
        return PROMISED[0] <= self.ours.coverage.value and self.ours.coverage.low <= PROMISED[1]

    @property
    def sparing(self) -> bool:
        """Whether the conventional plan takes so many times as long for the same width, where that is promised."""
        return self.stalls or self.conventional_s >= CHEAPER * self.ours.machine_s

    @property
    def truthful(self) -> bool:
        """Whether configurations that change nothing are hardly ever called faster or slower."""
        return self.ours.wrong_verdicts.value <= WRONG_AT_MOST

    @property
    def kept(self) -> bool:
        """Whether all three hold."""
        return self.covers and self.sparing and self.truthful

    @property
    def conventional_s(self) -> float:
        """Machine seconds for a configuration that the conventional plan needs for intervals as wide as ours."""
        return self.conventional.machine_s_at(self.ours.half_width)

    @property
    def price(self) -> float:
        """How many times the machine time total time needs for intervals as wide as those of trimmed means."""
        return (self.ours.half_width / self.trimmed.half_width) ** 2


def checked(name: str, pools: Sequence[Sequence[Trial]], *, stalls: bool = False) -> Check:
    """The trials of one environment, pool by pool: configurations of a pool share machine and references."""
    ours, by_trimming, alone, conventional = (
        tally([[pick(trial) for trial in pool] for pool in pools])
        for pick in (_ours, _trimmed, _window_pairs_alone, _conventional)
    )
    return Check(
        name=name,
        replicates=float(np.mean([trial.replicates for pool in pools for trial in pool])),
        ours=ours,
        trimmed=by_trimming,
        window_pairs_alone=alone,
        conventional=conventional,
        stalls=stalls,
    )


def tally(pools: Sequence[Sequence[Held]]) -> Tally:
    """How often and how narrowly one method held the truth."""
    every = [held for pool in pools for held in pool]
    return Tally(
        coverage=share(pools, lambda held: held.covers),
        wrong_verdicts=share([[held for held in pool if held.truth == 1.0] for pool in pools], lambda held: held.wrong),
        half_width=float(np.median([held.half_width for held in every])),
        machine_s=float(np.mean([held.machine_s for held in every])),
    )


def share(pools: Sequence[Sequence[Held]], counts: Callable[[Held], bool]) -> Share:
    """A share of configurations with its exact binomial interval, for as many as would be that uncertain alone.

    Configurations of a pool miss together, since they share references. Their number is therefore divided by the design
    effect: the variance between pools over that of independent configurations. Source: E. L. Korn and B. I. Graubard
    (1998), Confidence intervals for proportions with small expected number of positive counts estimated from survey
    data, Survey Methodology 24(2).
    """
    hits = np.array([sum(map(counts, pool)) for pool in pools], dtype=float)
    sizes = np.array([len(pool) for pool in pools], dtype=float)
    configs = float(sizes.sum())
    if not configs:
        return Share(value=0.0, low=0.0, high=1.0, configs=0)
    value = float(hits.sum() / configs)
    alone = value * (1 - value) / configs
    together = _variance_between(hits - value * sizes, configs)
    effective = configs / max(1.0, together / alone) if alone else configs
    found = value * effective
    low = float(stats.beta.ppf(0.025, found, effective - found + 1)) if found else 0.0
    high = float(stats.beta.ppf(0.975, found + 1, effective - found)) if found < effective else 1.0
    return Share(value=value, low=low, high=high, configs=int(configs))


def _variance_between(excess: Array, configs: float) -> float:
    pools = len(excess)
    return float(pools / (pools - 1) * (excess**2).sum() / configs**2) if pools > 1 else 0.0


def trimmed(pool: Sequence[Pairs], point: float) -> tuple[Estimate, ...]:
    """Estimates from trimmed means of pairs, as they were until 0.2.0: windows say nothing of the width."""
    return estimates([_trimmed_pairs(pairs) for pairs in pool], point)


def _trimmed_pairs(pairs: Pairs) -> Pairs:
    means = map(float, trimmed_means(pairs))
    replicates = (
        replace(one, log_ratio=mean, error=0.0, freedom=0) for one, mean in zip(pairs.replicates, means, strict=True)
    )
    return replace(pairs, replicates=tuple(replicates))


def as_if_independent(pairs: Pairs) -> tuple[float, float]:
    """A 95 % interval by Student's t over all pairs: too narrow, because pairs of a process share its luck."""
    logs = np.array([one for replicate in pairs.log_ratios for one in replicate])
    half_width = stats.t.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / math.sqrt(len(logs))
    return math.exp(logs.mean() - half_width), math.exp(logs.mean() + half_width)


def unpaired(reference: Sequence[float], treatment: Sequence[float]) -> tuple[float, float]:
    """A 95 % interval of the ratio by Welch's t over log rates of processes."""
    interval = stats.ttest_ind(treatment, reference, equal_var=False).confidence_interval(0.95)
    return math.exp(interval.low), math.exp(interval.high)


def held(truth: float, interval: tuple[float, float], machine_s: float) -> Held:
    """An interval set beside the truth, with the verdict that it alone would get."""
    low, high = interval
    return Held(truth=truth, low=low, high=high, verdict=verdict(low, high), machine_s=machine_s)


def _ours(trial: Trial) -> Held:
    return trial.ours


def _trimmed(trial: Trial) -> Held:
    return trial.trimmed


def _window_pairs_alone(trial: Trial) -> Held:
    return trial.window_pairs_alone


def _conventional(trial: Trial) -> Held:
    return trial.conventional
