"""Configurations for other tools: one run of the harness for each workload, read back as samples.

The tools have clocks of their own, which know no pairs, no replicates and no active settings; so they are given what
the harness measured, and never time anything again.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.analyze.collection import StoredRun
from harness.analyze.estimate import Estimate
from harness.analyze.evidence import Evidence, gather
from harness.analyze.matrix import Row
from harness.core.records import Window
from harness.results import read_kept
from harness.store import read_records, read_run


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """One comparison as other tools want it. Seconds for each optimizer step; relative times below 1 are gains."""

    row: Row
    reference_s: tuple[float, ...]  # of each window
    treatment_s: tuple[float, ...]
    # The treatment's time over the reference's: the interval's low end, the ratio of totals that reports show, and the
    # high end. Tools show the median of samples, and a median of pairs would not see a rare stall.
    relative: tuple[float, ...]

    @property
    def estimate(self) -> Estimate | None:
        """The ratio with its interval, where there is one."""
        return self.row.estimate


def samples(folder: Path) -> Iterator[tuple[str, Samples]]:
    """Every comparison of a run that was made at all, by its subject; samples are empty where there is no ratio."""
    kept: StoredRun = read_kept(folder)
    rows = {(row.comparison.treatment, row.comparison.timing, row.comparison.copy): row for row in kept.matrix.rows}
    for evidence in gather(read_run(folder).plan, read_records(folder)):
        comparison = evidence.comparison
        row = rows[comparison.treatment, comparison.timing, comparison.copy]
        yield row.label, _samples(row, evidence)


def _samples(row: Row, evidence: Evidence) -> Samples:
    if row.estimate is None:
        return Samples(row=row, reference_s=(), treatment_s=(), relative=())
    return Samples(
        row=row,
        reference_s=_step_times(evidence.reference.windows),
        treatment_s=_step_times(evidence.treatment.windows),
        relative=_relative(row.estimate),
    )


def _relative(estimate: Estimate) -> tuple[float, ...]:
    """The ratio alone where its interval has no end."""
    if not estimate.low or math.isinf(estimate.high):
        return (1 / estimate.ratio,)
    time, low, high = relative_step_time(estimate)
    return low, time, high


def _step_times(windows: Sequence[Window]) -> tuple[float, ...]:
    return tuple(window.wall_s / window.steps for window in windows)


def no_results(folder: Path) -> dict[str, str]:
    """The words for what could not be compared: of comparisons without a ratio, and of those never made."""
    kept = read_kept(folder)
    absent = {row.label: row.absence.words for row in kept.matrix.rows if row.absence is not None}
    return {no_result.label: no_result.reason for no_result in kept.matrix.no_results} | absent


def relative_step_time(estimate: Estimate) -> tuple[float, float, float]:
    """The estimate as a relative time with its interval, low and high: what tools want for which larger is worse."""
    return 1 / estimate.ratio, 1 / estimate.high, 1 / estimate.low
