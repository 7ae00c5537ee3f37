"""Habits: what a training script does in every step beside training, because the recipe says so."""

import gc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import psutil
import torch
from torch import Tensor

from harness.core.recipe import Recipe
from harness.measure.devices import Device

# Monitoring: memory and utilisation as a training script reads them for its log.


def gauge_for(device: Device) -> Callable[[], int]:
    """A gauge whose handles are opened once, as they should be: by psutil, and where a driver answers by that too.

    What a script would log is read and thrown away, but for the resident bytes of this process, which are given.
    """
    process = psutil.Process()
    process.cpu_percent()  # the first answer is always 0
    driver = device.driver()

    def read() -> int:
        driver.ask("nvmlDeviceGetUtilizationRates")
        driver.ask("nvmlDeviceGetMemoryInfo")
        process.cpu_percent()
        return int(process.memory_info().rss)

    return read


FIRST_CAPACITY = 1024  # losses that a preallocated history holds before it doubles


class Diverged(RuntimeError):
    """The loss is no longer a finite number."""


class Habit(Protocol):
    """Something that is done at the end of every step, with the step's loss at hand."""

    def record(self, value: Tensor) -> None:
        """Does it."""


@dataclass(slots=True)
class Monitor:
    """Reads memory and utilisation in the first of every so many steps, as scripts do for their logs."""

    every: int
    gauge: Callable[[], int]
    steps: int = 0
    readings: int = 0
    latest: int = 0  # what it gave last

    def record(self, _value: Tensor) -> None:
        """Counts the step, and takes a reading if it is due."""
        if self.steps % self.every == 0:
            self.latest = self.gauge()
            self.readings += 1
        self.steps += 1


@dataclass(slots=True)
class GrowingHistory:
    """All losses so far in a tensor that is built anew in every step."""

    losses: Tensor

    def record(self, value: Tensor) -> None:
        """Copies what was there and the new loss into a tensor that is longer by one."""
        self.losses = torch.cat([self.losses, value.detach()[None]])


@dataclass(slots=True)
class PreallocatedHistory:
    """All losses so far in the first `count` places of a tensor that was allocated ahead; a full one doubles."""

    losses: Tensor
    count: int = 0

    def record(self, value: Tensor) -> None:
        """Writes the new loss into the next place."""
        if self.count == len(self.losses):
            self.losses = torch.cat([self.losses, torch.zeros_like(self.losses)])
        self.losses[self.count] = value.detach()
        self.count += 1


@dataclass(slots=True)
class Call:
    """A call that needs nothing of the step and leaves nothing behind."""

    call: Callable[[], object]

    def record(self, _value: Tensor) -> None:
        """Makes the call."""
        self.call()


def habits_of(recipe: Recipe, device: Device) -> tuple[Habit, ...]:
    """The habits that the recipe asks for, each bound once, in the order in which a step has them."""
    return tuple(_habits(recipe, device))


def _habits(recipe: Recipe, device: Device) -> Iterator[Habit]:
    if recipe.loss_history == "growing":
        yield GrowingHistory(torch.zeros(0, device=device.torch))
    if recipe.loss_history == "preallocated":
        yield PreallocatedHistory(torch.zeros(FIRST_CAPACITY, device=device.torch))
    if recipe.monitoring_steps is not None:
        yield Monitor(recipe.monitoring_steps, gauge_for(device))
    if recipe.garbage_collector == "every_step":
        yield Call(gc.collect)
    if recipe.empty_cache:
        yield Call(device.empty_cache)


def recording(metrics: Habit, habits: Iterable[Habit]) -> Callable[[Tensor], None]:
    """What becomes of each step's loss: the metrics alone, or the metrics and then the habits in turn."""
    records = tuple(one.record for one in (metrics, *habits))
    if len(records) == 1:
        return records[0]

    def record_and_habits(value: Tensor) -> None:
        for record in records:
            record(value)

    return record_and_habits


def examined(backward: Callable[[Tensor], None], recipe: Recipe) -> Callable[[Tensor], None]:
    """Tests the loss for NaN before the backward pass, if the recipe wants that; else the pass as it is.

    The loss is read back where scripts do so, and a GPU must finish the forward pass before the host queues more.
    """
    if not recipe.finite_check:
        return backward

    def backward_of_number(value: Tensor) -> None:
        if torch.isnan(value):
            raise Diverged("the loss is no longer a number")
        backward(value)

    return backward_of_number
