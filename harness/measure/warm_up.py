"""Warm-up: a structural floor, then the truncation that leaves the steadiest remainder (MSER-5, White 1997)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from harness.core.protocol import Protocol
from harness.core.recipe import Recipe
from harness.measure.observed_step import captured
from harness.measure.ranks import agreed_on

# Settling: what must not happen in a window, read from counters, and how long a resumption tells on steps.

VOID = 3  # windows in a row that may be thrown away
AS_USUAL = 0.05  # beyond the range of later steps, by which an early one is told from them

Taken = TypeVar("Taken")


class Unsettled(RuntimeError):
    """An arm without a steady state, or without the settings with which it began: nothing that is timed is its own."""


def graphs_of(recipe: Recipe) -> Callable[[], tuple[int, ...]]:
    """A reading of how many graphs were compiled so far: it stays the same while an arm is settled."""
    return (lambda: tuple(captured().values())) if recipe.compile is not None else tuple


def undisturbed(take: Callable[[], Taken], graphs: Callable[[], tuple[int, ...]]) -> Taken:
    """What `take` gives when nothing was compiled meanwhile; raises Unsettled when something is every time."""
    for _ in range(VOID + 1):
        before, taken, after = graphs(), take(), graphs()
        if not agreed_on(after != before):
            return taken
    raise Unsettled(f"it compiled in {VOID + 1} windows in a row: it has no steady state")


def transient(times: Sequence[float]) -> int | None:
    """How many steps after a resumption differ from those of the second half; None if that still lasts.

    A step is as usual that takes no longer than the slowest of the second half and no less than the fastest, but for
    a twentieth. Samples may differ in cost, so that a mean would not do. A transient that is longer than the first half
    makes the second half look as slow: it still lasts where no step of the first half is like any of the last quarter.
    """
    half = len(times) // 2
    if not half:
        return None
    first, last = times[:half], times[-max(2, half // 2) :]
    if min(first) > (1 + AS_USUAL) * max(last) or max(first) < (1 - AS_USUAL) * min(last):
        return None
    low, high = (1 - AS_USUAL) * min(times[half:]), (1 + AS_USUAL) * max(times[half:])
    unusual = [number for number, seconds in enumerate(times[:half], 1) if not low <= seconds <= high]
    needed = max(unusual, default=0)
    return None if needed == half else needed


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


def end_compilers() -> None:
    """Ends the processes that compiled, which else would take memory and now and then a core beside windows."""
    from torch._inductor.async_compile import shutdown_compile_workers

    shutdown_compile_workers()


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
