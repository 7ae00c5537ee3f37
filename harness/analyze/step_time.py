"""How the stages of a pipeline add up to a step: soft maxima of log times, each carried along with its slopes.

With loader workers a step takes as long as the slower of loading and computing; without, the host loads and a share of
that is hidden behind a device that still works. A soft maximum, (x^p + y^p)^(1/p), rounds the corner off where two
stages are nearly alike: batches and kernels take unequally long, so neither waits all the time. p = 1 is the sum.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
VARIABLES = 7  # log times of input, device, host and sync; then how loading and launching overlap, and the hidden share


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """Values of several cells, and how each changes with the seven variables."""

    value: Array  # cells
    slope: Array  # cells x variables


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """How stages overlap, as numbers that may take any value."""

    loading: float  # log(p - 1) of loading beside computing
    launching: float  # log(p - 1) of the host's launching beside the device
    hidden: float  # log odds of the share of loading that the host does while the device works
    asynchronous: bool  # False where host and device are the same cores, which take turns and hide nothing


def variables(logs: Array) -> tuple[Traced, Traced, Traced, Traced]:
    """The log times of the four stages, cells x 4, as variables."""
    found = []
    for index in range(4):
        slope = np.zeros((len(logs), VARIABLES))
        slope[:, index] = 1.0
        found.append(Traced(value=logs[:, index], slope=slope))
    return found[0], found[1], found[2], found[3]


def step(stages: Sequence[Traced], overlapped: NDArray[np.bool_], overlap: Overlap) -> Traced:
    """Log time of a step; `overlapped` says which cells have loader workers."""
    loading, device, host, sync = stages
    beside = _sum(soft_maximum(loading, computing(stages, overlap), _power(overlap.loading, 4)), sync)
    if overlap.asynchronous:
        share = 1 / (1 + np.exp(-overlap.hidden))
        hidden = _scaled(loading, np.log(share), 1 - share)
        seen = _scaled(loading, np.log1p(-share), -share)
        busy = soft_maximum(device, _sum(host, hidden), _power(overlap.launching, 5))
        in_turn = _sum(_sum(busy, seen), sync)
    else:
        in_turn = _sum(_sum(computing(stages, overlap), loading), sync)
    return Traced(
        value=np.where(overlapped, beside.value, in_turn.value),
        slope=np.where(overlapped[:, None], beside.slope, in_turn.slope),
    )


def computing(stages: Sequence[Traced], overlap: Overlap) -> Traced:
    """Log time of a batch on the device, launching included and waiting left out: what events on the device span."""
    _, device, host, _ = stages
    if not overlap.asynchronous:
        return _sum(device, host)
    return soft_maximum(device, host, _power(overlap.launching, 5))


def alone(stages: Sequence[Traced], overlap: Overlap) -> Traced:
    """Log time of a step on batches that lie on the device already."""
    return _sum(computing(stages, overlap), stages[3])


def soft_maximum(one: Traced, other: Traced, power: Traced) -> Traced:
    """The log of (x^p + y^p)^(1/p) from the logs of x and y."""
    p = power.value
    total = np.logaddexp(p * one.value, p * other.value) / p
    share = np.exp(p * (one.value - total))
    mean = share * one.value + (1 - share) * other.value
    slope = (
        share[:, None] * one.slope + (1 - share)[:, None] * other.slope + ((mean - total) / p)[:, None] * power.slope
    )
    return Traced(value=total, slope=slope)


def _sum(one: Traced, other: Traced) -> Traced:
    return soft_maximum(one, other, Traced(value=np.ones(1), slope=np.zeros((1, VARIABLES))))


def _power(log_excess: float, variable: int) -> Traced:
    slope = np.zeros((1, VARIABLES))
    slope[0, variable] = np.exp(log_excess)
    return Traced(value=np.array([1 + np.exp(log_excess)]), slope=slope)


def _scaled(one: Traced, log_share: float, slope_of_share: float) -> Traced:
    slope = one.slope.copy()
    slope[:, 6] += slope_of_share
    return Traced(value=one.value + log_share, slope=slope)
