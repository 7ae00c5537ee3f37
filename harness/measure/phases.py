"""Phases of a step, read without synchronising: host time for waiting, events for what the device does."""

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any, ParamSpec, TypeVar

import torch

Given = ParamSpec("Given")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Seconds of one burst: waiting for batches, copying them, and the device's own time where steps bound it."""

    wait_s: float
    copy_s: float
    device_s: float | None


@dataclass(slots=True)
class CpuPhases:
    """On a CPU every call is finished when it returns, so host clocks tell all."""

    wait_ns: int = 0
    copy_ns: int = 0

    def waiting(self, fetch: Callable[[], Result]) -> Callable[[], Result]:
        """The fetch, its time counted as waiting."""
        return _waiting(self, fetch)

    def copying(self, transfer: Callable[[Any], Result]) -> Callable[[Any], Result]:
        """The transfer, its time counted as copying."""

        def copied(batch: Any) -> Result:
            began = perf_counter_ns()
            result = transfer(batch)
            self.copy_ns += perf_counter_ns() - began
            return result

        return copied

    copying_ahead = copying

    def beginning(self) -> None:
        """A step begins on batches sent ahead: nothing is left to be told."""

    def finishing(self, update: Callable[Given, Result]) -> Callable[Given, Result]:
        """The update as it is: nothing on the device outlives it."""
        return update

    def split(self) -> Split:
        """What was counted since the last reading."""
        split = Split(wait_s=self.wait_ns / 1e9, copy_s=self.copy_ns / 1e9, device_s=None)
        self.wait_ns = self.copy_ns = 0
        return split


@dataclass(slots=True)
class CudaPhases:
    """On CUDA the copy and the span of each step's kernels are bounded by events, read when the burst is over."""

    wait_ns: int = 0
    copies: list[tuple[torch.cuda.Event, torch.cuda.Event]] = field(default_factory=list)
    begins: list[torch.cuda.Event] = field(default_factory=list)  # behind them the device works on a batch
    updates: list[torch.cuda.Event] = field(default_factory=list)

    def waiting(self, fetch: Callable[[], Result]) -> Callable[[], Result]:
        """The fetch, its time on the host counted as waiting."""
        return _waiting(self, fetch)

    def copying(self, transfer: Callable[[Any], Result]) -> Callable[[Any], Result]:
        """The transfer between two events."""

        def copied(batch: Any) -> Result:
            before, after = _event(), _event()
            before.record()
            result = transfer(batch)
            after.record()
            self.copies.append((before, after))
            self.begins.append(after)
            return result

        return copied

    def copying_ahead(self, transfer: Callable[[Any], Result]) -> Callable[[Any], Result]:
        """The transfer between two events of the stream that is current then; no step begins behind them."""

        def copied(batch: Any) -> Result:
            before, after = _event(), _event()
            before.record()
            result = transfer(batch)
            after.record()
            self.copies.append((before, after))
            return result

        return copied

    def beginning(self) -> None:
        """A step begins on a batch that was sent ahead."""
        event = _event()
        event.record()
        self.begins.append(event)

    def finishing(self, update: Callable[Given, Result]) -> Callable[Given, Result]:
        """The update, or whatever ends a step, with an event behind it, which ends the step's span on the device."""

        def finished(*given: Given.args, **named: Given.kwargs) -> Result:
            result = update(*given, **named)
            event = _event()
            event.record()
            self.updates.append(event)
            return result

        return finished

    def split(self) -> Split:
        """What was counted since the last reading; the device must have been synchronised."""
        copy_ms = sum(before.elapsed_time(after) for before, after in self.copies)
        # With micro-batches a step has several copies: its span begins behind the first that follows an update.
        begins_per_update = max(1, len(self.begins) // max(1, len(self.updates)))
        firsts = self.begins[::begins_per_update]
        device_ms = sum(first.elapsed_time(last) for first, last in zip(firsts, self.updates, strict=False))
        device_s = device_ms / 1e3 if self.updates and self.begins else None  # an evaluation has no steps
        split = Split(wait_s=self.wait_ns / 1e9, copy_s=copy_ms / 1e3, device_s=device_s)
        self.wait_ns = 0
        self.copies.clear()
        self.begins.clear()
        self.updates.clear()
        return split


Phases = CpuPhases | CudaPhases


def phases_for(device: torch.device) -> Phases:
    """The reader of phases that fits a device."""
    return CudaPhases() if device.type == "cuda" else CpuPhases()


def _waiting(phases: Phases, fetch: Callable[[], Result]) -> Callable[[], Result]:
    def waited() -> Result:
        began = perf_counter_ns()
        result = fetch()
        phases.wait_ns += perf_counter_ns() - began
        return result

    return waited


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)
