"""The feed: recipe and dataset into batches, through a real DataLoader with real worker processes."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from harness.core.recipe import Recipe
from harness.core.workload import Size


class Order(Sampler[list[int]]):
    """Batches of indices in one seeded order, repeated: every window of an epoch's length holds the same samples.

    With equal samples in every burst, two arms are compared on the same work whatever step each of them has reached.
    """

    def __init__(self, samples: int, batch: int, seed: int, *, endless: bool) -> None:
        """Shuffles `samples` indices once; `endless` leaves out the boundary between epochs."""
        shuffle = torch.randperm(samples, generator=torch.Generator().manual_seed(seed)).tolist()
        self._batches = [shuffle[first : first + batch] for first in range(0, samples - batch + 1, batch)]
        self._endless = endless

    def __iter__(self) -> Iterator[list[int]]:
        """The batches of one epoch, or of epochs without end."""
        for _ in count() if self._endless else range(1):
            yield from self._batches

    def __len__(self) -> int:
        """Batches in one epoch."""
        return len(self._batches)


@dataclass(slots=True)
class Feed:
    """A loader and its iterator, with the worker processes that it started."""

    loader: DataLoader[Any]
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
            for batch in self.iterator:
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

    def close(self) -> None:
        """Ends the workers."""
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
    if getattr(dataset, "collated", False):
        keywords["collate_fn"] = _as_it_is
    order = Order(size.batch * size.epoch_steps, size.batch // recipe.micro_batches, seed, endless=endless)
    return Feed(
        DataLoader(
            dataset,
            batch_sampler=order,
            num_workers=recipe.workers,
            pin_memory=recipe.pin_memory,
            generator=torch.Generator().manual_seed(seed),  # leaves the global generator to the model
            **keywords,
        )
    )


def _as_it_is(batch: Any) -> Any:
    return batch
