"""The clock: bursts timed as a whole, the device synchronised only at their two ends."""

import os
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import psutil
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


def host_bytes() -> int:
    """Memory of this process and its loader workers, shared pages counted once (proportional set size)."""
    me = psutil.Process()
    return sum(_proportional_bytes(process.pid) for process in (me, *me.children(recursive=True)))


def _proportional_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return psutil.Process(os.getpid()).memory_info().rss if pid == os.getpid() else 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def device_bytes(device: torch.device) -> int | None:
    """Peak of the caching allocator since the arm began; None on a CPU."""
    return torch.cuda.max_memory_reserved(device) if device.type == "cuda" else None
