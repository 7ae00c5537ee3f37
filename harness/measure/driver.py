"""The driver of an NVIDIA device, asked through NVML; what it does not know, or will not tell, is None."""

from dataclasses import dataclass
from typing import Any

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
    """The device that CUDA knows by that identity, or the first one; nobody to ask where no driver answers.

    CUDA numbers the devices that it may see, NVML all that there are: only the identity means the same to both.
    """
    try:
        import pynvml
    except ImportError:
        return Driver()
    try:
        pynvml.nvmlInit()
        return Driver(pynvml, _handle(pynvml, identity))
    except pynvml.NVMLError:
        return Driver()


def _handle(nvml: Any, identity: str | None) -> Any:
    if identity is None:
        return nvml.nvmlDeviceGetHandleByIndex(0)
    try:
        return nvml.nvmlDeviceGetHandleByUUID(f"GPU-{identity}")
    except nvml.NVMLError:
        return nvml.nvmlDeviceGetHandleByUUID(f"MIG-{identity}")
