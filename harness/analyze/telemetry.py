"""Telemetry: what the records of a matrix say about the stages of its cells, as the stage model takes it.

The records hold no time of the device's kernels alone and none of the host's launching alone: a profiler would have to
run beside the clock. They hold four times that see one stage or two, for every cell that was timed on steps.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import geometric_mean

import numpy as np

from harness.analyze.estimate import Estimate
from harness.analyze.matrix import Matrix, Row, Table
from harness.analyze.profile import Profile
from harness.analyze.study import Arrangement, Compared, Sight, Signal, Stack, Study
from harness.core.optimization import Stage, Timing


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What the catalogue says of stacks."""

    stages: Mapping[str, Stage]  # optimization -> the stage that it acts on
    overlapped: Callable[[Stack], bool]  # whether a stack has loader workers

    def arrangement(self, stack: Stack) -> Arrangement:
        """The stack as the model sees it."""
        return Arrangement(switches=stack, overlapped=self.overlapped(stack))


def signals(profile: Profile, *, overlapped: bool) -> dict[Signal, float]:
    """Seconds for each sample that were seen of one cell beside its rate.

    Behind loader workers, waiting tells no stage: it is what remains of loading when the rest of the step is over.
    """
    found = {
        Signal.WAIT: None if overlapped or profile.phases.overlapped else profile.phases.input_wait / profile.rate,
        Signal.LOADER: 1 / profile.loader_rate if profile.loader_rate else None,
        Signal.COMPUTE: 1 / profile.compute_rate if profile.compute_rate else None,
        Signal.SPAN: profile.device_span / profile.rate if profile.device_span else None,
    }
    return {signal: seconds for signal, seconds in found.items() if seconds}


def study_of(matrix: Matrix, workload: str, declared: Declared) -> Study | str:
    """All that a matrix says of one workload's training steps; words where it says nothing.

    Only cells of one batch are taken: the first table's, whose reference ties the times to seconds. A ratio without any
    bound tells nothing.
    """
    tables = [table for table in matrix.tables if table.cell.workload == workload and table.timing is Timing.STEP]
    tables = [table for table in tables if any(map(_bounded, table.rows))]
    if not tables:
        return f"no ratio of {workload} was measured on training steps"
    like, rate = tables[0].cell, next(row.reference.rate for row in tables[0].rows if row.reference)
    tables = [table for table in tables if (table.cell.size, table.cell.batch) == (like.size, like.batch)]
    rows = [row for table in tables for row in filter(_bounded, table.rows)]
    rows = [row for row in rows if row.comparison.treatment.batch == like.batch]
    return Study(
        ratios=tuple(_compared(row, row.estimate, declared) for row in rows if row.estimate),
        sights=tuple(_sights(tables, declared)),
        seconds=1 / rate,
        declared=declared.stages,
        asynchronous=matrix.environment.device == "cuda",
    )


def _bounded(row: Row) -> bool:
    return row.estimate is not None and math.isfinite(row.estimate.high)


def _compared(row: Row, estimate: Estimate, declared: Declared) -> Compared:
    deviation, _ = estimate.standard_error
    return Compared(
        treatment=declared.arrangement(row.comparison.treatment.switches),
        reference=declared.arrangement(row.comparison.reference.switches),
        log_ratio=float(np.log(estimate.ratio)),
        deviation=deviation,
    )


def _sights(tables: Iterable[Table], declared: Declared) -> Iterable[Sight]:
    """What was seen of each cell; of one that several tables hold, the geometric means."""
    seen: dict[Stack, dict[Signal, list[float]]] = defaultdict(lambda: defaultdict(list))
    for table in tables:
        for profile in (table.profile, *(row.treatment for row in table.rows if row.estimate)):
            if profile and profile.cell.batch == table.cell.batch:
                overlapped = declared.overlapped(profile.cell.switches)
                for signal, seconds in signals(profile, overlapped=overlapped).items():
                    seen[profile.cell.switches][signal].append(seconds)
    for stack, found in seen.items():
        means = {signal: geometric_mean(values) for signal, values in found.items()}
        yield Sight(arrangement=declared.arrangement(stack), seconds=means)
