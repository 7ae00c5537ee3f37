"""The driver of an NVIDIA device, asked through NVML; what it does not know, or will not tell, is None."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

SM_CLOCK, MEMORY_CLOCK = 1, 2  # NVML_CLOCK_SM, NVML_CLOCK_MEM


@dataclass(frozen=True, slots=True)
class Driver:
    """One device. Without a handle it stands for no device, or for one whose driver does not answer."""

    nvml: Any = None  # the module pynvml, or what stands in for it
    handle: Any = None

    def ask(self, name: str, *given: Any) -> Any:
        """What the NVML function of that name answers; None where this driver or device has none (vGPU, MIG)."""
        function = getattr(self.nvml, name, None)
        if function is None:
            return None
        try:
            return function(self.handle, *given)
        except (self.nvml.NVMLError, self.nvml.NVMLLibraryMismatchError):
            return None

    def number(self, name: str, *given: Any) -> float | None:
        """The same as a number."""
        answer = self.ask(name, *given)
        return None if answer is None else float(answer)


def driver_of(identity: str | None = None) -> Driver:
    """The device that CUDA knows by that identity, or the first that it may see; nobody to ask where no driver answers.

    CUDA numbers the devices that it may see, NVML all that there are: only the identity means the same to both.
    """
    try:
        import pynvml
    except ImportError:
        return Driver()
    try:
        pynvml.nvmlInit()
        handle = _handle(pynvml, identity)
        return Driver() if handle is None else Driver(pynvml, handle)
    except pynvml.NVMLError:
        return Driver()


def _handle(nvml: Any, identity: str | None) -> Any:
    if identity is None:
        first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
        if first.startswith(("GPU-", "MIG-")):
            return nvml.nvmlDeviceGetHandleByUUID(first)
        return nvml.nvmlDeviceGetHandleByIndex(int(first)) if first.isdecimal() else None  # all are hidden
    try:
        return nvml.nvmlDeviceGetHandleByUUID(f"GPU-{identity}")
    except nvml.NVMLError:
        return nvml.nvmlDeviceGetHandleByUUID(f"MIG-{identity}")


# The settings of a GPU that change what is measured on it, as its driver and the system tell them; without torch.

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
