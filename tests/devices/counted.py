"""A third device, made of what PyTorch has on a CPU: it counts what is asked of it, and its copies take their time."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from time import perf_counter, sleep
from typing import Any

from torch import Tensor

from harness.measure.devices import Device

COPY_S = 0.002  # what a batch takes to arrive


@dataclass(slots=True, eq=False)
class Event:
    """A moment, read when the device was synchronised; its stream is the device's, which has one alone."""

    seconds: float = 0.0

    def record(self, _stream: Any = None) -> None:
        """Is now: whatever was asked for before it is done."""
        self.seconds = perf_counter()

    def elapsed_time(self, later: "Event") -> float:
        """Milliseconds."""
        return 1000 * (later.seconds - self.seconds)


@dataclass(slots=True, eq=False)
class Stream:
    """A queue that is always empty."""

    waited: list[Any] = field(default_factory=list)

    def wait_event(self, event: Event) -> None:
        """Nothing is left to wait for."""
        self.waited.append(event)


class Counted(Device):
    """Tensors lie on the CPU, and every batch that is lent to the stream that computes was a moment under way."""

    asynchronous = True  # it has events, so phases are read from these

    def __init__(self, _name: str = "counted") -> None:
        super().__init__("cpu")
        self.synchronised = self.events = self.lent = 0
        self.main, self.now = Stream(), list[Stream]()

    def synchronize(self) -> None:
        """Counts."""
        self.synchronised += 1

    def peak_bytes(self) -> int | None:
        """A number that nothing else would give."""
        return 12_345

    def stream(self) -> Stream:
        """Another one."""
        return Stream()

    def current_stream(self) -> Stream:
        """The last that was entered."""
        return self.now[-1] if self.now else self.main

    def on(self, stream: Any) -> AbstractContextManager[Any]:
        """Copies are all that is sent along another stream."""
        sleep(COPY_S)
        return _Within(self.now, stream)

    def lend(self, _tensor: Tensor, stream: Any) -> None:
        """Counts what the stream that computes is given."""
        assert stream is self.main
        self.lent += 1

    def event(self, *, timing: bool) -> Event:  # noqa: ARG002  all are timed
        """Counts."""
        self.events += 1
        return Event()

    def is_pinned(self, _tensor: Tensor) -> bool:
        """Memory of the host is the device's own."""
        return True


class _Within(nullcontext[None]):
    def __init__(self, now: list[Stream], stream: Stream) -> None:
        super().__init__()
        self.now, self.own = now, stream

    def __enter__(self) -> None:
        self.now.append(self.own)

    def __exit__(self, *_: object) -> None:
        self.now.pop()
