"""A driver that was planted: stands in for pynvml, and answers what a test has told it."""

from dataclasses import dataclass
from typing import Any


class Refused(Exception):
    """What NVML raises for whatever it does not do."""


class Mismatched(Exception):
    """What pynvml raises where it is newer than the driver."""


class Nvml:
    """Each function gives its answer, or raises it; a list gives one answer a call; what is not named is missing."""

    NVMLError, NVMLLibraryMismatchError = Refused, Mismatched

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        if name not in self.answers:
            raise AttributeError(name)

        def answer(*given: Any) -> Any:
            self.asked.append((name, given))
            found = self.answers[name]
            if name not in LISTED and isinstance(found, list):
                found = found.pop(0)
            if isinstance(found, Exception):
                raise found
            return found(*given) if callable(found) else found

        return answer


LISTED = {"nvmlDeviceGetComputeRunningProcesses"}  # whose answer is a list itself


@dataclass(frozen=True, slots=True)
class Running:
    """A process on the device."""

    pid: int
    usedGpuMemory: int | None = None  # noqa: N815  as pynvml has it
