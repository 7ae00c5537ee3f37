"""The clock: windows timed as a whole, the device synchronised only at their two ends."""

import gc
from collections.abc import Callable
from time import perf_counter

import torch


def synchronize(device: torch.device) -> None:
    """Waits until the device has done all that was asked of it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def timed(call: Callable[[], object], times: int, device: torch.device) -> float:
    """Seconds for a number of calls without interruption, the device's work included."""
    synchronize(device)
    began = perf_counter()
    for _ in range(times):
        call()
    synchronize(device)
    return perf_counter() - began


def stamped(call: Callable[[], object], times: int, device: torch.device) -> list[float]:
    """The host's clock before each of so many calls and after the last, which waits for the device's work.

    A stamp costs a tenth of a microsecond. Between two stamps a device that works on its own was only asked.
    """
    synchronize(device)
    stamps = [perf_counter()]
    for _ in range(times):
        call()
        stamps.append(perf_counter())
    synchronize(device)
    stamps[-1] = perf_counter()
    return stamps


def forget_memory(device: torch.device) -> None:
    """Gives back what the caching allocator holds for nobody and begins its peak anew."""
    if device.type == "cuda":
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def device_bytes(device: torch.device) -> int | None:
    """Peak of the caching allocator since its warm-up began; None on a CPU."""
    return torch.cuda.max_memory_reserved(device) if device.type == "cuda" else None
