"""Work shared out over processes on the usable cores, with a report of how much of it is done."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from multiprocessing import get_context, get_start_method
from pathlib import Path
from typing import Any, TypeVar

Item = TypeVar("Item")


def _handled(work: Callable[[Any], object], items: Sequence[Any]) -> int:
    """The number of items, once `work` was called on each."""
    for item in items:
        work(item)
    return len(items)


def usable_cores() -> int:
    """Cores that this process may really use: affinity, and the quota of its control group, rounded down."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cgroup_cpu_quota()
    return max(1, min(cores, int(quota))) if quota else cores


def cgroup_cpu_quota() -> float | None:
    """Cores that the control group allows, or None where it sets no limit."""
    path = Path("/sys/fs/cgroup/cpu.max")
    if not path.is_file():
        return None
    quota, _, period = path.read_text().partition(" ")
    return None if quota == "max" else int(quota) / int(period)


def spread(work: Callable[[Item], object], items: Sequence[Item], chunk: int = 1) -> Iterator[float]:
    """Calls `work` on every item in as many processes as there are cores; yields the share that is done.

    Both must survive pickling. What an item becomes must not depend on which process handles it. The first error ends
    all and is raised here.
    """
    context = get_context(get_start_method(allow_none=True) or "spawn")  # as this process has chosen
    processes = min(usable_cores(), 32)
    chunks = [items[at : at + chunk] for at in range(0, len(items), chunk)]
    done = 0
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        futures: list[Future[int]] = [pool.submit(_handled, work, one) for one in chunks]
        try:
            for future in as_completed(futures):
                done += future.result()
                yield done / len(items)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
