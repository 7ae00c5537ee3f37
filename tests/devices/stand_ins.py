"""Stand-ins for CUDA's streams, events and graphs, with which the code that uses them runs on a CPU.

They are stricter than a CPU would be: the time between two events can be read only after a synchronisation, a read-back
ends a capture, and a graph replays the operators that were recorded on the very storages that they had.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from time import perf_counter
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

REFUSED = "operation not permitted when stream is capturing"
MASKS = {torch.bool, torch.uint8}


class NotReady(RuntimeError):
    """What an event says whose work nobody has waited for."""


@dataclass(slots=True)
class Device:
    """What the stand-ins share: the current stream, how much was queued, and how much of that was waited for."""

    queued: int = 0
    done: int = 0
    capturing: "Graph | None" = None
    streams: "list[Stream]" = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def queue(self) -> int:
        """One more thing to be done, in its place."""
        self.queued += 1
        return self.queued

    def synchronize(self, _device: Any = None) -> None:
        """Waits for all that is queued, which no capture may do."""
        if self.capturing:
            raise RuntimeError(REFUSED)
        self.done = self.queued

    @contextmanager
    def current(self, stream: "Stream | None") -> Iterator[None]:
        """Another stream within the block."""
        self.streams.append(stream or self.streams[-1])
        try:
            yield
        finally:
            self.streams.pop()


@dataclass(slots=True, eq=False)
class Event:
    """A place in a stream, and when the host had it queued."""

    device: Device
    timing: bool
    place: int | None = None
    seconds: float = 0.0
    stream: "Stream | None" = None

    def record(self, stream: "Stream | None" = None) -> None:
        """Is behind all that the stream was given so far."""
        self.stream = stream or self.device.streams[-1]
        self.place, self.seconds = self.device.queue(), perf_counter()

    def query(self) -> bool:
        """Whether somebody has waited for it."""
        return self.place is not None and self.place <= self.device.done

    def synchronize(self) -> None:
        """Waits for it."""
        if self.place is None:
            raise NotReady("the event was not recorded")
        self.device.done = max(self.device.done, self.place)

    def elapsed_time(self, later: "Event") -> float:
        """Milliseconds between two events that are over."""
        if not (self.timing and later.timing):
            raise ValueError("both events need enable_timing")
        if not (self.query() and later.query()):
            raise NotReady("device not ready: nobody has waited for the events")
        return 1000 * (later.seconds - self.seconds)


@dataclass(slots=True, eq=False)
class Stream:
    """A queue, which knows the streams and events that it waits for."""

    device: Device
    waited: list[Any] = field(default_factory=list)

    def wait_stream(self, other: "Stream") -> None:
        """What comes next here waits for all that is queued there."""
        self.device.queue()
        self.waited.append(other)

    def wait_event(self, event: Event) -> None:
        """What comes next here waits for the event."""
        if event.place is None:
            raise NotReady("the event was not recorded")
        self.device.queue()
        self.waited.append(event)


class Recorder(TorchDispatchMode):
    """Runs operators and keeps them with their tensors; at the end all storages are as before, as after a capture."""

    def __init__(self, calls: list[tuple[Any, Any, Any, Any]]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls = calls
        self.before: dict[int, tuple[Tensor, Tensor]] = {}  # all bytes of each storage that was there, and their copy
        self.made: set[int] = set()
        self.random = torch.get_rng_state()

    def __torch_dispatch__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if _reads_back(function, args):
            raise RuntimeError(REFUSED)
        given = kwargs or {}
        for one in _tensors((args, given)):
            self._remember(one)
        call = (function, _as_now(args), _as_now(given))  # shapes may be changed in place later
        result = function(*args, **given)
        self.made |= {one.untyped_storage()._cdata for one in _tensors(result)} - set(self.before)
        self.calls.append((*call, _as_now(result)))
        return result

    def restore(self) -> None:
        """Undoes whatever was computed: a capture computes nothing."""
        for whole, copy in self.before.values():
            whole.copy_(copy)
        torch.set_rng_state(self.random)

    def _remember(self, one: Tensor) -> None:
        key = one.untyped_storage()._cdata
        if key not in self.made and key not in self.before:
            whole = torch.empty(0, dtype=torch.uint8).set_(one.untyped_storage())
            self.before[key] = (whole, whole.clone())


@dataclass(slots=True, eq=False)
class Graph:
    """Operators with the tensors that they had; a replay computes them anew into the same storages."""

    device: Device
    calls: list[tuple[Any, Any, Any, Any]] = field(default_factory=list)
    recorder: Recorder | None = None

    def capture_begin(self, *_pool: Any, capture_error_mode: str = "global") -> None:
        """Records from now on."""
        self.device.said.append(f"capture {capture_error_mode}")
        self.device.capturing, self.recorder = self, Recorder(self.calls)
        self.recorder.__enter__()  # type: ignore[no-untyped-call]

    def capture_end(self) -> None:
        """Records no more."""
        assert self.recorder is not None
        self.recorder.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        self.recorder.restore()
        self.device.capturing = None

    @torch.no_grad()
    def replay(self) -> None:
        """Runs all operators again."""
        self.device.said.append("replay")
        self.device.queue()
        for function, args, kwargs, before in self.calls:
            if function.is_view or torch.Tag.inplace_view in function.tags:
                continue
            given = {one.untyped_storage()._cdata for one in _tensors((args, kwargs))}
            for old, new in zip(_tensors(before), _tensors(function(*args, **kwargs)), strict=True):
                if old.untyped_storage()._cdata not in given:
                    old.copy_(new)


def _as_now(tree: Any) -> Any:
    """The same with each tensor's shape and strides kept, on its storage."""
    return tree_map_only(Tensor, Tensor.detach, tree)


def _reads_back(function: Any, args: Any) -> bool:
    """Whether the host must wait for values, or for how many there are."""
    if function is torch.ops.aten.index.Tensor:  # only with a mask; its tags cannot tell
        return any(one.dtype in MASKS for one in _tensors(args[1]))
    return bool({torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape} & set(function.tags))


def _tensors(tree: Any) -> list[Tensor]:
    return [one for one in tree_leaves(tree) if isinstance(one, Tensor)]


def install(patch: pytest.MonkeyPatch) -> Device:
    """Puts the stand-ins in place of torch.cuda's for a test; tensors stay on the CPU."""
    device = Device()
    device.streams.append(Stream(device))
    patch.setattr(torch.cuda, "Stream", lambda *_: Stream(device))
    patch.setattr(torch.cuda, "Event", lambda *, enable_timing=False: Event(device, enable_timing))
    patch.setattr(torch.cuda, "CUDAGraph", lambda: Graph(device))
    patch.setattr(torch.cuda, "current_stream", lambda *_: device.streams[-1])
    patch.setattr(torch.cuda, "stream", device.current)
    patch.setattr(torch.cuda, "synchronize", device.synchronize)
    patch.setattr(torch.cuda, "is_available", lambda: True)
    patch.setattr(torch.cuda, "is_current_stream_capturing", lambda: device.capturing is not None)
    patch.setattr(torch._C, "_host_emptyCache", lambda: None)
    patch.setattr(Tensor, "record_stream", lambda *_: device.said.append("record_stream"))
    on_a_cpu(patch)
    return device


def on_a_cpu(patch: pytest.MonkeyPatch) -> None:
    """Lets optimizers count their steps in tensors on a CPU too, as they do on CUDA where a graph is captured."""
    module = import_module("torch.optim.adam")  # torch.optim has no such attribute
    patch.setattr(module, "_get_capturable_supported_devices", lambda **_: ["cpu", "cuda"])
