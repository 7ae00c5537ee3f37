"""The first batches of a loader, kept for the other arms of a process whose loaders give the same."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_map


@dataclass(frozen=True, slots=True)
class Randomness:
    """The state of all random numbers that a process draws from."""

    of_python: Any
    of_numpy: Any
    of_torch: torch.Tensor
    of_device: torch.Tensor | None

    @classmethod
    def now(cls, device: torch.device) -> "Randomness":
        """As it is at this moment."""
        on_device = torch.cuda.get_rng_state(device) if device.type == "cuda" else None
        return cls(random.getstate(), np.random.get_state(), torch.get_rng_state(), on_device)  # noqa: NPY002

    def restore(self, device: torch.device) -> None:
        """As it was then."""
        random.setstate(self.of_python)
        np.random.set_state(self.of_numpy)  # noqa: NPY002  what a data set of a user may draw from
        torch.set_rng_state(self.of_torch)
        if self.of_device is not None:
            torch.cuda.set_rng_state(self.of_device, device)


@dataclass(slots=True)
class FirstBatches:
    """Batches in order, each with the random numbers as loading it had left them."""

    _kept: list[tuple[Any, Randomness]] = field(default_factory=list)

    def fetch(self, number: int, load: Callable[[], Any], device: torch.device) -> Any:
        """A copy of batch `number`, which is loaded if nobody has come so far."""
        if number == len(self._kept):
            batch = load()
            self._kept.append((_copied(batch), Randomness.now(device)))
            return batch
        batch, after = self._kept[number]
        after.restore(device)
        return _copied(batch)


def _copied(batch: Any) -> Any:
    """The same values in memory of their own, pinned where they were: a step may write into its batch."""
    return tree_map(lambda one: _copy_of(one) if isinstance(one, torch.Tensor) else one, batch)


def _copy_of(tensor: torch.Tensor) -> torch.Tensor:
    copy = tensor.clone()  # which is not pinned
    return copy.pin_memory() if tensor.is_pinned() else copy
