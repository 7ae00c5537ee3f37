"""Studies: what was measured of one workload on one machine, as the stage model takes it."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from harness.core.cell import Switch
from harness.core.optimization import Stage

Stack = tuple[Switch, ...]  # sorted by name


class Signal(StrEnum):
    """What was seen of a cell beside its rate, as seconds for each sample."""

    LOADER = "loader"  # its batches taken and thrown away
    WAIT = "wait"  # for batches that the host loads itself, while it trains
    COMPUTE = "compute"  # its step on batches that lie on the device already
    SPAN = "span"  # from the first kernel of a step to the last, as events on the device tell
    DEVICE = "device"  # kernels alone, as a profiler tells
    HOST = "host"  # launching alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangement:
    """One stack as the model sees it."""

    switches: Stack
    overlapped: bool  # loader workers prepare batches while the step runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What was seen of one measured cell beside its rate."""

    arrangement: Arrangement
    seconds: Mapping[Signal, float]  # a sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One measured ratio of rates."""

    treatment: Arrangement
    reference: Arrangement
    log_ratio: float  # above 0 is faster
    deviation: float  # its standard error


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """All that was measured; the first ratio's reference is what absolute times are tied to."""

    ratios: tuple[Compared, ...]
    sights: tuple[Sight, ...]
    seconds: float  # a sample of the first ratio's reference takes
    declared: Mapping[str, Stage]  # optimization -> the stage that it is said to act on
    asynchronous: bool  # the device works while the host goes on: a GPU

    @property
    def arrangements(self) -> tuple[Arrangement, ...]:
        """Every cell of the study once, the first ratio's reference first."""
        both = (one for ratio in self.ratios for one in (ratio.reference, ratio.treatment))
        return tuple(dict.fromkeys((*both, *(sight.arrangement for sight in self.sights))))


def log_times(study: Study) -> dict[Stack, float]:
    """Log seconds of a sample of every stack that ratios lead to from the first reference, as they were measured.

    A stack that was measured several times against the same has their mean, the surer ones weighing more.
    """
    found = {study.ratios[0].reference.switches: math.log(study.seconds)}
    while True:
        reached: dict[Stack, list[tuple[float, float]]] = defaultdict(list)
        for one in study.ratios:
            start = found.get(one.reference.switches)
            if start is not None and one.treatment.switches not in found:
                reached[one.treatment.switches].append((start - one.log_ratio, one.deviation**-2))
        if not reached:
            return found
        for stack, values in reached.items():
            found[stack] = sum(time * weight for time, weight in values) / sum(weight for _, weight in values)


def joined(studies: Sequence[Study]) -> Study:
    """Studies of one workload and machine as one; raises ValueError where their first references differ."""
    first = studies[0]
    if any(one.ratios[0].reference != first.ratios[0].reference for one in studies):
        raise ValueError("studies with different references cannot be joined")
    return replace(
        first,
        ratios=tuple(ratio for one in studies for ratio in one.ratios),
        sights=tuple(sight for one in studies for sight in one.sights),
    )
