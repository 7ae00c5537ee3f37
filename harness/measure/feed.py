"""The feed: recipe and dataset into batches, through a real DataLoader with real worker processes."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import multiprocessing
from torch.utils.data import DataLoader, Dataset, default_collate

from harness.core.recipe import Recipe
from harness.core.workload import Size
from harness.measure.affinity import deal_cores
from harness.measure.collate import Arrivals, Counted, collate_of
from harness.measure.order import Order
from harness.measure.worker_start import worker_start


@dataclass(slots=True)
class Feed:
    """A loader and its iterator, with the worker processes that it started.

    Workers that go on loading while nobody takes batches fill a queue on which the next window would live. So whoever
    stops the clock freezes them in the same moment, and thaws them when steps are taken again.
    """

    loader: DataLoader[Any]
    order: Order
    arrivals: Arrivals | None = None  # takes note of batches, where a choice must be proved by that
    worker_pids: list[frozenset[int]] = field(default_factory=list)
    iterator: Any = None
    taken: int = 0  # batches
    taken_from_workers: int = 0  # the same, which nobody sets to another number
    counts: Any = None  # batches that each worker has finished, written by the workers
    batches: Iterator[Any] = field(init=False)

    def __post_init__(self) -> None:
        """Starts nothing yet: workers start with the first batch, so that their start is part of the first step."""
        self.batches = self._across_epochs()

    def _across_epochs(self) -> Iterator[Any]:
        while True:
            self.iterator = iter(self.loader)
            if self.loader.num_workers:
                self.worker_pids.append(frozenset(worker.pid for worker in self.iterator._workers))  # noqa: SLF001
            # An arrival that nobody notes costs nothing: the choice is made once an epoch.
            for batch in map(self.arrivals.receive, self.iterator) if self.arrivals else self.iterator:
                self.taken += 1
                self.taken_from_workers += 1
                yield batch

    def fetch(self) -> Any:
        """The next batch; across an epoch's end it starts the next epoch."""
        return next(self.batches)

    @property
    def live_workers(self) -> int:
        """Worker processes that are alive now."""
        return len(self._live_pids())

    @property
    def produced(self) -> int | None:
        """Batches that the workers have finished so far; None where there are none to count."""
        return None if self.counts is None else sum(self.counts)

    @property
    def in_flight(self) -> int:
        """Batches that were asked for and not taken yet."""
        sent, received = (getattr(self.iterator, name, 0) for name in ("_send_idx", "_rcvd_idx"))
        return int(sent - received)

    def freeze(self) -> None:
        """Stops the workers where they stand; a sleep or an answer from the network may still end meanwhile."""
        for pid in self._live_pids():
            with suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Lets the workers go on, and whatever else was paused with this process, as the server that forks them."""
        os.killpg(os.getpgrp(), signal.SIGCONT)

    def drain(self) -> None:
        """Takes batches that lie ready until one has to be waited for, or as many as the queue could hold twice."""
        for _ in range(2 * self.in_flight):
            if self.produced is None or self.produced <= self.taken_from_workers:
                return
            self.fetch()

    def mean_samples(self, taken: int) -> float:
        """Samples in a batch, of those that came after so many had been taken."""
        return self.order.samples(taken, self.taken) / (self.taken - taken)

    def close(self) -> None:
        """Ends the workers; one that aborts while it ends has given all that it had to give."""
        self.thaw()
        # Torch raises the abort from its handler of a child's end, which in a finalizer nobody could catch.
        with suppress(RuntimeError):
            getattr(self.iterator, "_shutdown_workers", lambda: None)()
        self.batches = iter(())
        self.iterator = None
        self.loader._iterator = None  # noqa: SLF001  a persistent iterator is held by its loader

    def _live_pids(self) -> list[int]:
        workers = getattr(self.iterator, "_workers", ())
        return [worker.pid for worker in workers if worker.is_alive()]


def open_feed(dataset: Dataset[Any], size: Size, recipe: Recipe, seed: int, *, endless: bool) -> Feed:
    """The feed of a recipe; a dataset that says it is `collated` hands over finished batches."""
    keywords: dict[str, Any] = {}
    if recipe.workers:
        keywords = {
            "prefetch_factor": recipe.prefetch_factor or 2,
            "persistent_workers": recipe.persistent_workers,
            "multiprocessing_context": recipe.start_method,
        }
    collate = collate_of(recipe, collated=getattr(dataset, "collated", False))
    counts = None
    if recipe.workers:
        counts = multiprocessing.get_context(recipe.start_method).RawArray("q", recipe.workers)
        collate = Counted(collate or default_collate, counts)
    if collate:
        keywords["collate_fn"] = collate
    if start := worker_start(recipe, deal_cores(recipe)):
        keywords["worker_init_fn"] = start
    samples, batch = size.batch * size.epoch_steps, size.batch // recipe.micro_batches
    order = Order(samples, batch, seed, endless=endless, short_last=recipe.keep_last_batch)
    loader: DataLoader[Any] = DataLoader(
        dataset,
        batch_sampler=order,
        num_workers=recipe.workers,
        pin_memory=recipe.pin_memory,
        generator=torch.Generator().manual_seed(seed),  # leaves the global generator to the model
        **keywords,
    )
    noted = recipe.keep_last_batch or recipe.batch_transport == "pickle"
    arrivals = Arrivals(lengths=[] if recipe.keep_last_batch else None) if noted else None
    return Feed(loader=loader, order=order, arrivals=arrivals, counts=counts)
