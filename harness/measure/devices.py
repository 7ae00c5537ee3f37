"""The devices that a training can run on, and what its step, its clock and its evidence ask of one."""

import ctypes
import gc
import os
import warnings
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from time import perf_counter
from typing import Any, NoReturn

import torch
from torch import Tensor, multiprocessing

from harness.core.emulation import Emulation
from harness.core.environment import DEVICES
from harness.core.mistake import Mistake
from harness.core.recipe import Recipe, Value
from harness.measure.collector import PASSES
from harness.measure.gpu import Driver


class Device:
    """A device that has done what it was asked for when the call returns, as a CPU has: the base of all others.

    It has nothing to wait for, no memory of its own and no driver. What it lacks raises NotImplementedError: the needs
    of an optimization keep a recipe that asks for it away.
    """

    asynchronous = False  # calls return before the device is done, and only its events tell when it was
    # First steps take its cores, where only the first of a process differs from those after it; elsewhere they cost
    # little, and show by the shapes of several batches how far memory may grow.
    steps_on_host = True
    convolved = (4, 64, 16)  # samples, channels and pixels of a side in a convolution that shows its precision

    def __init__(self, name: str) -> None:
        self.torch = torch.device(name)  # where tensors lie

    def synchronize(self) -> None:
        """Waits until the device has done all that was asked of it."""

    def driver(self) -> Driver:
        """Who tells of clocks, power and memory."""
        return Driver()

    def work_log(self) -> list[tuple[float, float]] | None:
        """Filled from now on with when each piece of work begins and ends; None where the device does not tell."""
        return None

    # Memory

    def forget_memory(self) -> None:
        """Gives back what the caching allocator holds for nobody and begins its peak anew."""

    def empty_cache(self) -> None:
        """Gives back what the caching allocator holds for nobody."""

    def peak_bytes(self) -> int | None:
        """Peak of the caching allocator since `forget_memory`; None where there is none."""
        return None

    def frees(self) -> int:
        """How often the allocator gave memory back to the driver."""
        return 0

    def refusals(self) -> int:
        """How often the allocator found no memory; libraries then go on with kernels that need less."""
        return 0

    def segments(self) -> list[dict[str, Any]] | None:
        """What the allocator has of the driver; None where there is none."""
        return None

    def is_pinned(self, _tensor: Tensor) -> bool:
        """Whether a tensor of the host lies where the device can copy it while the host goes on."""
        return False

    pin: Callable[[Any], Any] | None = None  # copies a batch to such memory, where torch's own loader does not

    def mover(self, *, non_blocking: bool) -> Callable[..., Tensor]:
        """What sends a tensor to the device, in a memory format if one is named."""
        return partial(Tensor.to, device=self.torch, non_blocking=non_blocking)

    # How the host waits

    def block(self) -> None:
        """A host that waits gives its core away from now on."""
        self._lacks("a way to wait")

    def blocks(self) -> bool | None:
        """Whether it does; None where the host never waits, or nobody can tell."""
        return None

    # Emulation

    def take_over(self, _session: Any, _batch: Any, _last_loss: float) -> dict[str, Value]:
        """Leaves the model out of an arm's further steps, where the device is emulated; gives what stands for it."""
        return {}

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


def device_named(name: str, emulation: Emulation | None = None) -> Device:
    """The device that an environment names, with or without a number; raises KeyError where none is known.

    One that is emulated takes the times that are given with it, or else those that its name tells.
    """
    given = (name,) if emulation is None else (name, emulation)
    device: Device = resolve_name(DEVICES[name.partition(":")[0]])(*given)
    return device


# The clock: windows timed as a whole. A device that works on its own is never waited for within what is timed, nor in
# what leads into that: its own events are the clock, and the host waits for the last of them.


def timed(call: Callable[[], object], times: int, device: Device) -> float:
    """Seconds for a number of calls without interruption, the device's work included."""
    device.synchronize()
    began = perf_counter()
    for _ in range(times):
        call()
    device.synchronize()
    return perf_counter() - began


def stamped(call: Callable[[], object], times: int, device: Device) -> list[float]:
    """The moments before each of so many calls and after the last; the device begins with no work left."""
    device.synchronize()
    return moments(marked(call, times, device), device)


def marked(call: Callable[[], object], times: int, device: Device) -> list[Any]:
    """Marks before each of so many calls and after the last, as `moments` reads them; nobody waits for the device.

    A mark is the host's clock, which costs a tenth of a microsecond. A device that works on its own has an event behind
    all that it was asked for: it comes when the device is that far, and where it has nothing to do at once.
    """
    mark: Callable[[], Any] = partial(recorded, device) if device.asynchronous else perf_counter
    marks = [mark()]
    for _ in range(times):
        call()
        marks.append(mark())
    return marks


def moments(marks: list[Any], device: Device) -> list[float]:
    """When marks were passed, on the host's clock, which all ranks share; waits for the device."""
    device.synchronize()
    if not device.asynchronous:
        return marks
    last = recorded(device)
    device.synchronize()
    now = perf_counter()
    return [now - one.elapsed_time(last) / 1000 for one in marks]


def recorded(device: Device) -> Any:
    """An event behind all that the device was asked for."""
    event = device.event(timing=True)
    event.record()
    return event


def give_back(device: Device, *, old: bool = True) -> None:
    """Collects what nobody holds, also of objects that grew `old`, and gives free memory back on device and host."""
    if old:
        PASSES.collect()
    else:
        gc.collect(1)
    device.forget_memory()
    with suppress(AttributeError):  # a C library without it
        ctypes.CDLL(None).malloc_trim(0)


# Cores: which of them a process may run on.


def deal_cores(recipe: Recipe) -> frozenset[int]:
    """Keeps this process to its first core if the recipe says so; gives the cores for its workers, empty for any."""
    if not recipe.pinned_cores:
        return frozenset()
    first, *others = sorted(os.sched_getaffinity(0))
    if not others:
        raise Mistake("cpu_pinning needs at least two CPU cores; this process may use one alone.")
    keep_to({first})
    # The loader counts the trainer's cores and finds too few of them for its workers, which run on others.
    warnings.filterwarnings("ignore", message="This DataLoader will create", category=UserWarning)
    return frozenset(others)


def keep_to(cores: Iterable[int]) -> None:
    """Restricts all threads of this process to the cores; threads and processes that they start inherit that."""
    chosen = set(cores)
    for thread in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):  # it ended since the folder was read
            os.sched_setaffinity(int(thread.name), chosen)


def cores_of(pid: int) -> frozenset[int]:
    """The cores that a process may run on; empty when it has ended."""
    try:
        return frozenset(os.sched_getaffinity(pid))
    except ProcessLookupError:
        return frozenset()


def settle_torch(recipe: Recipe) -> None:
    """Sets threads, precisions and cuDNN as the recipe says, whatever a user's model or data set has set."""
    torch.set_num_threads(recipe.threads)
    torch.set_float32_matmul_precision(recipe.matmul_precision)
    torch.backends.cudnn.allow_tf32 = recipe.tf32_convolutions
    torch.backends.cudnn.benchmark = recipe.cudnn_benchmark
    torch.backends.cudnn.deterministic = recipe.cudnn_deterministic
    torch.autograd.set_detect_anomaly(recipe.anomaly_detection)


def settle_backend(recipe: Recipe) -> None:
    """Sets all that a process chooses as the recipe says; the defaults of PyTorch and Python are not trusted."""
    settle_torch(recipe)
    _settle_garbage_collector(recipe)
    if len(multiprocessing.get_all_sharing_strategies()) > 1:  # macOS has but one, and refuses the other's name
        multiprocessing.set_sharing_strategy(recipe.sharing_strategy)


def settle_process(recipe: Recipe, device: Device) -> None:
    """All that is set before an arm is built."""
    settle_backend(recipe)
    PASSES.begin()
    if recipe.blocking_sync:
        device.block()


def effective_backend() -> dict[str, Value]:
    """The same options, read back."""
    return {
        "threads": torch.get_num_threads(),
        "matmul_precision": torch.get_float32_matmul_precision(),
        "tf32_convolutions": torch.backends.cudnn.allow_tf32,
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "cudnn_deterministic": torch.backends.cudnn.deterministic,
        "anomaly_detection": _remembers_origins(),
        "automatic_collection": gc.isenabled(),
        "frozen_objects": gc.get_freeze_count() > 0,
    }


def _settle_garbage_collector(recipe: Recipe) -> None:
    if recipe.garbage_collector != "off":
        gc.unfreeze()
        gc.enable()
        return
    PASSES.collect()
    gc.freeze()  # what the imports have made is not looked at again, even by a collection that somebody asks for
    gc.disable()


def _remembers_origins() -> bool:
    """Whether operators note where they were called, so that a NaN in the backward pass can be told its origin."""
    with torch.enable_grad():
        origin = (torch.ones((), requires_grad=True) * 1).grad_fn
    kept: dict[str, object] = getattr(origin, "metadata", {})  # typed as a method where it is a mapping
    return torch.is_anomaly_check_nan_enabled() and "traceback_" in kept
