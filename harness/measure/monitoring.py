"""Monitoring: memory and utilisation as a training script reads them for its log."""

from collections.abc import Callable
from dataclasses import dataclass

import psutil
import torch

from harness.measure.driver import driver_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one reading shows; the device's two values are None where no driver tells, as on a CPU."""

    host_bytes: int  # resident memory of this process
    cpu_share: float  # of one core, since the reading before
    device_share: float | None = None  # of the driver's last sampling period in which a kernel ran
    device_bytes: int | None = None  # in use on the device by everybody


def gauge_for(device: torch.device) -> Callable[[], Reading]:
    """A gauge whose handles are opened once, as they should be: by psutil, and on CUDA by NVML too."""
    process = psutil.Process()
    process.cpu_percent()  # the first answer is always 0
    return _cuda_gauge(process, device) if device.type == "cuda" else _host_gauge(process)


def _host_gauge(process: psutil.Process) -> Callable[[], Reading]:
    def read() -> Reading:
        return Reading(host_bytes=process.memory_info().rss, cpu_share=process.cpu_percent() / 100)

    return read


def _cuda_gauge(process: psutil.Process, device: torch.device) -> Callable[[], Reading]:
    driver = driver_of(str(torch.cuda.get_device_properties(device).uuid))

    def read() -> Reading:
        used, memory = driver.ask("nvmlDeviceGetUtilizationRates"), driver.ask("nvmlDeviceGetMemoryInfo")
        return Reading(
            host_bytes=process.memory_info().rss,
            cpu_share=process.cpu_percent() / 100,
            device_share=None if used is None else used.gpu / 100,
            device_bytes=None if memory is None else memory.used,
        )

    return read
