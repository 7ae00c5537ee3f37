"""The way of a batch to the device, in the memory format that the recipe asks for."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any, ParamSpec, TypeVar, cast

import torch
from torch import Tensor

from harness.core.recipe import Recipe
from harness.measure.devices import Device
from harness.measure.phases import Phases
from harness.measure.step import Batch, Bound


def transfer_to(device: Device, recipe: Recipe, on_host: Collection[int] = ()) -> Callable[[Any], tuple[Tensor, ...]]:
    """Moves the tensors of a batch to the device, images and volumes in the memory format of the recipe.

    Tensors whose numbers are in `on_host` stay where they are: asking for them on a device would hold up the host.
    """
    formats = {4: torch.channels_last} if recipe.channels_last else {}
    if recipe.channels_last_3d:
        formats[5] = torch.channels_last_3d
    move = device.mover(non_blocking=recipe.non_blocking)

    def transfer(batch: Any) -> tuple[Tensor, ...]:
        return tuple([move(one) for one in batch])

    def transfer_channels_last(batch: Any) -> tuple[Tensor, ...]:
        inputs, *others = batch
        keyword = {"memory_format": formats[inputs.dim()]} if inputs.dim() in formats else {}
        return move(inputs, **keyword), *[move(one) for one in others]

    chosen = transfer_channels_last if formats else transfer
    return _leaving(chosen, on_host) if on_host else chosen


def _leaving(
    transfer: Callable[[Any], tuple[Tensor, ...]], on_host: Collection[int]
) -> Callable[[Any], tuple[Tensor, ...]]:
    def transfer_others(batch: Any) -> tuple[Tensor, ...]:
        moved = iter(transfer([one for at, one in enumerate(batch) if at not in on_host]))
        return tuple([one if at in on_host else next(moved) for at, one in enumerate(batch)])

    return transfer_others


def arriving(
    transfer: Callable[[Any], tuple[Tensor, ...]], device_stage: Callable[[Any], Batch] | None
) -> Callable[[Any], Batch]:
    """The transfer, then whatever the workload does with a batch on the device."""
    if device_stage is None:
        return cast("Callable[[Any], Batch]", transfer)

    def arrived(batch: Any) -> Batch:
        return device_stage(transfer(batch))

    return arrived


# Batches sent ahead: the next one travels to the device on a stream of its own while the step runs.

Given = ParamSpec("Given")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Parcel:
    """A batch under way, the event behind its last copy, and the stream that carries it."""

    tensors: tuple[Tensor, ...]
    copied: Any
    stream: Any


@dataclass(slots=True)
class SideStream:
    """A side stream. `move` must not block, and its batches must be pinned: else the host waits for each copy."""

    move: Callable[[Any], tuple[Tensor, ...]]
    device: Device
    phases: Phases
    stream: Any = field(init=False)

    def __post_init__(self) -> None:
        """Makes the stream; copies are timed where they run, by events on it."""
        self.stream = self.device.stream()
        self.move = self.phases.copying_ahead(self.move)

    def carry(self, batch: Any) -> Parcel:
        """Queues the copies on the side stream."""
        with self.device.on(self.stream):
            tensors, copied, stream = self.move(batch), self.device.event(timing=False), self.device.current_stream()
            copied.record(stream)
        return Parcel(tensors, copied, stream)

    def deliver(self, parcel: Parcel) -> tuple[Tensor, ...]:
        """The main stream waits for the copies and is noted as a user of their memory, which the side stream owns."""
        main = self.device.current_stream()
        main.wait_event(parcel.copied)
        for tensor in parcel.tensors:
            self.device.lend(tensor, main)
        self.phases.beginning()
        return parcel.tensors

    def is_apart(self, parcel: Parcel) -> bool:
        """Whether the copies were queued elsewhere than on the stream that is current now."""
        return bool(parcel.stream != self.device.current_stream())


@dataclass(slots=True)
class Ahead:
    """Keeps one batch under way between the loader and the step."""

    road: SideStream
    source: Callable[[], Any]  # the next batch on the host
    pending: Parcel | None = None

    def take(self) -> tuple[Tensor, ...]:
        """The batch that is under way, or the next one where none is."""
        parcel, self.pending = self.pending or self.road.carry(self.source()), None
        return self.road.deliver(parcel)

    def send(self) -> None:
        """Fetches the next batch and sends it off, unless one is under way already."""
        if self.pending is None:
            self.pending = self.road.carry(self.source())

    def bound(self, bound: Bound, device_stage: Callable[[Any], Batch] | None) -> Bound:
        """The step's values with batches from here.

        The next batch is sent when the backward pass has been queued: the device is busy then, and the host has not
        begun to wait for the loss.
        """
        whole = bound.whole_step
        return replace(
            bound,
            fetch=self.take,
            transfer=arriving(unchanged, device_stage),
            backward=self._then_send(bound.backward),
            whole_step=self._then_send(whole) if whole else None,  # a graph holds the backward pass
        )

    def _then_send(self, queue: Callable[Given, Result]) -> Callable[Given, Result]:
        def queue_and_send(*given: Given.args, **named: Given.kwargs) -> Result:
            result = queue(*given, **named)
            self.send()
            return result

        return queue_and_send


def unchanged(given: Any) -> Any:
    """What it is given: stands where a batch has arrived already, or where no model runs."""
    return given
