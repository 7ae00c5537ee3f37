"""Bottlenecks: where an arm's time goes, and which of its two upper bounds holds it back."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from harness.core.measurement import Burst


@dataclass(frozen=True, slots=True, kw_only=True)
class Phases:
    """Shares of wall time; together 1."""

    input_wait: float
    copy: float
    compute: float  # all the rest: launch, device, optimizer, metrics
    overlapped: bool = False  # batches were sent ahead: what ran beside the compute is part of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Bottleneck:
    """The stage with the lower ceiling. Rates in samples a second."""

    stage: Literal["input", "compute"]
    loader_rate: float
    compute_rate: float
    rate: float
    bound: float  # the step rate could rise by this factor if the stage cost nothing
    short_probe: bool = False  # the share of waiting says otherwise than the bounds, which were then probed too shortly


def phases(bursts: Collection[Burst]) -> Phases:
    """Shares as sums over sums, so that long bursts weigh more."""
    wall_s = sum(burst.wall_s for burst in bursts)
    input_wait = sum(burst.wait_s for burst in bursts) / wall_s
    copy = sum(burst.copy_s for burst in bursts) / wall_s
    return Phases(input_wait=input_wait, copy=copy, compute=1 - input_wait - copy)


def beside(compute: float, shares: Phases) -> Phases:
    """The shares where batches are sent ahead, and compute alone would take that share of the time.

    Copies then run on a stream of their own, and the host waits for the next batch while the device still works: only
    what compute does not cover has held the steps up.
    """
    input_wait = min(shares.input_wait, max(0.0, 1 - compute))
    return Phases(input_wait=input_wait, copy=0.0, compute=1 - input_wait, overlapped=True)


WAITS, WORKS = 0.6, 0.02  # shares of waiting that leave no doubt of which stage is behind them
CLEARLY = 1.1  # times the other bound


def bottleneck(rate: float, loader_rate: float, compute_rate: float, input_wait: float | None = None) -> Bottleneck:
    """The stage that holds a rate back.

    Without that stage the rate is the other bound, whether the stages overlap (the rate is the lower bound) or take
    turns (their times add), so one formula serves loader workers and none. A bound below 1 is noise and reads 1. Where
    steps are seen to wait most of their time, or none of it, that decides: a probe may be too short for what comes now
    and then.
    """
    stage: Literal["input", "compute"] = "input" if loader_rate < compute_rate else "compute"
    waits = input_wait is not None and input_wait > WAITS and loader_rate > CLEARLY * compute_rate
    works = input_wait is not None and input_wait < WORKS and compute_rate > CLEARLY * loader_rate
    if waits or works:
        stage = "input" if waits else "compute"
    other = compute_rate if stage == "input" else loader_rate
    return Bottleneck(
        stage=stage,
        loader_rate=loader_rate,
        compute_rate=compute_rate,
        rate=rate,
        bound=max(1.0, other / rate),
        short_probe=waits or works,
    )
