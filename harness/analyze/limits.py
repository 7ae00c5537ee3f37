"""Limits: what a device can do at most, as its maker says, and the share of it that a training uses.

The share is the "model FLOPs utilization" of Chowdhery et al. (2022), PaLM, appendix B: the arithmetic that the plain
training asks for, over what the device could have done in the same time. Work that a stack repeats counts nothing, and
work that it saves counts as done.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from harness.analyze.tables import document, entries
from harness.core.cell import Cell
from harness.core.environment import Environment
from harness.core.mistake import Mistake

Work = Mapping[tuple[str, str], int]  # workload and size -> operations for one sample, forward and backward


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The most operations a second of some devices: dense products of 16-bit numbers."""

    devices: tuple[str, ...]  # as their driver calls them, to the letter
    operations_per_s: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """All limits that are published, and all work that was counted."""

    limits: tuple[Limit, ...] = ()
    work: Work

    def share(self, rate: float, cell: Cell, environment: Environment) -> float | str:
        """The share of the limit at so many samples a second, or why there is none to tell."""
        if environment.accelerator is None:
            return "no limit is published of a CPU"
        limit = next((one for one in self.limits if environment.accelerator in one.devices), None)
        if limit is None:
            return f"no limit of {environment.accelerator} is known; harness/limits.toml holds those that are"
        work = self.work.get((cell.workload, cell.size))
        if work is None:
            return f"the work of a sample of {cell.workload} at size {cell.size} was not counted"
        return rate * work / limit.operations_per_s


def parse_limits(text: str, file: str) -> tuple[Limit, ...]:
    """The limits of a TOML text, tables `[[limit]]`; raises Mistake."""
    found = entries(document(text, file, {"limit"}), "limit", Limit, file)
    seen: set[str] = set()
    for limit in found:
        if not (math.isfinite(limit.operations_per_s) and limit.operations_per_s > 0 and limit.source.strip()):
            raise Mistake(f"{file} needs a limit above 0 and a source for {', '.join(limit.devices)}.")
        if twice := seen & set(limit.devices):
            raise Mistake(f"{file} names {min(twice)} twice; keep one.")
        seen |= set(limit.devices)
    return found
