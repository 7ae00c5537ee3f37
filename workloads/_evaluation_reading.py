"""What evaluations share: parts that are read in order, by the trainer or by loader workers, and sent to a device."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from harness.core.recipe import Recipe, Value

# Where this process may run as it begins, before a recipe keeps its trainer to one core.
CORES: frozenset[int] = frozenset(getattr(os, "sched_getaffinity", lambda _process: ())(0))

# Loaders whose workers stay, by the model that is evaluated: they end with it.
_kept: WeakKeyDictionary[nn.Module, tuple[Recipe, DataLoader[Any]]] = WeakKeyDictionary()


class Numbered(Dataset[Any]):
    """Parts of an evaluation by number, for a loader that leaves them as they are."""

    def __init__(self, read: Callable[[int], Any], count: int) -> None:
        self.read, self.count = read, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> Any:
        """One part, such as a batch or all crops of an utterance."""
        return self.read(number)


@dataclass(slots=True, kw_only=True)
class Reading:
    """How the parts of an evaluation are read and sent as a recipe says, and what was seen of it in the last pass."""

    model: nn.Module
    recipe: Recipe
    device: torch.device
    workers: int | None = None  # of its loader, where the recipe's own number does not decide
    pins: bool = False  # besides what the recipe says of evaluations
    batches_read_once: bool = False  # whether batches are read back once, whatever the recipe says of results
    seen: dict[str, Value] = field(
        default_factory=lambda: {"evaluation_workers": 0, "evaluation_persistent_workers": False}
    )

    @property
    def effective(self) -> Mapping[str, Value]:
        """The workers that were alive, whether they still were when all parts had been read, and how batches went."""
        once = self.batches_read_once and self.recipe.batched_evaluation
        return {**self.seen, "batched_results": "read once"} if once else dict(self.seen)

    def parts(self, read: Callable[[int], Any], count: int) -> Iterator[Any]:
        """Parts 0 to `count` - 1 in order; `read` has to be picklable where workers are spawned."""
        if not self._count and not self._pins:
            return map(read, range(count))
        return self.through(Numbered(read, count), None)

    def through(self, items: Dataset[Any], batch: int | None) -> Iterator[Any]:
        """What a loader gives of these items, in order."""
        iterator = iter(self._loader(items, batch))
        workers = list(getattr(iterator, "_workers", ()))
        self.seen["evaluation_workers"] = sum(one.is_alive() for one in workers)
        yield from iterator
        self.seen["evaluation_persistent_workers"] = bool(workers) and all(one.is_alive() for one in workers)

    def moved(self, tensor: Tensor) -> Tensor:
        """The tensor on the device."""
        return tensor.to(self.device, non_blocking=self.recipe.evaluation_non_blocking)

    def mode(self) -> AbstractContextManager[object]:
        """Gradients off, and autocast where the recipe wants it in evaluations."""
        entered = ExitStack()
        entered.enter_context(torch.inference_mode() if self.recipe.inference_mode else torch.no_grad())
        if kind := self.recipe.evaluation_autocast:
            entered.enter_context(torch.autocast(self.device.type, dtype=getattr(torch, kind)))
        return entered

    @property
    def _count(self) -> int:
        return self.recipe.evaluation_workers or self.workers or 0

    @property
    def _pins(self) -> bool:
        return self.recipe.evaluation_pin_memory or self.pins

    def _loader(self, items: Dataset[Any], batch: int | None) -> DataLoader[Any]:
        recipe, stays = self.recipe, self.recipe.evaluation_persistent_workers
        known = _kept.get(self.model) if stays else None
        if known is not None and known[0] == recipe:
            return known[1]
        further: dict[str, Any] = {"generator": torch.Generator()}  # not a seed from the training's numbers
        if self._count:
            further |= {"multiprocessing_context": recipe.start_method, "persistent_workers": stays}
        if self._count and recipe.pinned_cores:
            further["worker_init_fn"] = partial(_keep_to, CORES - os.sched_getaffinity(0) or CORES)
        loader: DataLoader[Any] = DataLoader(
            items, batch, num_workers=self._count, pin_memory=self._pins, **further
        )  # fmt: skip
        if stays:
            _kept[self.model] = recipe, loader
        return loader


def _keep_to(cores: frozenset[int], _worker: int) -> None:
    """Keeps a loader worker to these cores, before it starts threads."""
    os.sched_setaffinity(0, cores)
