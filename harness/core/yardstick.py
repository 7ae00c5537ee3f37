"""Yardsticks: what the files of the real system weigh and cost to read, against which stand-ins are held."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Yardstick:
    """One kind of file of a workload, read or prepared as the real system does it.

    Costs on different machines cannot be compared. So the same work is also done, on the same machine, on a file of
    the real system's own type and size whose content is neutral; `published_ms` is shown beside both.
    """

    what: str  # "an utterance of 8 s, read whole"
    mean_bytes: float  # of our files
    target_bytes: float  # of the real system's
    work: Callable[[], object]  # on one of our files, or on several in turn
    like: Callable[[], object] | None = None  # the same on a neutral file of the real size
    published_ms: float | None = None  # what was measured for the real system on another machine
    units: int = 1  # that one call of `work`, and one of `like`, handles in turn
    scale: float = 1.0  # the share of the real unit that `mean_bytes` and one call of `work` are, where that is less
