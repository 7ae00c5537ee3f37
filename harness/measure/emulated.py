"""An emulated accelerator: what it takes is looked up, and all that surrounds it on the host is real.

It has two engines, one that computes and one that copies, as timelines with absolute deadlines: no thread runs, and a
wait that ends late delays nothing that was queued before it. Arms train for real, on the CPU, until all that proves
their settings was seen; then `take_over` leaves the model out of their steps and keeps the place in the queue, the
time on the device and the time on the host that it takes (docs/decisions/emulated-devices.md).
"""

import gc
import hashlib
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from harness.core.emulation import Emulation, emulation_named
from harness.core.recipe import Value
from harness.measure.devices import Device
from harness.measure.evaluation import ASKING, ReadBacks
from harness.measure.feed import Pickled
from harness.measure.loop import examined
from harness.measure.transfer import arriving, unchanged

if TYPE_CHECKING:
    from harness.measure.session import Session, Trainee

# Waiting: a host that asks for what the device has not done yet.

CALIBRATED = 2_000  # rounds of hashing by which the length of one is told
UNTIL_S = 60e-6  # before a deadline: from there on the clock alone is looked at
CAREFUL = 0.7  # of what is left, as cores change their clock
PIECE_S = 1e-3


class Spinning:
    """Keeps a core busy until a moment of the clock, as CUDA does unless it is told otherwise.

    Python cannot spin without holding its lock, which CUDA lets go of: the pinning thread would wait for it. Deriving a
    key keeps a core busy for as long as one asks for, and without the lock.
    """

    def __init__(self) -> None:
        """Measures how many rounds a second takes."""
        began = time.perf_counter()
        _hash(CALIBRATED)
        self.rounds_per_s = CALIBRATED / (time.perf_counter() - began)

    def __call__(self, until: float, busy_s: float = 0.0) -> None:
        """Returns at that moment of `time.perf_counter`, a microsecond later at most on a core of its own.

        Where the core is shared, work of `busy_s` takes as long as it does: no less time of the core than that. Waiting
        is done in pieces, so that who gets the core back late looks at the clock soon.
        """
        done_s = time.thread_time() + busy_s
        while (left := max(until - time.perf_counter(), busy_s and done_s - time.thread_time())) > UNTIL_S:
            _hash(int(min(CAREFUL * left, PIECE_S) * self.rounds_per_s))
        while time.perf_counter() < until:
            pass


def _hash(rounds: int) -> None:
    hashlib.pbkdf2_hmac("sha256", b"", b"", max(1, rounds))


def sleeping(until: float) -> None:
    """Gives the core away until then; the system wakes whoever sleeps some 0.1 ms late, as it does after a GPU."""
    time.sleep(max(0.0, until - time.perf_counter()))


# Timelines: streams, in which everything waits for what was queued before it, and the two engines that they share.


@dataclass(slots=True, eq=False)
class Stream:
    """A queue of the device, with the methods of torch.cuda.Stream that a step needs."""

    clock: Callable[[], float]
    ends: float = 0.0  # when all that was queued is done

    def wait_event(self, event: "Event") -> None:
        """Whatever is queued from here on begins after the event."""
        self.ends = max(self.ends, event.at)

    def wait_stream(self, other: "Stream") -> None:
        """Whatever is queued from here on begins after all that the other stream holds now."""
        self.ends = max(self.ends, other.ends)


@dataclass(slots=True, eq=False)
class Event:
    """A moment of a stream."""

    device: "Emulated"
    at: float = 0.0

    def record(self, stream: Stream | None = None) -> None:
        """Behind all that the stream holds; now, where it is idle."""
        stream = stream or self.device.current_stream()
        self.at = max(stream.ends, self.device.clock())

    def elapsed_time(self, later: "Event") -> float:
        """Milliseconds."""
        return 1000 * (later.at - self.at)

    def synchronize(self) -> None:
        """The host waits for it."""
        self.device.wait_until(self.at)


AT_ONCE = (
    65_536  # bytes of pageable memory at most that CUDA takes along without a wait ("API synchronization behavior")
)
QUEUE = 1024  # launches that may wait; the host waits for the first of them before it queues more


class Emulated(Device):
    """Tensors lie on the CPU; where they are and when they are ready is what is emulated."""

    asynchronous = True

    def __init__(
        self,
        name: str = "emulated",
        emulation: Emulation | None = None,
        clock: Callable[[], float] = time.perf_counter,
        spin: Callable[..., None] | None = None,
        sleep: Callable[[float], None] = sleeping,
    ) -> None:
        """Takes the times of a device from its name unless they are given; tests bring a clock of their own."""
        super().__init__("cpu")
        self.name, self.times = name, emulation or emulation_named(name)
        self.clock, self._spin, self._sleep = clock, spin or Spinning(), sleep
        self.main = Stream(clock)
        self.computing = self.copying = 0.0  # when either engine has done all that it was given
        self.pinned = PinnedMemory()
        self.blocking = False  # a wait gives its core away
        self.leaves_out = False  # steps do without the model
        self._streams = [self.main]  # that are current, the innermost last
        self._queued: deque[tuple[float, float, int]] = deque()  # when it begins and ends, and its launches
        self._launches = 0  # of these
        self._work: list[tuple[float, float]] | None = None  # when each launch began and ended, for who asked
        self._staging = torch.empty(0, dtype=torch.uint8)
        self._results = results_of(self)

    # Engines

    def launch(self, seconds: float, launches: int = 1, host_s: float = 0.0) -> None:
        """Queues work that takes the device so long, and keeps the host busy for as long as it takes to queue it.

        The device begins with the first kernel, so that it may be done when the host is; it is never done before.
        """
        now, stream = self.clock(), self._streams[-1]
        queued = self._queued
        while queued and queued[0][1] <= now:
            self._launches -= queued.popleft()[2]
        began = max(stream.ends, self.computing, now)
        queued.append((began, began + seconds, launches))
        self._launches += launches
        asked = now + host_s if self._launches <= QUEUE else self._asked_at(now, host_s, launches)
        if host_s:
            self._spin(asked, host_s)
            now = self.clock()
        elif asked > now:
            self.wait_until(asked)
            now = self.clock()
        stream.ends = self.computing = max(began + seconds, now)
        queued[-1] = (began, stream.ends, launches)
        if self._work is not None:
            self._work.append((began, began + seconds))

    def work_log(self) -> list[tuple[float, float]]:
        """Begins to note when the device computes."""
        self._work = []
        return self._work

    def _asked_at(self, now: float, host_s: float, launches: int) -> float:
        """When the host has asked for the last launch of what it has queued just now, if its core is its own.

        The device takes the launches of a part evenly while the part lasts. One more finds room when so many are gone
        that the queue holds no more than its number; after the latest such wait the host goes on at its own pace.
        """
        left = [
            one * (end - max(began, now)) / (end - began) if end > began else one for began, end, one in self._queued
        ]
        outstanding = sum(left)  # these among them
        most = outstanding - QUEUE  # that must be gone before the last is asked for
        asked, gone = now + host_s, 0.0
        for (began, end, _), each in zip(self._queued, left, strict=True):
            begins = max(began, now)
            here = min(each, most - gone)
            if here <= 0:
                break
            ends = begins + here / each * (end - begins)
            for moment, number in ((begins if end > began else end, gone), (ends, gone + here)):
                later = min(launches, most - number)  # asked for after that one
                asked = max(asked, moment + host_s * later / launches)
            gone += here
        return asked

    def copy(self, count: int) -> float:
        """Queues a copy of so many bytes to the device; gives the moment at which it ends.

        Copies of all streams take turns in the order in which they were asked for: no step uses two streams for them.
        """
        stream = self._streams[-1]
        began = max(stream.ends, self.copying, self.clock())
        stream.ends = self.copying = began + count / self.times.link_bytes_s
        return stream.ends

    def move(self, tensor: Tensor, *, non_blocking: bool, memory_format: Any = None) -> Tensor:
        """The tensor as it lies on the device: from pageable memory the host copies it to pinned memory first.

        The host goes on where the memory is pinned and it was told not to block, and waits for the copy otherwise.
        """
        if getattr(tensor, "on_device", False):
            return tensor
        is_pinned = self.is_pinned(tensor)
        if not is_pinned and tensor.nbytes > AT_ONCE:  # CUDA waits for the stream before it reads pageable memory
            self.wait_until(self._streams[-1].ends)
        ends = self.copy(tensor.nbytes)
        if not is_pinned:
            self._stage(tensor)
        if not (is_pinned and non_blocking):
            self.wait_until(ends)
        # A GPU turns the layout around by itself; that is no part of a link's time.
        as_asked = {"memory_format": memory_format} if memory_format and not self.leaves_out else {}
        arrived: Any = tensor.detach().to(**as_asked) if as_asked else tensor.detach()
        arrived.on_device = True
        return arrived  # type: ignore[no-any-return]

    def mover(self, *, non_blocking: bool) -> Callable[..., Tensor]:
        """What sends a tensor over the link."""

        def move(tensor: Tensor, memory_format: Any = None) -> Tensor:
            return self.move(tensor, non_blocking=non_blocking, memory_format=memory_format)

        return move

    def _stage(self, tensor: Tensor) -> None:
        """By one thread, as the driver does it; torch would take all threads of the trainer."""
        if tensor.nbytes > len(self._staging):
            self._staging = torch.empty(tensor.nbytes, dtype=torch.uint8)
        np.copyto(self._staging[: tensor.nbytes].numpy(), tensor.detach().reshape(-1).view(torch.uint8).numpy())

    # Waiting

    def wait_until(self, moment: float) -> None:
        """The host waits, spinning or blocked as it was told."""
        if moment > self.clock():
            (self._sleep if self.blocking else self._spin)(moment)

    def wait(self) -> None:
        """Waits for all that was queued on the current stream, as whoever reads a value back does."""
        self.wait_until(self._streams[-1].ends)

    def synchronize(self) -> None:
        """Waits for both engines."""
        self.wait_until(max(self.main.ends, self.computing, self.copying))

    def block(self) -> None:
        """Waits give their core away from now on."""
        self.blocking = True

    def blocks(self) -> bool:
        """Whether they do."""
        return self.blocking

    # Streams, events, pinned memory

    def stream(self) -> Stream:
        """Another one."""
        return Stream(self.clock)

    def current_stream(self) -> Stream:
        """The one that calls are queued on."""
        return self._streams[-1]

    @contextmanager
    def on(self, stream: Any) -> Iterator[None]:
        """The stream made current."""
        self._streams.append(stream)
        try:
            yield
        finally:
            self._streams.pop()

    def event(self, *, timing: bool) -> Event:  # noqa: ARG002  all are timed
        """An event of this device."""
        return Event(self)

    def sleep(self, cycles: int) -> None:
        """A pause whose cycles are nanoseconds."""
        self.launch(cycles / 1e9)

    def is_pinned(self, tensor: Tensor) -> bool:
        """Whether it lies in what counts as page-locked here."""
        return self.pinned.holds(tensor)

    def pin(self, batch: Any) -> Any:
        """The batch in pinned memory: one copy by the host, as a loader's pinning thread makes it."""
        return pinned_by(self.pinned, batch)

    # The step without the model

    def result(self, value: float) -> Tensor:
        """A number that lies on the device: whoever reads it waits for what was queued before."""
        return torch.tensor(value).as_subclass(self._results)

    def take_over(self, session: "Session", batch: Any, last_loss: float) -> dict[str, Value]:
        """Leaves the model out of all further steps; gives what stands for it, as settings that were seen."""
        work = work_of(session.trainee, batch, self, session.task.parts.uneven_steps)
        session.phases.split()  # events of the step that was just watched
        self.leaves_out = True
        Placeholder(device=self, work=work, value=self.result(last_loss)).take_the_place_in(session)
        return work.shown(self.times)


class PinnedMemory:
    """Host memory that counts as page-locked: rooms that are used again as soon as nobody holds a batch in them."""

    def __init__(self) -> None:
        self._rooms: defaultdict[int, list[Tensor]] = defaultdict(list)
        self._places: set[int] = set()

    def copied(self, tensor: Tensor) -> Tensor:
        """A copy of the tensor that lies here."""
        rooms = self._rooms[tensor.nbytes]
        room = next((one for one in rooms if _is_free(one)), None)
        if room is None:
            room = torch.empty(tensor.nbytes, dtype=torch.uint8)
            rooms.append(room)
            self._places.add(room.untyped_storage().data_ptr())
        here = room.view(tensor.dtype).view(tensor.shape)
        return here.copy_(tensor)

    def holds(self, tensor: Tensor) -> bool:
        """Whether a tensor lies here."""
        return tensor.untyped_storage().data_ptr() in self._places


def _is_free(room: Tensor) -> bool:
    """Whether nothing else shares its memory: the storage is held by the room, and by the question."""
    return bool(torch._C._storage_Use_Count(room.untyped_storage()._cdata) <= 2)  # noqa: SLF001


def pinned_by(memory: PinnedMemory, batch: Any) -> Any:
    """All tensors of a batch copied there; what is none stays as it is."""
    if isinstance(batch, Tensor):
        return memory.copied(batch)
    if isinstance(batch, Pickled):
        return Pickled([memory.copied(one) for one in batch.tensors()])
    if isinstance(batch, (list, tuple)):
        return [pinned_by(memory, one) for one in batch]
    return batch


def results_of(device: Emulated) -> type[Tensor]:
    """Tensors whose values lie on a device: to read one, the host waits."""

    class Result(Tensor):
        """One of them; what is computed of it is one too."""

        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if getattr(function, "__name__", "") in ASKING:
                device.wait()
            return super().__torch_function__(function, types, args, kwargs or {})  # type: ignore[no-untyped-call]

    return Result


# What a step is, seen in one that really runs: how often the host turns to the device, and what else it does.


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """What an optimizer makes the host do."""

    launches: int
    operators: int  # on single tensors, each with a launch
    parameters: int  # of operators on lists of tensors


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Launches of the parts of one pass over one batch, and what model and loss make the host do beside."""

    stage: int  # launches of the workload's stage on the device
    stage_bytes: int  # that it reads and writes there
    forward: int
    backward: int
    update: Update
    read_backs: int  # of values, before the loss is there
    collections: tuple[int, ...]  # of garbage, by the loss, in each of the steps after which it does the same again

    def host_s(self, times: Emulation) -> tuple[float, float, float]:
        """What forward pass, backward pass and update take the host, within a step that is given by its time."""
        parts = self.launching_s(times)
        share = min(1.0, times.step_s / sum(parts)) if times.is_whole and any(parts) else 1.0
        return parts[0] * share, parts[1] * share, parts[2] * share

    def launching_s(self, times: Emulation) -> tuple[float, float, float]:
        """The same, however long the step is."""
        update = self.update
        return (
            self.forward * (times.launch_s + times.forward_s),
            self.backward * (times.launch_s + times.backward_s),
            update.launches * times.launch_s
            + update.operators * times.update_s
            + update.parameters * times.parameter_s,
        )

    def shown(self, times: Emulation) -> dict[str, Value]:
        """What a record says of it."""
        return {
            "emulated_step_ms": 1000 * times.step_s,
            "emulated_host_ms": 1000 * sum(self.launching_s(times)),
            "emulated_whole": times.is_whole,
            "emulated_stage_ms": 1000 * times.stage_s(self.stage, self.stage_bytes),
            "emulated_launches": self.forward + self.backward + self.update.launches,
            "emulated_parameters": self.update.parameters,
            "emulated_read_backs": self.read_backs,
            "emulated_queue": QUEUE,
        }


class Launches(TorchDispatchMode):
    """Counts operators that run a kernel, and the bytes that they read and write, while it is entered.

    Not those on tensors of the `host`, as optimizers keep the count of their steps.
    """

    def __init__(self, host: Iterable[Tensor] = ()) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = self.bytes = self.operators = self.listed = 0
        self.host = {id(one) for one in host}

    def __torch_dispatch__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        name = function._schema.name  # noqa: SLF001
        given = [one for one in tree_leaves(args) if isinstance(one, Tensor)]
        on_host = bool(given) and all(id(one) in self.host or not one.dim() for one in given)
        if not function.is_view and name not in NO_KERNEL and not (self.host and on_host):
            listed = len(args[0]) if args and isinstance(args[0], (list, tuple)) and name.startswith(LISTS) else 0
            self.count += -(-listed // AT_ONE_LAUNCH) or 1
            self.operators += not listed
            self.listed = max(self.listed, listed)
            # Whoever gathers reads as much as it writes, and not all of what it chooses from.
            read = [*given[1:], result] if name in GATHERS else given
            self.bytes += sum(one.nbytes for one in (*read, *tree_leaves(result)) if isinstance(one, Tensor))
        return result


LISTS = ("aten::_foreach_", "aten::_fused_")
AT_ONE_LAUNCH = 36  # tensors of an operator on four lists, as PyTorch packs them for one kernel
NO_KERNEL = {"aten::detach", "aten::_local_scalar_dense"}
GATHERS = {"aten::index_select", "aten::index.Tensor", "aten::index", "aten::gather", "aten::embedding"}


def work_of(trainee: "Trainee", batch: Any, device: Device, uneven_steps: int = 1) -> Work:
    """Takes one more step on a batch that lies on the device, and counts; of uneven steps the loss of all of them."""
    bound, reads = trainee.bound, ReadBacks(device.torch)
    reads.forwards = 1  # counts from the start
    moved = trainee.move(batch)
    with Launches() as stage:
        inputs, targets = trainee.device_stage(moved) if trainee.device_stage else moved
    collections = []
    for _ in range(uneven_steps):
        with _only_asked_collections() as asked, Launches() as forward, reads, bound.autocast():
            value = bound.loss(bound.model(inputs), targets)
        collections.append(len(asked))
    with Launches() as backward:
        bound.backward(value)
    with Launches(step_counts(trainee.optimizer)) as update:
        bound.update()
    return Work(
        stage=stage.count,
        stage_bytes=stage.bytes,
        forward=forward.count,
        backward=backward.count,
        update=Update(launches=update.count, operators=update.operators, parameters=update.listed),
        read_backs=reads.count // uneven_steps,
        collections=tuple(collections),
    )


def step_counts(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """Counts of the optimizer's steps, which lie on the host unless its kernels read them on the device."""
    if any(group.get("fused") or group.get("capturable") for group in optimizer.param_groups):
        return []
    counts = (state.get("step") for state in optimizer.state.values() if isinstance(state, dict))
    return [one for one in counts if isinstance(one, Tensor)]


@contextmanager
def _only_asked_collections() -> Iterator[list[None]]:
    """An entry for each collection within the block that somebody asked for; there are no others meanwhile."""
    seen: list[None] = []

    def note(phase: str, _info: dict[str, int]) -> None:
        if phase == "stop":
            seen.append(None)

    was_on = gc.isenabled()
    gc.disable()
    gc.callbacks.append(note)
    try:
        yield seen
    finally:
        gc.callbacks.remove(note)
        if was_on:
            gc.enable()


FORWARD = 1 / 3  # of a step's time, at least; the backward pass takes the rest, and the update is a part of that


@dataclass(frozen=True, slots=True, kw_only=True)
class Placeholder:
    """What stands in the step where the model was: launches of the same length and number, and a loss to wait for."""

    device: Emulated
    work: Work
    value: Tensor
    steps: Iterator[int] = field(default_factory=count)

    def take_the_place_in(self, session: "Session") -> None:
        """Binds it; fetch, transfer, autocast and what is recorded stay as they are."""
        trainee, phases = session.trainee, session.phases
        update: Callable[[], None] = self.update
        if trainee.delay and trainee.delay.place == "device":
            update = trainee.delay.after(update)
        stage = self.staged if trainee.device_stage else None
        trainee.bound = replace(
            trainee.bound,
            transfer=arriving(phases.copying(trainee.move), stage),
            model=unchanged,
            loss=self.forward,
            backward=examined(self.backward, session.task.recipe),
            update=phases.finishing(update),
        )
        trainee.device_stage = stage

    def staged(self, batch: Any) -> tuple[Any, Any]:
        """What the workload does on the device before the model: as long as its bytes take, and its launches."""
        times, work = self.device.times, self.work
        host_s = work.stage * (times.launch_s + times.update_s)  # nothing is recorded for a backward pass
        self.device.launch(times.stage_s(work.stage, work.stage_bytes), work.stage, host_s)
        return batch[0], batch[-1]

    @property
    def forward_s(self) -> float:
        """Of a step's time; all that the host takes to launch it, where a step is said to hold all launches."""
        times = self.device.times
        return max(FORWARD * times.step_s, self.work.host_s(times)[0] if times.is_whole else 0.0)

    def forward(self, _inputs: Any, _targets: Any) -> Tensor:
        """Model and loss; the host waits where they read values back, and collects garbage where they do."""
        times, work = self.device.times, self.work
        self.device.launch(self.forward_s, work.forward, work.host_s(times)[0])
        if work.read_backs:
            self.device.wait()
        for _ in range(work.collections[next(self.steps) % len(work.collections)]):
            gc.collect()
        return self.value

    def backward(self, _value: Tensor) -> None:
        """The backward pass."""
        times, work = self.device.times, self.work
        self.device.launch(times.step_s - self.forward_s, work.backward, work.host_s(times)[1])

    def update(self) -> None:
        """The optimizer: its kernels are counted among the backward pass's time, its launches are the host's."""
        self.device.launch(0.0, self.work.update.launches, self.work.host_s(self.device.times)[2])
