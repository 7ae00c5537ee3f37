"""asv: both variants, each in two fresh processes, which is asv's usual number of rounds.

asv imports every file of this folder. Steps are built in the warm-up and not in a `setup`: asv would call that again
before each sample.
"""

from benchmarks.precision.passes import step
from benchmarks.precision.told import settings

REPEAT = (2, 1_000_000, settings()["seconds"])  # at least, at most, seconds of a process


def time_reference() -> None:
    """A step of the reference."""
    step(0)()


def time_treatment() -> None:
    """A step of the treatment."""
    step(1)()


for _one in (time_reference, time_treatment):
    _one.repeat = REPEAT  # type: ignore[attr-defined]
