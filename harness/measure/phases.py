"""Phases of a step, read without synchronising: host time for waiting, events for what the device does."""

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any, ParamSpec, TypeVar

from harness.measure.collector import PASSES
from harness.measure.devices import Device, recorded

Given = ParamSpec("Given")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Seconds of one window: waiting for batches and copying them, and where events tell it, the span of the steps.

    A span lasts from the first kernel of a step to its last, and holds the gaps in which the device waits for the host:
    there are some where the host takes as long to queue the step.
    """

    wait_s: float
    copy_s: float
    device_s: float | None
    queue_s: float | None = None


@dataclass(slots=True)
class HostPhases:
    """Where every call is finished when it returns host clocks tell all."""

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
        self.forget()
        return split

    def forget(self) -> None:
        """Counts from here."""
        self.wait_ns = self.copy_ns = 0


@dataclass(slots=True)
class EventPhases:
    """Where calls return early the copy and the span of each step's kernels lie between events, read after a window."""

    device: Device
    wait_ns: int = 0
    copies: list[tuple[Any, Any]] = field(default_factory=list)
    begins: list[Any] = field(default_factory=list)  # behind them the device works on a batch
    updates: list[Any] = field(default_factory=list)
    begins_ns: list[int] = field(default_factory=list)  # the same moments on the host, which only queues
    updates_ns: list[int] = field(default_factory=list)
    in_step: bool = False
    wait_in_steps_ns: int = 0  # for what follows: the next micro-batch, or a batch that is sent ahead

    def waiting(self, fetch: Callable[[], Result]) -> Callable[[], Result]:
        """The fetch, its time on the host counted as waiting."""
        waited = _waiting(self, fetch)

        def told_apart() -> Result:
            before_ns = self.wait_ns
            result = waited()
            self.wait_in_steps_ns += (self.wait_ns - before_ns) * self.in_step
            return result

        return told_apart

    def copying(self, transfer: Callable[[Any], Result]) -> Callable[[Any], Result]:
        """The transfer between two events."""
        between = self.copying_ahead(transfer)

        def copied(batch: Any) -> Result:
            result = between(batch)
            self._begun(self.copies[-1][1])
            return result

        return copied

    def copying_ahead(self, transfer: Callable[[Any], Result]) -> Callable[[Any], Result]:
        """The transfer between two events of the stream that is current then; no step begins behind them."""

        def copied(batch: Any) -> Result:
            before = recorded(self.device)
            result = transfer(batch)
            self.copies.append((before, recorded(self.device)))
            return result

        return copied

    def beginning(self) -> None:
        """A step begins on a batch that was sent ahead."""
        self._begun(recorded(self.device))

    def _begun(self, event: Any) -> None:
        self.begins.append(event)
        self.begins_ns.append(perf_counter_ns())
        self.in_step = True

    def finishing(self, update: Callable[Given, Result]) -> Callable[Given, Result]:
        """The update, or whatever ends a step, with an event behind it, which ends the step's span on the device."""

        def finished(*given: Given.args, **named: Given.kwargs) -> Result:
            result = update(*given, **named)
            self.updates.append(recorded(self.device))
            self.updates_ns.append(perf_counter_ns())
            self.in_step = False
            return result

        return finished

    def split(self) -> Split:
        """What was counted since the last reading; the device must have been synchronised."""
        copy_ms = sum(before.elapsed_time(after) for before, after in self.copies)
        # With micro-batches a step has several copies: its span begins behind the first that follows an update.
        begins_per_update = max(1, len(self.begins) // max(1, len(self.updates)))
        steps = slice(None, None, begins_per_update)
        device_ms = sum(one.elapsed_time(last) for one, last in zip(self.begins[steps], self.updates, strict=False))
        spent_ns = sum(last - one for one, last in zip(self.begins_ns[steps], self.updates_ns, strict=False))
        queue_ns = spent_ns - self.wait_in_steps_ns
        stepped = bool(self.updates and self.begins)  # an evaluation has no steps
        split = Split(
            wait_s=self.wait_ns / 1e9,
            copy_s=copy_ms / 1e3,
            device_s=device_ms / 1e3 if stepped else None,
            queue_s=queue_ns / 1e9 if stepped else None,
        )
        self.forget()
        return split

    def forget(self) -> None:
        """Counts from here, between two steps; the device need not have come that far."""
        self.wait_ns = self.wait_in_steps_ns = 0
        for seen in (self.copies, self.begins, self.updates, self.begins_ns, self.updates_ns):
            seen.clear()


Phases = HostPhases | EventPhases


def phases_for(device: Device) -> Phases:
    """The reader of phases that fits a device."""
    return EventPhases(device) if device.asynchronous else HostPhases()


def _waiting(phases: Phases, fetch: Callable[[], Result]) -> Callable[[], Result]:
    def waited() -> Result:
        PASSES.fetching, began = True, perf_counter_ns()
        try:
            return fetch()
        finally:
            phases.wait_ns += perf_counter_ns() - began
            PASSES.fetching = False

    return waited
