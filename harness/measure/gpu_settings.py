"""The settings of a GPU that change what is measured on it, as its driver and the system tell them; without torch."""

import os
from dataclasses import dataclass
from pathlib import Path

import psutil

from harness.measure.driver import MEMORY_CLOCK, SM_CLOCK, Driver

UNCORRECTED, SINCE_LOADED = 1, 0  # NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC
MPS_PIPES, MPS_PROGRAM = Path("/tmp/nvidia-mps"), "nvidia-cuda-mps"  # noqa: S108  where its daemon puts them


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSettings:
    """Whatever is None was not told: a part of a device and a virtual one have few of these."""

    clock_mhz: float | None  # of the multiprocessors, at this moment
    most_clock_mhz: float | None
    memory_clock_mhz: float | None
    power_limit_w: float | None
    persistent: bool | None  # the driver stays loaded while no program runs
    memory_errors: int | None  # that could not be corrected, since the driver was loaded


def read_settings(driver: Driver) -> GpuSettings:
    """The settings of one device."""
    limit_mw = driver.number("nvmlDeviceGetEnforcedPowerLimit")
    persistent = driver.ask("nvmlDeviceGetPersistenceMode")
    errors = driver.ask("nvmlDeviceGetTotalEccErrors", UNCORRECTED, SINCE_LOADED)
    return GpuSettings(
        clock_mhz=driver.number("nvmlDeviceGetClockInfo", SM_CLOCK),
        most_clock_mhz=driver.number("nvmlDeviceGetMaxClockInfo", SM_CLOCK),
        memory_clock_mhz=driver.number("nvmlDeviceGetClockInfo", MEMORY_CLOCK),
        power_limit_w=None if limit_mw is None else limit_mw / 1000,
        persistent=None if persistent is None else bool(persistent),
        memory_errors=None if errors is None else int(errors),
    )


def multi_process_service() -> str | None:
    """What shows that NVIDIA's Multi-Process Service stands between programs and the device; None where nothing does.

    CUDA_MPS_PIPE_DIRECTORY and its default are those of the NVIDIA Multi-Process Service documentation.
    """
    pipes = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", MPS_PIPES))
    if (pipes / "control").exists():
        return f"pipes in {pipes}"
    named = (str(one.info["name"]) for one in psutil.process_iter(["name"]))
    return next((f"{name} is running" for name in named if name.startswith(MPS_PROGRAM)), None)
