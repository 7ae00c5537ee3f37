"""Collation: samples become a batch, and the batch goes from a worker to the trainer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import default_collate, get_worker_info

from harness.core.mistake import Mistake
from harness.core.recipe import Recipe

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
        return Pickled([_array(one) for one in self.inner(samples)])


def _array(one: Tensor) -> "np.ndarray[Any, Any]":
    return one.numpy()


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
