"""Process-wide options, all set explicitly: the process belongs to one arm, so nothing is ever undone."""

import gc
import os
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from time import perf_counter

import torch
from torch import multiprocessing

from harness.core.mistake import Mistake
from harness.core.recipe import Recipe, Value
from harness.measure.devices import Device

# The clock: windows timed as a whole, the device synchronised only at their two ends.


def timed(call: Callable[[], object], times: int, device: Device) -> float:
    """Seconds for a number of calls without interruption, the device's work included."""
    device.synchronize()
    began = perf_counter()
    for _ in range(times):
        call()
    device.synchronize()
    return perf_counter() - began


def stamped(call: Callable[[], object], times: int, device: Device) -> list[float]:
    """The host's clock before each of so many calls and after the last, which waits for the device's work.

    A stamp costs a tenth of a microsecond. Between two stamps a device that works on its own was only asked.
    """
    device.synchronize()
    stamps = [perf_counter()]
    for _ in range(times):
        call()
        stamps.append(perf_counter())
    device.synchronize()
    stamps[-1] = perf_counter()
    return stamps


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


def settle_backend(recipe: Recipe) -> None:
    """Sets threads, precisions and cuDNN as the recipe says; PyTorch's own defaults are not trusted."""
    torch.set_num_threads(recipe.threads)
    torch.set_float32_matmul_precision(recipe.matmul_precision)
    torch.backends.cudnn.allow_tf32 = recipe.tf32_convolutions
    torch.backends.cudnn.benchmark = recipe.cudnn_benchmark
    torch.backends.cudnn.deterministic = recipe.cudnn_deterministic
    torch.autograd.set_detect_anomaly(recipe.anomaly_detection)
    _settle_garbage_collector(recipe)
    _settle_sharing(recipe)


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


def _settle_sharing(recipe: Recipe) -> None:
    if len(multiprocessing.get_all_sharing_strategies()) > 1:  # macOS has but one, and refuses the other's name
        multiprocessing.set_sharing_strategy(recipe.sharing_strategy)


def _settle_garbage_collector(recipe: Recipe) -> None:
    if recipe.garbage_collector != "off":
        gc.unfreeze()
        gc.enable()
        return
    gc.collect()
    gc.freeze()  # what the imports have made is not looked at again, even by a collection that somebody asks for
    gc.disable()


def _remembers_origins() -> bool:
    """Whether operators note where they were called, so that a NaN in the backward pass can be told its origin."""
    with torch.enable_grad():
        origin = (torch.ones((), requires_grad=True) * 1).grad_fn
    kept: dict[str, object] = getattr(origin, "metadata", {})  # typed as a method where it is a mapping
    return torch.is_anomaly_check_nan_enabled() and "traceback_" in kept
