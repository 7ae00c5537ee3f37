"""A training loop as anybody would write it, over the same data set and model: no harness, no pause, one clock."""

import sys
import warnings
from collections.abc import Iterator
from importlib import import_module
from itertools import islice
from math import lcm
from time import perf_counter
from typing import Any

import torch
from torch.utils.data import DataLoader


def loop(
    variant: str, workers: int = 0, prefetch: int = 2, passes: int = 1, seconds: float = 1.0, *, epochs: bool = False,
    persistent: bool = False, pinned: bool = False, threads: int = 1, start: str = "fork",
) -> dict[str, Any]:  # fmt: skip
    """Seconds for a sample over at least so many seconds and whole epochs.

    With `epochs` every epoch starts the loader anew, as a training does; else one iterator goes on for ever.
    """
    from tests.oracles import known_times

    warnings.filterwarnings("ignore", message="This DataLoader will create", category=UserWarning)
    torch.set_num_threads(threads)
    if start != "fork":
        sys.modules["__main__"] = import_module("harness.run.worker")  # which spawned workers of arms import first
    torch.manual_seed(0)
    stages = known_times.TOLD.variants[variant]
    if pinned:
        _keep_to(0)
    dataset, model = known_times.Batches(stages, variant), known_times.Slow(stages)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, foreach=False)
    loss = torch.nn.MSELoss()
    keywords: dict[str, Any] = {}
    if workers:
        keywords = {
            "prefetch_factor": prefetch, "persistent_workers": persistent, "multiprocessing_context": start,
        }  # fmt: skip
    if pinned and workers:
        keywords["worker_init_fn"] = _second_core
    loader: DataLoader[Any] = DataLoader(
        dataset,
        batch_sampler=Order(dataset.rank, stages.batch // passes, endless=not epochs),
        num_workers=workers,
        collate_fn=_as_it_is,
        **keywords,
    )
    total = 0.0
    batches = _for_ever(loader) if epochs else iter(loader)

    def step() -> None:
        nonlocal total
        for _ in range(passes):
            inputs, targets = next(batches)
            value = loss(model(inputs), targets)
            value.backward()
            total += float(value.detach())
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)

    for _ in range(-(-max(4, 2 * workers * prefetch) // stages.epoch_steps) * stages.epoch_steps):
        step()
    # A worker comes to load all batches within so many epochs.
    whole = stages.epoch_steps if epochs else lcm(stages.epoch_steps, max(1, workers))
    count, began = 0, perf_counter()
    while perf_counter() - began < seconds:
        for _ in range(whole):
            step()
        count += whole
    return {"seconds_per_sample": (perf_counter() - began) / (count * stages.batch), "batches": count}


class Order:
    """Batches of indices in the order in which the data set ranks them."""

    def __init__(self, rank: dict[int, int], batch: int, *, endless: bool) -> None:
        self.indices, self.batch, self.endless = sorted(rank, key=rank.__getitem__), batch, endless

    def __iter__(self) -> Iterator[list[int]]:
        while True:
            indices = iter(self.indices)
            while batch := list(islice(indices, self.batch)):
                yield batch
            if not self.endless:
                return


def _for_ever(loader: "DataLoader[Any]") -> Iterator[Any]:
    while True:
        yield from loader


def _as_it_is(batch: Any) -> Any:
    return batch


def _keep_to(core: int) -> None:
    import os

    os.sched_setaffinity(0, {core})


def _second_core(_worker: int) -> None:
    import os

    os.sched_setaffinity(0, {1})
