"""Warm-up: a structural floor, then the truncation that leaves the steadiest remainder (MSER-5, White 1997)."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from harness.core.protocol import Protocol

BATCH = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUp:
    """How long it took, and whether the remainder was steady. Durations in seconds."""

    steps: int
    seconds: float
    step_s: float
    steady: bool


def floor_reached(steps: int, seconds: float, prefetched_batches: int, protocol: Protocol) -> bool:
    """Whether the prefetched batches are used up and the least number of steps and seconds has passed.

    A loader's queue that filled while the model was built makes the first steps too fast.
    """
    return steps >= max(protocol.floor_steps, 2 * prefetched_batches) and seconds >= protocol.floor_s


def truncation(step_s: list[float]) -> int | None:
    """How many steps to drop so that the mean of the rest is most certain; None when the answer lies at the bound.

    Minimises var(kept) / n_kept over batches of five steps within the first half (MSER-5). With fewer than ten
    batches there is nothing to judge, and nothing is dropped.
    """
    means = np.asarray(step_s[: len(step_s) // BATCH * BATCH]).reshape(-1, BATCH).mean(axis=1)
    if len(means) < 10:
        return 0
    half = len(means) // 2
    errors = [means[first:].var() / (len(means) - first) for first in range(half)]
    best = int(np.argmin(errors))
    return None if best == half - 1 else best * BATCH


def warm_up(
    timed_step: Callable[[], float], quiet: Callable[[], bool], prefetched_batches: int, protocol: Protocol
) -> WarmUp:
    """Steps until the floor is reached and the compiler is quiet, then watches for a steady state, at most twice.

    `timed_step` runs one step and gives its seconds; `quiet` tells whether nothing was compiled lately.
    """
    floor: list[float] = []
    while not (floor_reached(len(floor), sum(floor), prefetched_batches, protocol) and quiet()):
        floor.append(timed_step())
    watched: list[float] = []
    steady = False
    for _ in range(2):
        until = sum(watched) + protocol.settle_s
        while sum(watched) < until:
            watched.append(timed_step())
        dropped = truncation(watched)
        if dropped is not None:
            steady = True
            break
    kept = watched[dropped or 0 :] or floor[len(floor) // 2 :]
    return WarmUp(
        steps=len(floor) + len(watched),
        seconds=sum(floor) + sum(watched),
        step_s=float(np.mean(kept)),
        steady=steady,
    )
