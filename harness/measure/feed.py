"""The feed: recipe and dataset into batches, through a real DataLoader with real worker processes."""

import os
import queue
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch
from torch import Tensor, multiprocessing
from torch.utils.data import DataLoader, Dataset, Sampler, default_collate, get_worker_info

from harness.core.mistake import Mistake
from harness.core.recipe import Recipe
from harness.core.workload import Size
from harness.measure.devices import deal_cores, keep_to
from harness.measure.ranks import agreed_on, rank_now

# Collation: samples become a batch, and the batch goes from a worker to the trainer.

Collate = Callable[[Any], Any]


def collate_of(recipe: Recipe, *, collated: bool) -> Collate | None:
    """What a loader makes batches with, None for its own; raises Mistake where finished batches are to be collated."""
    if collated and recipe.collate == "direct":
        raise Mistake(
            "The data set hands over finished batches, so nothing is left to collate; leave out direct_collate."
        )
    direct = collate_directly if recipe.collate == "direct" else None
    chosen = as_it_is if collated else direct
    return Pickling(chosen or default_collate) if recipe.batch_transport == "pickle" else chosen


def as_it_is(batch: Any) -> Any:
    """The batch that the data set has made already."""
    return batch


def collate_directly(samples: Sequence[tuple[Any, ...]]) -> list[Tensor]:
    """A batch of samples that are tuples of tensors and numbers: the same bits as from `default_collate`."""
    return [_column(column) for column in zip(*samples, strict=True)]


def _column(values: tuple[Any, ...]) -> Tensor:
    first = values[0]
    if isinstance(first, Tensor):
        return torch.stack(values, 0, out=_room(first, len(values)))
    if isinstance(first, float):
        return torch.tensor(values, dtype=torch.float64)
    if isinstance(first, int):
        return torch.tensor(values)
    raise TypeError(f"direct_collate joins tensors, integers and floats, not {type(first).__name__}")


def _room(first: Tensor, count: int) -> Tensor | None:
    """Shared memory for the stack in a worker, which saves copying it there afterwards; None in the trainer."""
    if get_worker_info() is None:
        return None
    storage = first.untyped_storage()._new_shared(count * first.nbytes, device=first.device)  # noqa: SLF001
    empty = torch.empty(0, dtype=first.dtype)
    return empty.set_(storage, 0, (count, *first.shape))  # type: ignore[call-overload,no-any-return]


@dataclass(frozen=True, slots=True)
class Pickled:
    """A batch whose bytes travel through the pipe; a tensor would be left in shared memory and only be named there."""

    parts: list[Any]  # arrays as they travel, tensors once they are pinned

    def tensors(self) -> list[Tensor]:
        """The batch as the trainer wants it, without another copy."""
        return [one if isinstance(one, Tensor) else torch.from_numpy(one) for one in self.parts]

    def pin_memory(self) -> "Pickled":
        """The same batch in pinned memory; a loader that pins calls this."""
        return Pickled([one.pin_memory() for one in self.tensors()])


@dataclass(frozen=True, slots=True)
class Pickling:
    """Collates as `inner` does and hands over the values themselves."""

    inner: Collate

    def __call__(self, samples: Any) -> Pickled:
        """One batch, ready for the pipe."""
        return Pickled([one.numpy() for one in self.inner(samples)])


@dataclass(frozen=True, slots=True)
class Counted:
    """Collates as `inner` does and counts the batch for the worker that made it."""

    inner: Collate
    counts: Any  # shared integers, one for each worker

    def __call__(self, samples: Any) -> Any:
        """One batch."""
        batch, worker = self.inner(samples), get_worker_info()
        if worker is not None:
            self.counts[worker.id] += 1
        return batch


@dataclass(slots=True)
class Arrivals:
    """What is noted of every batch that arrives, for choices that nothing else can prove."""

    lengths: list[set[int]] | None = None  # of each part of a batch, where they are of interest
    pickled: int = 0  # batches that came through the pipe whole

    def receive(self, batch: Any) -> Any:
        """The batch as the step wants it."""
        if isinstance(batch, Pickled):
            self.pickled += 1
            batch = batch.tensors()
        if self.lengths is not None:
            self.lengths = self.lengths or [set() for _ in batch]
            for found, part in zip(self.lengths, batch, strict=True):
                found.add(len(part))
        return batch


# The order in which samples are taken: the same batches in every epoch.


class Order(Sampler[list[int]]):
    """Batches of indices in one seeded order, repeated: every window of an epoch's length holds the same samples.

    Where epochs have no boundary, the order can be told where to go on, so that windows of several arms hold the same
    samples whatever steps each of them took before.
    """

    def __init__(
        self,
        samples: int,
        batch: int,
        seed: int | None,
        *,
        endless: bool,
        short_last: bool = False,
        passes: int = 1,
        part: tuple[int, int] = (0, 1),
        parts: int = 1,
    ) -> None:
        """Shuffles `samples` indices once, if there is a seed; `endless` leaves out the boundary between epochs.

        An epoch takes them `passes` times over. The `parts` of a step are so many batches, which change places from
        epoch to epoch: else a worker would load the same ones for ever. Of every batch a rank takes its own `part`: its
        number, and of how many. With `short_last` half of the last batch is missing, as where a set is no multiple of
        the batch; raises Mistake where that would leave nothing, or nothing to be shorter than.
        """
        every = list(range(samples))
        if seed is not None:
            every = torch.randperm(samples, generator=torch.Generator().manual_seed(seed)).tolist()
        every *= passes
        self._batches = [every[first : first + batch] for first in range(0, len(every) - batch + 1, batch)]
        self._endless, self._shuffled = endless, seed is not None
        self._next = 0
        self._rank, self._ranks = part
        self._parts = parts if len(self._batches) % parts == 0 else 1
        if short_last:
            if batch < 2 or len(self._batches) < 2:
                raise Mistake(
                    "A shorter last batch needs two batches or more, of two samples or more; take a larger size."
                )
            self._batches[-1] = self._batches[-1][: batch // 2]

    def __iter__(self) -> Iterator[list[int]]:
        if not self._endless:
            yield from map(self._part, self._batches)
            return
        while True:
            epoch, place = divmod(self._next, len(self._batches))
            step, number = divmod(place, self._parts)
            batch = self._batches[step * self._parts + (number + epoch) % self._parts]
            self._next += 1
            yield self._part(batch)

    def _part(self, batch: list[int]) -> list[int]:
        size = len(batch) // self._ranks
        own = batch[self._rank * size : (self._rank + 1) * size]
        # Index by index, as BatchSampler takes them from RandomSampler or SequentialSampler: the trainer pays for that.
        return [*islice(_one_by_one(own) if self._shuffled else iter(own), size)]

    def go_to(self, number: int) -> None:
        """The next batch that is asked for is this one, counted from the very first; of epochs without end alone."""
        self._next = number

    def __len__(self) -> int:
        return len(self._batches)

    def samples(self, first: int, last: int) -> int:
        """Samples in the batches from number `first` up to but without `last`, counted from the very first batch."""
        return self._up_to(last) - self._up_to(first)

    def _up_to(self, batches: int) -> int:
        epochs, rest = divmod(batches, len(self._batches))
        return epochs * sum(map(len, self._batches)) + sum(map(len, self._batches[:rest]))


def _one_by_one(indices: list[int]) -> Iterator[int]:
    yield from indices


# What a loader worker does first, where the recipe asks for more than PyTorch gives it.

STRATEGIES = ("file_descriptor", "file_system")  # how tensors are shared, numbered for `seen`


@dataclass(frozen=True, slots=True)
class WorkerStart:
    """A `worker_init_fn`: settles the worker, then writes what it finds where the trainer can read it."""

    threads: int
    sharing_strategy: str
    cores: frozenset[int]  # where it may run; empty for wherever the trainer may
    seen: Any  # shared integers, two for each worker: its threads and its sharing strategy

    def __call__(self, worker: int) -> None:
        """Runs in the worker, after PyTorch has set it to one thread and before the data set is used."""
        settle_worker(self)
        self.seen[2 * worker] = torch.get_num_threads()
        self.seen[2 * worker + 1] = STRATEGIES.index(multiprocessing.get_sharing_strategy())


def settle_worker(start: WorkerStart) -> None:
    """Sets cores, threads and the way of sharing; a spawned worker inherits none of them."""
    if start.cores:
        keep_to(start.cores)
    torch.set_num_threads(start.threads)
    if multiprocessing.get_sharing_strategy() != start.sharing_strategy:
        multiprocessing.set_sharing_strategy(start.sharing_strategy)


def worker_start(recipe: Recipe, cores: frozenset[int]) -> WorkerStart | None:
    """The start of the recipe's workers, or None where PyTorch's own does."""
    plain = Recipe()
    usual = (recipe.worker_threads, recipe.sharing_strategy) == (plain.worker_threads, plain.sharing_strategy)
    if not recipe.workers or (usual and not cores):
        return None
    return WorkerStart(
        threads=recipe.worker_threads,
        sharing_strategy=recipe.sharing_strategy,
        cores=cores,
        seen=multiprocessing.get_context(recipe.start_method).RawArray("i", 2 * recipe.workers),
    )


# Pinning where torch does none, because it finds no accelerator: in its place in the loader, by the same shutdown.

Pin = Callable[[Any], Any]
LOOK_S = 1.0  # in which a thread that waits for a batch looks whether it is to end


def pin_behind(iterator: Any, pin: Pin) -> None:
    """Puts a pinning thread between the workers of an iterator and whoever takes its batches, once."""
    if hasattr(iterator, "_pin_memory_thread"):  # workers that persist keep it
        return
    done, ready = threading.Event(), queue.Queue[Any]()
    thread = threading.Thread(
        target=_pinning, args=(iterator._worker_result_queue, ready, done, pin), daemon=True  # noqa: SLF001
    )  # fmt: skip
    iterator._data_queue, iterator._pin_memory_thread_done_event = ready, done  # noqa: SLF001
    iterator._pin_memory_thread = thread  # noqa: SLF001
    thread.start()


def _pinning(made: Any, ready: "queue.Queue[Any]", done: threading.Event, pin: Pin) -> None:
    torch.set_num_threads(1)  # of this thread alone: one core copies
    while not done.is_set():
        try:
            number, batch = made.get(timeout=LOOK_S)
        except queue.Empty:
            continue
        if not done.is_set():
            ready.put((number, pin(batch)))


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
    pin: Pin | None = None  # where torch's own loader does not
    shared: bool = False  # whether workers of other arms are in its process group, which must not wake up
    batches: Iterator[Any] = field(init=False)

    def __post_init__(self) -> None:
        """Starts nothing yet: workers start with the first batch, so that their start is part of the first step."""
        self.batches = self._across_epochs()

    def _across_epochs(self) -> Iterator[Any]:
        while True:
            self.iterator = iter(self.loader)
            if self.loader.num_workers:
                self.worker_pids.append(frozenset(worker.pid for worker in self.iterator._workers))  # noqa: SLF001
            batches = self._pinned() if self.pin else self.iterator
            # An arrival that nobody notes costs nothing: the choice is made once an epoch.
            for batch in map(self.arrivals.receive, batches) if self.arrivals else batches:
                self.taken += 1
                self.taken_from_workers += 1
                yield batch

    def _pinned(self) -> Iterator[Any]:
        """The iterator's batches, pinned by a thread behind workers, and without them by whoever takes them."""
        assert self.pin  # noqa: S101  whoever calls this has looked
        if not self.loader.num_workers:
            return map(self.pin, self.iterator)
        pin_behind(self.iterator, self.pin)
        return iter(self.iterator)

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
        if not self.shared:
            os.killpg(os.getpgrp(), signal.SIGCONT)
            return
        for pid in self._live_pids():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def drain(self) -> None:
        """Takes batches that lie ready until one has to be waited for, or as many as the queue could hold twice."""
        for _ in range(2 * self.in_flight):
            if not agreed_on(self.produced is not None and self.produced > self.taken_from_workers):
                return
            self.fetch()

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


def open_feed(
    dataset: Dataset[Any], size: Size, recipe: Recipe, seed: int, *, endless: bool, pin: Pin | None = None
) -> Feed:
    """The feed of a recipe; a dataset that says it is `collated` hands over finished batches.

    `pin` copies a batch to pinned memory, for a device that torch's loader does not know of.
    """
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
    batch, part = size.batch // recipe.micro_batches, (rank_now(), recipe.ranks)
    order = Order(
        size.samples, batch, None if size.in_order else seed, endless=endless, short_last=recipe.keep_last_batch,
        passes=size.passes, part=part, parts=recipe.micro_batches,
    )  # fmt: skip
    loader: DataLoader[Any] = DataLoader(
        dataset,
        batch_sampler=order,
        num_workers=recipe.workers,
        pin_memory=recipe.pin_memory and pin is None,
        generator=torch.Generator().manual_seed(seed),  # leaves the global generator to the model
        **keywords,
    )
    noted = recipe.keep_last_batch or recipe.batch_transport == "pickle"
    arrivals = Arrivals(lengths=[] if recipe.keep_last_batch else None) if noted else None
    own = pin if recipe.pin_memory else None
    return Feed(loader=loader, order=order, arrivals=arrivals, counts=counts, pin=own)
