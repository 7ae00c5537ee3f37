"""The feed: recipe and dataset into batches, through a real DataLoader with real worker processes."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from harness.core.recipe import Recipe
from harness.core.workload import Size
from harness.measure.affinity import deal_cores
from harness.measure.collate import Arrivals, collate_of
from harness.measure.order import Order
from harness.measure.worker_start import worker_start


@dataclass(slots=True)
class Feed:
    """A loader and its iterator, with the worker processes that it started."""

    loader: DataLoader[Any]
    order: Order
    arrivals: Arrivals | None = None  # takes note of batches, where a choice must be proved by that
    worker_pids: list[frozenset[int]] = field(default_factory=list)
    iterator: Any = None
    taken: int = 0  # batches
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
                yield batch

    def fetch(self) -> Any:
        """The next batch; across an epoch's end it starts the next epoch."""
        return next(self.batches)

    @property
    def live_workers(self) -> int:
        """Worker processes that are alive now."""
        workers = getattr(self.iterator, "_workers", ())
        return sum(worker.is_alive() for worker in workers)

    def mean_samples(self, taken: int) -> float:
        """Samples in a batch, of those that came after so many had been taken."""
        return self.order.samples(taken, self.taken) / (self.taken - taken)

    def close(self) -> None:
        """Ends the workers; one that aborts while it ends has given all that it had to give."""
        # Torch raises the abort from its handler of a child's end, which in a finalizer nobody could catch.
        with suppress(RuntimeError):
            getattr(self.iterator, "_shutdown_workers", lambda: None)()
        self.batches = iter(())
        self.iterator = None
        self.loader._iterator = None  # noqa: SLF001  a persistent iterator is held by its loader


def open_feed(dataset: Dataset[Any], size: Size, recipe: Recipe, seed: int, *, endless: bool) -> Feed:
    """The feed of a recipe; a dataset that says it is `collated` hands over finished batches."""
    keywords: dict[str, Any] = {}
    if recipe.workers:
        keywords = {
            "prefetch_factor": recipe.prefetch_factor or 2,
            "persistent_workers": recipe.persistent_workers,
            "multiprocessing_context": recipe.start_method,
        }
    if collate := collate_of(recipe, collated=getattr(dataset, "collated", False)):
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
    return Feed(loader=loader, order=order, arrivals=arrivals)
