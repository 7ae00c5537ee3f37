"""Footprints: the peak memory of stacks that nobody measured, as a product of what each switch does to it.

The log of a peak is taken as a sum over switches, fitted by least squares with a ridge: a switch is expected to do
little until cells show otherwise. It serves to leave out what would not fit, and is never shown as a result.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from harness.analyze.matrix import Matrix
from harness.analyze.profile import Profile, host_memory
from harness.analyze.study import Stack
from harness.core.cell import Switch
from harness.core.environment import Environment

EXPECTED, NOISE = 0.3, 0.03  # standard deviations of log bytes: of what a switch does, and of a measured peak


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """What a stack needs of one memory, in bytes."""

    base: float  # log bytes with nothing on
    effects: Mapping[Switch, float]  # on log bytes
    limit: int  # bytes that there are

    def peak(self, stack: Stack) -> float:
        """The predicted peak; a switch that was never measured changes nothing."""
        return float(np.exp(self.base + sum(self.effects.get(one, 0.0) for one in stack)))

    def fits(self, stack: Stack) -> bool:
        """Whether the predicted peak is within the memory that there is."""
        return self.peak(stack) <= self.limit


def footprints(matrices: Iterable[Matrix], workload: str, environment: Environment) -> tuple[Footprint, ...]:
    """The host's footprint and, where there is one, the device's; nothing before anything was measured."""
    profiles = [one for matrix in matrices for one in _profiles(matrix, workload)]
    limit = environment.accelerator_memory_bytes
    host = list(zip((one.cell.switches for one in profiles), host_memory(*profiles)[1], strict=True))
    device = [(one.cell.switches, one.device_bytes) for one in profiles if one.device_bytes]
    found = [fitted(host, environment.memory_bytes)] if host else []
    return (*found, fitted(device, limit)) if device and limit else tuple(found)


def fitted(peaks: Iterable[tuple[Stack, int]], limit: int) -> Footprint:
    """The footprint from measured peaks of stacks, in bytes."""
    stacks, measured = zip(*peaks, strict=True)
    switches = sorted({one for stack in stacks for one in stack}, key=str)
    logs = np.log(np.array(measured, dtype=np.float64))
    rows = np.array([[1.0, *(float(one in stack) for one in switches)] for stack in stacks])
    ridge = np.diag([1e-6, *(NOISE / EXPECTED for _ in switches)])
    goal = np.concatenate([logs - logs.mean(), np.zeros(1 + len(switches))])
    found = np.linalg.lstsq(np.vstack([rows, ridge]), goal, rcond=None)[0]
    effects = {one: float(effect) for one, effect in zip(switches, found[1:], strict=True)}
    return Footprint(base=float(found[0] + logs.mean()), effects=effects, limit=limit)


def _profiles(matrix: Matrix, workload: str) -> Iterable[Profile]:
    for table in matrix.tables:
        if table.cell.workload == workload:
            yield from (one for one in (table.profile, *(row.treatment for row in table.rows)) if one)
