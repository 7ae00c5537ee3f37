"""The driver of an NVIDIA device, asked through NVML; what it does not know, or will not tell, is None."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from harness.core.environment import LAUNCHER
from harness.core.records import reasons

if TYPE_CHECKING:
    from harness.measure.devices import Device

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


# The board: what the driver tells before and after a window, and never in it.
#
# An answer may take the driver a millisecond, in which loader workers go on filling their queue, and a device that runs
# behind its host runs out of work. So all that is read between the lead-in of a window and its first timed step is one
# counter, and beside such a device nothing: the counter is read before the lead-in, which gets its share by time.

CORE_TEMPERATURE = 0  # NVML_TEMPERATURE_GPU


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """One device, and the process whose descendants belong on it; without a driver it knows nothing."""

    driver: Driver = field(default_factory=Driver)
    launcher: int = 0

    def strangers(self) -> int | None:
        """Processes on the device that are none of the launcher's; None where that cannot be known."""
        return _strangers(self._processes(), self.launcher)

    def energy_j(self) -> float | None:
        """Joules that the whole device has taken since its driver was loaded."""
        counted_mj = self.driver.number("nvmlDeviceGetTotalEnergyConsumption")
        return None if counted_mj is None else counted_mj / 1000

    def after(self, strangers: int | None, energy_j: float | None, share: float = 1.0) -> dict[str, Any]:
        """The fields of a Window that tell of the device, beside what was read before it; the counter comes first.

        The window has that share of the time since the counter was read before it.
        """
        spent_j, watts = _since(energy_j, self.energy_j()), self.driver.number("nvmlDeviceGetPowerUsage")
        return {
            "energy_j": None if spent_j is None else share * spent_j,
            "clock_mhz": self.driver.number("nvmlDeviceGetClockInfo", SM_CLOCK),
            "memory_clock_mhz": self.driver.number("nvmlDeviceGetClockInfo", MEMORY_CLOCK),
            "throttled": self._throttled(),
            "watts": None if watts is None else watts / 1000,
            "temperature_c": self.driver.number("nvmlDeviceGetTemperature", CORE_TEMPERATURE),
        } | self._company(strangers)

    def _throttled(self) -> tuple[str, ...] | None:
        for name in ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"):
            mask = self.driver.ask(name)
            if mask is not None:
                return reasons(mask)
        return None

    def _company(self, before: int | None) -> dict[str, Any]:
        processes = self._processes()
        known = [one for one in (before, _strangers(processes, self.launcher)) if one is not None]
        own = [one.usedGpuMemory for one in processes if one.pid == os.getpid()]
        return {"strangers": max(known, default=None), "process_bytes": own[0] if own else None}

    def _processes(self) -> Sequence[Any]:
        return self.driver.ask("nvmlDeviceGetComputeRunningProcesses") or ()


def board_of(device: "Device", ranks: int = 1) -> Board:
    """The board of a device; that of a CPU knows nothing, nor does that of one of several on which ranks train.

    What one device took, or how it was, is not what they all did.
    """
    driver = device.driver() if ranks == 1 else Driver()
    return Board(driver=driver, launcher=int(os.environ.get(LAUNCHER, os.getppid())))


def _strangers(processes: Sequence[Any], launcher: int) -> int | None:
    """How many of some processes on the device are strangers, where their numbers are those that we know.

    An arm computes there itself. In a container the driver may number processes as the host does, or hide them: where
    the arm does not find itself, the other numbers mean nothing either.
    """
    numbers = {one.pid for one in processes}
    return sum(_is_stranger(one, launcher) for one in numbers) if os.getpid() in numbers else None


def _is_stranger(number: int, launcher: int) -> bool:
    """Whether a process neither is the launcher nor was started below it; one that has ended is nobody."""
    try:
        above = psutil.Process(number).parents()
    except psutil.Error:  # it has ended, or is hidden from us
        return False
    return launcher not in {number, *(one.pid for one in above)}


def _since(before: float | None, now: float | None) -> float | None:
    """What a counter has gained; None where it was not read twice, or begun anew."""
    return None if before is None or now is None or now < before else now - before
