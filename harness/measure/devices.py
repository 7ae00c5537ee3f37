"""The devices that a training can run on, and what its step, its clock and its evidence ask of one."""

from contextlib import AbstractContextManager
from pkgutil import resolve_name
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity

from harness.measure.gpu import Driver

# Name in an environment -> class. A new device is a module with such a class, and a line here.
KINDS = {
    "cpu": "harness.measure.devices:Device",
    "cuda": "harness.measure.cuda:Cuda",
}


class Device:
    """A device that has done what it was asked for when the call returns, as a CPU has: the base of all others.

    It has nothing to wait for, no memory of its own and no driver. What it lacks raises NotImplementedError: the needs
    of an optimization keep a recipe that asks for it away.
    """

    asynchronous = False  # calls return before the device is done, and only its events tell when it was
    profiled: ProfilerActivity | None = None  # under which the profiler sees kernels, where they are not the host's
    convolved = (4, 64, 16)  # samples, channels and pixels of a side in a convolution that shows its precision

    def __init__(self, name: str) -> None:
        self.torch = torch.device(name)  # where tensors lie

    def synchronize(self) -> None:
        """Waits until the device has done all that was asked of it."""

    def driver(self) -> Driver:
        """Who tells of clocks, power and memory."""
        return Driver()

    # Memory

    def forget_memory(self) -> None:
        """Gives back what the caching allocator holds for nobody and begins its peak anew."""

    def empty_cache(self) -> None:
        """Gives back what the caching allocator holds for nobody."""

    def peak_bytes(self) -> int | None:
        """Peak of the caching allocator since `forget_memory`; None where there is none."""
        return None

    def allocations(self) -> int:
        """How often the allocator asked the driver for memory, or had to give some back before it could."""
        return 0

    def frees(self) -> int:
        """How often the allocator gave memory back to the driver."""
        return 0

    def segments(self) -> list[dict[str, Any]] | None:
        """What the allocator has of the driver; None where there is none."""
        return None

    def is_pinned(self, _tensor: Tensor) -> bool:
        """Whether a tensor of the host lies where the device can copy it while the host goes on."""
        return False

    # Streams, events and graphs, with the methods of torch.cuda.Stream, Event and CUDAGraph

    def stream(self) -> Any:
        """A stream of its own."""
        self._lacks("streams")

    def current_stream(self) -> Any:
        """The stream that calls are queued on."""
        self._lacks("streams")

    def on(self, _stream: Any) -> AbstractContextManager[Any]:
        """Calls within the block are queued on that stream."""
        self._lacks("streams")

    def lend(self, _tensor: Tensor, _stream: Any) -> None:
        """Notes that a stream uses the memory of a tensor, if that lies on the device."""

    def event(self, *, timing: bool) -> Any:  # noqa: ARG002  not here
        """An event, which is recorded later."""
        self._lacks("events")

    def graph(self) -> Any:
        """A graph to capture into."""
        self._lacks("graphs")

    def capture(self, _graph: Any, _stream: Any) -> AbstractContextManager[Any]:
        """Calls of this thread within the block are captured on the stream, and not run."""
        self._lacks("graphs")

    def compiled_graphs(self) -> int | None:
        """Graphs of the device that torch.compile has recorded; None where it records none."""
        return None

    # Marks and pauses

    def push(self, _msg: str) -> Any:
        """Begins a named range on a profiler's timeline."""
        self._lacks("ranges")

    def pop(self) -> Any:
        """Ends the last range."""
        self._lacks("ranges")

    def sleep(self, _cycles: int) -> None:
        """Queues a pause of so many of the device's cycles."""
        self._lacks("pauses")

    def _lacks(self, what: str) -> NoReturn:
        raise NotImplementedError(f"{self.torch} has no {what}")


def device_named(name: str) -> Device:
    """The device that an environment names, with or without a number; raises KeyError where none is known."""
    device: Device = resolve_name(KINDS[name.partition(":")[0]])(name)
    return device
