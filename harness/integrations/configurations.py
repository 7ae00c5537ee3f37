"""Configurations for other tools: one run of the command line for each workload, read back as samples.

The tools have clocks of their own, which know no pairs, no replicates and no active settings; so they are given what
the harness measured, and never time anything again.
"""

import math
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.analyze.collection import StoredRun
from harness.analyze.estimate import Estimate
from harness.analyze.evidence import Evidence, gather
from harness.analyze.matrix import Row
from harness.cli.reading import read_kept
from harness.core.mistake import Mistake
from harness.core.records import Window
from harness.store import read_records, read_run

STOPPED = 130  # exit status of a run that was interrupted


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is measured together: comparisons of one workload, which share a reference."""

    workload: str
    others: tuple[str, ...] = ()  # workloads beside it, which share the time
    labels: tuple[str, ...] = ()  # NAME or NAME=LEVEL; all of the design when empty
    stack: str | None = None  # one more comparison: everything, original or A+B=2
    size: str | None = None
    device: str = "auto"
    budget: str = "70s"

    @property
    def command(self) -> tuple[str, ...]:
        """The words of the command line that measures it, without the places."""
        only = (word for label in self.labels for word in ("--only", label))
        stack = ("--stack", self.stack) if self.stack else ()
        size = ("--size", self.size) if self.size else ()
        limits = (*size, "--device", self.device, "--target", "none", "--budget", self.budget)
        return "run", self.workload, *self.others, *stack, *only, *limits


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


def measured(wanted: Wanted, results: Path, data: Path | None = None) -> Path:
    """Measures it in a process of its own and gives the run's folder below `results`.

    Raises Mistake with what the command said when there is no run to read afterwards, KeyboardInterrupt when it was
    stopped.
    """
    before = set(_runs(results))
    places = ("--results", str(results), *(("--data", str(data)) if data else ()), "--fresh")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "harness", *wanted.command, *places], capture_output=True, text=True, check=False
    )
    if done.returncode == STOPPED:
        raise KeyboardInterrupt
    found = sorted(set(_runs(results)) - before)
    if not found:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise Mistake(said[0] if said else f"'speedmatrix {' '.join(wanted.command)}' measured nothing.")
    return found[-1]


def _runs(results: Path) -> Iterator[Path]:
    return (path.parent for path in results.glob("*/*/run.json"))


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
