"""The board: what an NVIDIA device's driver tells before and after a window, and never in it.

An answer may take the driver a millisecond, in which loader workers go on filling their queue, and a device that runs
behind its host runs out of work. So all that is read between the lead-in of a window and its first timed step is one
counter, and beside such a device nothing: the counter is read before the lead-in, which gets its share by time.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import psutil

from harness.core.environment import LAUNCHER
from harness.core.records import reasons
from harness.measure.devices import Device
from harness.measure.gpu import MEMORY_CLOCK, SM_CLOCK, Driver

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


def board_of(device: Device, ranks: int = 1) -> Board:
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
