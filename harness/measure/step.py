"""The training step, written by hand: it reads no configuration, its choices are bound before it starts.

`explain` prints one of these functions together with the values bound in it. A choice that is off is absent:
`autocast` is then `nullcontext`, `backward` a plain call.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from harness.core.recipe import Recipe
from harness.measure.devices import Device

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
    synchronize: Callable[[bool], None] | None = None  # says before a pass whether ranks reduce its gradients
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
            total = total + value.detach()  # a zero of the host is no copy: it goes along with the kernel
        update()
        record(total)
        return total

    return step


def accumulating_step_without_sync(bound: Bound) -> Callable[[], Tensor]:
    """The same among several ranks, whose gradients are reduced in the last pass alone."""
    fetch, transfer, model, loss = bound.fetch, bound.transfer, bound.model, bound.loss
    autocast, backward, update, record = bound.autocast, bound.backward, bound.update, bound.record
    micro_batches, synchronize = bound.micro_batches, bound.synchronize
    assert synchronize is not None  # noqa: S101  what chooses this shape

    def step() -> Tensor:
        total = torch.zeros(())
        for number in range(micro_batches):
            inputs, targets = transfer(fetch())
            synchronize(number + 1 == micro_batches)
            with autocast():
                value = loss(model(inputs), targets) / micro_batches
            backward(value)
            total = total + value.detach()
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


def shape_of_step(
    micro_batches: int, *, captured: bool = False, synchronizes: bool = False
) -> Callable[[Bound], Callable[[], Tensor]]:
    """Which of the four shapes a recipe runs."""
    if captured:
        return captured_step
    if synchronizes:
        return accumulating_step_without_sync
    return plain_step if micro_batches == 1 else accumulating_step


# The captured step: everything between two batches as one graph, replayed on memory that stays where it is.

# Before the capture: libraries and optimizers set themselves up in the first step, which no graph may hold. Not more,
# so that already the third loss, which every protocol compares, is that of a replay.
EAGER_STEPS = 2


@dataclass(slots=True)
class StepGraph:
    """Forward pass, loss, backward pass and update; called with a batch on the device, it gives the loss.

    The first steps run as written, on the stream that is captured later, and train like all others. The loss lies in
    memory of the graph: the next step overwrites it.
    """

    train: Callable[[Tensor, Tensor], Tensor]
    device: Device
    replays: int = 0
    run: Callable[[Tensor, Tensor], Tensor] = field(init=False)  # what a step does now: eager, capture or replay
    stream: Any = field(init=False)
    graph: Any = field(init=False)
    _eager_steps: int = 0
    _batch: tuple[Tensor, Tensor] = field(init=False)
    _value: Tensor = field(init=False)

    def __post_init__(self) -> None:
        """Nothing is captured before the first steps are done."""
        self.run, self.stream, self.graph = self._eager, self.device.stream(), self.device.graph()

    def __call__(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """One step on a batch."""
        return self.run(inputs, targets)

    @contextmanager
    def queued(self) -> Iterator[None]:
        """Calls within the block are queued on its stream: libraries keep memory for each stream that they meet."""
        current = self.device.current_stream()
        self.stream.wait_stream(current)
        with self.device.on(self.stream):
            yield
        current.wait_stream(self.stream)

    def _eager(self, inputs: Tensor, targets: Tensor) -> Tensor:
        with self.queued():
            value = self.train(inputs, targets).detach()
        self._eager_steps += 1
        if self._eager_steps == EAGER_STEPS:
            self.run = self._capture
        return value

    def _capture(self, inputs: Tensor, targets: Tensor) -> Tensor:
        self._batch = (inputs.clone(), targets.clone())
        with self.device.capture(self.graph, self.stream):
            self._value = self.train(*self._batch).detach()
        self.run = self._replay
        return self._replay(inputs, targets)

    def _replay(self, inputs: Tensor, targets: Tensor) -> Tensor:
        into_inputs, into_targets = self._batch
        into_inputs.copy_(inputs)
        into_targets.copy_(targets)
        self.graph.replay()
        self.replays += 1
        return self._value


def trained_by(bound: Bound, update: Callable[[], None]) -> Callable[[Tensor, Tensor], Tensor]:
    """The part of a step that can be captured; `update` without the event that `bound` may have behind it."""
    model, loss, autocast, backward = bound.model, bound.loss, bound.autocast, bound.backward

    def train(inputs: Tensor, targets: Tensor) -> Tensor:
        with autocast():
            value = loss(model(inputs), targets)
        backward(value)
        update()
        return value

    return train


# Marks: named ranges around the parts of a step, for a profiler that draws a timeline.

Push = Callable[[str], Any]
Pop = Callable[[], Any]

PARTS = ("fetch", "transfer", "forward", "loss", "backward", "update")  # as they stand on the timeline


def marking(recipe: Recipe, device: Device) -> Callable[[Bound], Bound]:
    """What the recipe does to the values of a step before it is bound: named ranges around them, or nothing."""
    if not recipe.nvtx:
        return unmarked
    return lambda bound: marked(bound, device.push, device.pop)


def unmarked(bound: Bound) -> Bound:
    """The values as they are."""
    return bound


def marked(bound: Bound, push: Push, pop: Pop) -> Bound:
    """The same values, each in a range of its own: the step stays as it is written."""
    return replace(
        bound,
        fetch=_in_range("fetch", bound.fetch, push, pop),
        transfer=_in_range("transfer", bound.transfer, push, pop),
        model=_in_range("forward", bound.model, push, pop),
        loss=_in_range("loss", bound.loss, push, pop),
        backward=_in_range("backward", bound.backward, push, pop),
        update=_in_range("update", bound.update, push, pop),
    )


def _in_range(name: str, call: Callable[..., Any], push: Push, pop: Pop) -> Callable[..., Any]:
    def in_range(*given: Any) -> Any:
        push(name)
        try:
            return call(*given)
        finally:
            pop()

    return in_range
