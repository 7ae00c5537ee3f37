"""Studies: what was measured of one workload on one machine, as the stage model takes it."""

from collections.abc import Mapping
from dataclasses import dataclass
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
