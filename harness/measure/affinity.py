"""Cores: which of them a process may run on."""

import os
import warnings
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from harness.core.mistake import Mistake
from harness.core.recipe import Recipe


def deal_cores(recipe: Recipe) -> frozenset[int]:
    """Keeps this process to its first core if the recipe says so; gives the cores for its workers, empty for any."""
    if not recipe.pinned_cores:
        return frozenset()
    first, *others = sorted(os.sched_getaffinity(0))
    if not others:
        raise Mistake("cpu_pinning needs at least two CPU cores; this process may use one alone.")
    keep_to({first})
    # The loader counts the trainer's cores and finds too few of them for its workers, which run on others.
    warnings.filterwarnings("ignore", message="This DataLoader will create", category=UserWarning)
    return frozenset(others)


def keep_to(cores: Iterable[int]) -> None:
    """Restricts all threads of this process to the cores; threads and processes that they start inherit that."""
    chosen = set(cores)
    for thread in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):  # it ended since the folder was read
            os.sched_setaffinity(int(thread.name), chosen)


def cores_of(pid: int) -> frozenset[int]:
    """The cores that a process may run on; empty when it has ended."""
    try:
        return frozenset(os.sched_getaffinity(pid))
    except ProcessLookupError:
        return frozenset()
