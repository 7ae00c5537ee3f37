"""Settling: what must not happen in a burst that counts, read from counters and never from its times."""

from collections.abc import Callable
from typing import TypeVar

import torch

from harness.core.recipe import Recipe
from harness.measure.evidence.compiling import captured

VOID = 3  # bursts in a row that may be thrown away

Taken = TypeVar("Taken")


class Unsettled(RuntimeError):
    """An arm without a steady state: whatever is timed of it is part of its start."""


def events_of(recipe: Recipe, device: torch.device) -> Callable[[], tuple[int, ...]]:
    """A reading of all that has been counted so far: it stays the same while an arm is settled.

    Counted are graphs that were compiled and, on CUDA, the times when the caching allocator asked the driver for more
    memory or had to give some back first. A recipe that empties the cache does so in every step, which is its nature.
    """
    compiled = recipe.compile is not None
    grows = device.type == "cuda" and not recipe.empty_cache

    def events() -> tuple[int, ...]:
        found = tuple(captured().values()) if compiled else ()
        if grows:
            counted = torch.cuda.memory_stats(device)
            found += (counted.get("num_device_alloc", 0), counted.get("num_alloc_retries", 0))
        return found

    return events


def undisturbed(take: Callable[[], Taken], events: Callable[[], tuple[int, ...]]) -> Taken:
    """What `take` gives when nothing was counted meanwhile; raises Unsettled when something is every time."""
    for _ in range(VOID + 1):
        before = events()
        taken = take()
        if events() == before:
            return taken
    raise Unsettled(
        f"it compiled, or took memory from the device, in {VOID + 1} bursts in a row: it has no steady state"
    )
