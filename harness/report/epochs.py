"""What the rates come to in the time of an epoch of the real system, before and after; of real sizes alone."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from harness.analyze.attribution import learns_alike
from harness.analyze.estimate import half_width_of
from harness.analyze.matrix import Matrix
from harness.analyze.profile import Profile
from harness.core.optimization import Timing
from harness.report.document import Column, Heading, Part, Text, tabled
from harness.report.words import called, duration, one_line

HOW = (
    "An epoch's samples divided by the rate that was measured; left out are evaluations and the start of each epoch, "
    "where loader workers begin with empty queues. Intervals are those of the processes of this run: a time holds for "
    "this machine and this hour, and is less sure than a ratio."
)
_COLUMNS = (
    Column(name="workload", whole=True),
    Column(name="configuration", short=True),
    Column(name="an epoch of", right=True, whole=True),
    Column(name="takes, 95 %", whole=True),
    Column(name="all epochs", whole=True),
    Column(name="steps/s", right=True, whole=True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """An epoch of the real system at the rate of one configuration, in seconds; how far off they may be is a factor."""

    workload: str
    label: str
    samples: int
    epochs: int | None  # of a whole training
    seconds: float  # of one
    factor: float | None  # the interval reaches from seconds / factor to seconds * factor; None of one process
    steps_per_s: float


def epochs(matrix: Matrix) -> tuple[Epoch, ...]:
    """Each workload's reference, and the fastest configuration that learns the same, if one is surely faster."""
    return tuple(one for name in sorted(matrix.epochs) for one in _of(matrix, name))


def _of(matrix: Matrix, name: str) -> Iterator[Epoch]:
    tables = (one for one in matrix.tables if one.config.workload == name and one.timing is Timing.STEP)
    table = next((one for one in tables if one.profile), None)
    if table is None or table.profile is None:
        return
    yield _at(matrix, name, table.name, table.profile)
    faster = (one for one in table.rows if one.estimate and one.estimate.verdict.gains and one.treatment)
    alike = filter(learns_alike, faster)
    best = max(alike, key=lambda one: one.estimate.low if one.estimate else 0.0, default=None)
    if best and best.treatment:
        yield _at(matrix, name, best.label, best.treatment)


def _at(matrix: Matrix, workload: str, label: str, profile: Profile) -> Epoch:
    samples = matrix.epochs[workload]
    logs = [math.log(one) for one in profile.replicate_rates]
    factor = math.exp(half_width_of(stdev(logs), len(logs))) if len(logs) > 1 else None
    rate = math.exp(fmean(logs)) if logs else profile.rate
    return Epoch(
        workload=workload,
        label=label,
        samples=samples,
        epochs=matrix.trainings.get(workload),
        seconds=samples / rate,
        factor=factor,
        steps_per_s=rate / profile.config.batch,
    )


def epoch_parts(matrix: Matrix) -> Iterator[Part]:
    """The table with what it means; nothing where no size is the real system's, nor beside a device that is emulated.

    Its step times come from a table, of whose error intervals know nothing.
    """
    found = () if matrix.environment.emulated else epochs(matrix)
    if found:
        yield Heading("An epoch", 2)
        yield from tabled(_COLUMNS, map(_cells, found))
        yield Text(HOW)


def epoch_data(one: Epoch) -> dict[str, Any]:
    """The same as data."""
    interval = [one.seconds / one.factor, one.seconds * one.factor] if one.factor else None
    return {
        "workload": one.workload,
        "configuration": one.label,
        "samples": one.samples,
        "epochs": one.epochs,
        "seconds": one.seconds,
        "interval_s": interval,
        "steps_per_s": one.steps_per_s,
    }


def _cells(one: Epoch) -> tuple[str, ...]:
    return (
        one_line(one.workload),
        called(one_line(one.label)),
        f"{one.samples:,} samples",
        _lasting(one.seconds, one.factor),
        f"{one.epochs}: {_lasting(one.epochs * one.seconds, one.factor)}" if one.epochs else "",
        f"{one.steps_per_s:.3g}",
    )


def _lasting(seconds: float, factor: float | None) -> str:
    return duration(seconds) + (f" [{duration(seconds / factor)}, {duration(seconds * factor)}]" if factor else "")
