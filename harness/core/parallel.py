"""Work shared out over processes, with a report of how much of it is done."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from typing import TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Items that one process handles in one go."""

    work: Callable[[object], object]
    items: tuple[object, ...]

    def __call__(self) -> int:
        """Handles all; gives their number."""
        for item in self.items:
            self.work(item)
        return len(self.items)


def spread(work: Callable[[Item], object], items: Sequence[Item], chunk: int = 1) -> Iterator[float]:
    """Calls `work` on every item in as many processes as there are cores; yields the share that is done.

    Both must survive pickling. What an item becomes must not depend on which process handles it. The first error ends
    all and is raised here.
    """
    processes = min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, 32)
    chunks = [Chunk(work, tuple(items[at : at + chunk])) for at in range(0, len(items), chunk)]  # type: ignore[arg-type]
    done = 0
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        futures: list[Future[int]] = [pool.submit(one) for one in chunks]
        try:
            for future in as_completed(futures):
                done += future.result()
                yield done / len(items)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
