"""The training step, written by hand: it reads no configuration, its choices are bound before it starts.

`explain` prints one of these functions together with the values bound in it. A choice that is off is absent:
`autocast` is then `nullcontext`, `backward` a plain call.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Batch = tuple[Tensor, Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The values that a step calls, chosen by the recipe once, before anything is timed."""

    fetch: Callable[[], Any]  # the next batch, from the loader or from a cache
    transfer: Callable[[Any], Batch]  # to the device
    model: Callable[[Tensor], Any]
    loss: Callable[[Any, Tensor], Tensor]
    autocast: Callable[[], AbstractContextManager[Any]]
    backward: Callable[[Tensor], None]
    update: Callable[[], None]  # the optimizer's step, then the gradients cleared
    record: Callable[[Tensor], None]  # adds the loss to the running metrics
    micro_batches: int = 1
    whole_step: Callable[[Tensor, Tensor], Tensor] | None = None  # of a batch on the device, replayed as one graph


def plain_step(bound: Bound) -> Callable[[], Tensor]:
    """One batch, one update; the step returns the loss, still on the device."""
    fetch, transfer, model, loss = bound.fetch, bound.transfer, bound.model, bound.loss
    autocast, backward, update, record = bound.autocast, bound.backward, bound.update, bound.record

    def step() -> Tensor:
        inputs, targets = transfer(fetch())
        with autocast():
            value = loss(model(inputs), targets)
        backward(value)
        update()
        record(value)
        return value.detach()

    return step


def accumulating_step(bound: Bound) -> Callable[[], Tensor]:
    """Several micro-batches, one update; each loss is divided so that the gradient is the whole batch's mean."""
    fetch, transfer, model, loss = bound.fetch, bound.transfer, bound.model, bound.loss
    autocast, backward, update, record = bound.autocast, bound.backward, bound.update, bound.record
    micro_batches = bound.micro_batches

    def step() -> Tensor:
        total = torch.zeros(())
        for _ in range(micro_batches):
            inputs, targets = transfer(fetch())
            with autocast():
                value = loss(model(inputs), targets) / micro_batches
            backward(value)
            total = total.to(value.device) + value.detach()
        update()
        record(total)
        return total

    return step


def captured_step(bound: Bound) -> Callable[[], Tensor]:
    """One batch handed to a graph that holds the rest: the host queues one launch where it queued hundreds."""
    fetch, transfer, whole_step, record = bound.fetch, bound.transfer, bound.whole_step, bound.record
    assert whole_step is not None  # noqa: S101  what chooses this shape

    def step() -> Tensor:
        inputs, targets = transfer(fetch())
        value = whole_step(inputs, targets)
        record(value)
        return value

    return step


def shape_of_step(micro_batches: int, *, captured: bool = False) -> Callable[[Bound], Callable[[], Tensor]]:
    """Which of the three shapes a recipe runs."""
    if captured:
        return captured_step
    return plain_step if micro_batches == 1 else accumulating_step
