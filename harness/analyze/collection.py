"""The collection: rows of many runs, each beside where it was found; the surest answers, runs are never pooled."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness.analyze.estimate import Estimate, surest_of
from harness.analyze.grouping import together
from harness.analyze.matrix import Matrix, Row, Table
from harness.core.configuration import Configuration, is_control
from harness.core.environment import Environment
from harness.core.optimization import Timing

TOO_SMALL = "smoke"  # shows that things run; its times are no evidence unless somebody asks for them


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """One run from the result store, read to its matrix."""

    name: str  # of its folder, without where it lies; begins with the day: 20261120T212407-478beb59
    began: str  # UTC, ISO 8601
    command: str
    version: str  # of the harness
    matrix: Matrix

    @property
    def environment(self) -> Environment:
        """Where it was measured."""
        return self.matrix.environment

    @property
    def machine(self) -> str:
        """The neutral name of the machine."""
        return self.environment.machine

    @property
    def contributed(self) -> bool:
        """Whether somebody else measured it."""
        return self.matrix.contributed


def unnamed(matrix: Matrix) -> StoredRun:
    """A matrix as the only thing that is known of its run."""
    return StoredRun(name="", began="", command="", version="", matrix=matrix)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a row answers: two rows with the same question may stand in for each other, and never be pooled."""

    environment: str  # digest
    treatment: Configuration
    reference: Configuration
    timing: Timing
    data: str  # what the workload's real data are, in words; empty for the suite's own
    copy: int
    shared: bool = False  # the arms lived in one process
    contributed: bool = False  # somebody else measured it


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRow:
    """A row, its table and its run."""

    run: StoredRun
    table: Table
    row: Row

    @property
    def data(self) -> str:
        """What the real data of its workload are, in words; empty for the suite's own."""
        return self.run.matrix.data.get(self.row.comparison.treatment.workload, "")

    @property
    def question(self) -> Question:
        """What the row answers."""
        comparison = self.row.comparison
        return Question(
            environment=self.run.environment.digest,
            treatment=comparison.treatment,
            reference=comparison.reference,
            timing=comparison.timing,
            data=self.data,
            copy=comparison.copy,
            shared=self.row.estimate is not None and self.row.estimate.shared,
            contributed=self.run.contributed,
        )


def rows_of(run: StoredRun) -> Iterator[StoredRow]:
    """Every row of a run, small sizes too."""
    return (StoredRow(run=run, table=table, row=row) for table in run.matrix.tables for row in table.rows)


def entries(runs: Iterable[StoredRun]) -> Iterator[StoredRow]:
    """Every row of all runs, the newest run first, without sizes that prove nothing and delays that nobody wants."""
    for run in sorted(runs, key=lambda one: (one.began, one.name), reverse=True):
        for one in rows_of(run):
            if one.table.config.size != TOO_SMALL and not is_control([one.row.comparison.treatment]):
                yield one


def surest(runs: Iterable[StoredRun]) -> tuple[StoredRow, ...]:
    """One entry for each question: of the newest version's with most replicates the newest, or the newest words.

    Where widths ended the measurement of both of the newest two it is the narrower; their wider point pays for the
    choice. It is not the narrowest of all: of many that is one whose scatter was underestimated
    (docs/decisions/published-tables.md). One from a disturbed machine stands only where there is no other.
    """
    asked = together((entry.question, entry) for entry in entries(runs))
    return tuple(map(surest_among, asked.values()))


def surest_among(answers: Sequence[StoredRow]) -> StoredRow:
    """The surest of answers to one question, the newest first; they may be of shared and of isolated arms."""
    known = [(one.row.estimate, one) for one in answers if one.row.estimate is not None]
    if not known:
        return answers[0]
    known = [(estimate, one) for estimate, one in known if one.run.version == known[0][1].run.version]
    return surest_of(known)


# Repeated answers: the same question measured by two runs, each with processes of its own, often on different days.
#
# The ratios of two honest 95 % intervals differ by no more than the root of the sum of both squared half-widths in 95 %
# of cases at least. How often one interval holds the other ratio depends on both widths, and is not counted.

WIDEST = math.log(1.5)  # half-width beyond which an answer cannot disagree


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated:
    """A question with an estimate of an earlier run and one of the next run that asked it."""

    earlier: StoredRow
    later: StoredRow
    first: Estimate
    second: Estimate

    @property
    def apart(self) -> float:
        """The log of the later ratio over the earlier one."""
        return math.log(self.second.ratio / self.first.ratio)

    @property
    def agrees(self) -> bool:
        """Whether the difference of the two lies within the 95 % interval of a difference."""
        return abs(self.apart) <= math.hypot(self.first.half_width, self.second.half_width)

    @property
    def expected(self) -> float:
        """How often honest pairs agree at least: 0.95, or 0.97 where the number of replicates depended on widths."""
        return 2 * min(self.first.point, self.second.point) - 1

    @property
    def can_disagree(self) -> bool:
        """Whether both were measured on a calm machine, and within ±50 %."""
        return all(not one.disturbed and one.half_width <= WIDEST for one in (self.first, self.second))

    @property
    def on_one_day(self) -> bool:
        """Whether both runs began on the same day."""
        return self.earlier.run.began[:10] == self.later.run.began[:10]


def repeated(runs: Iterable[StoredRun]) -> tuple[Repeated, ...]:
    """Every question that two runs of the same version and environment answered; the furthest apart first."""
    answers = (one for one in entries(runs) if one.row.estimate is not None and not one.run.contributed)
    asked = together(((one.question, one.run.version), one) for one in answers)
    found = [
        Repeated(earlier=earlier, later=later, first=earlier.row.estimate, second=later.row.estimate)
        for held in asked.values()
        for later, earlier in pairwise(held)
        if earlier.row.estimate and later.row.estimate
    ]
    return tuple(sorted(found, key=lambda one: -abs(one.apart)))
