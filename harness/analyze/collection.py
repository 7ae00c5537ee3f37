"""The collection: rows of many runs, each beside where it was found; the surest answers, runs are never pooled."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from harness.analyze.matrix import Matrix, Row, Table
from harness.core.cell import Cell
from harness.core.control import is_control
from harness.core.environment import Environment
from harness.core.optimization import Timing

TOO_SMALL = "smoke"  # shows that things run; its times are no evidence unless somebody asks for them


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """One run that was kept, read to its matrix."""

    name: str  # of its folder, without where it lies; begins with the day: 20261120T212407-478beb59
    began: str  # UTC, ISO 8601
    command: str
    version: str  # of the harness
    matrix: Matrix
    contributed: bool = False  # it was measured by somebody else and taken in

    @property
    def environment(self) -> Environment:
        """Where it was measured."""
        return self.matrix.environment

    @property
    def machine(self) -> str:
        """The neutral name of the machine."""
        return self.environment.machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a row answers: two rows with the same question may stand in for each other, and never be pooled."""

    environment: str  # digest
    treatment: Cell
    reference: Cell
    timing: Timing
    data: str  # what the workload's real data are, in words; empty for the suite's own
    copy: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A row, its table and its run."""

    kept: Kept
    table: Table
    row: Row

    @property
    def question(self) -> Question:
        """What the row answers."""
        comparison = self.row.comparison
        return Question(
            environment=self.kept.environment.digest,
            treatment=comparison.treatment,
            reference=comparison.reference,
            timing=comparison.timing,
            data=self.kept.matrix.data.get(comparison.treatment.workload, ""),
            copy=comparison.copy,
        )


def entries(runs: Iterable[Kept]) -> Iterator[Entry]:
    """Every row of all runs, the newest run first, without sizes that prove nothing and delays that nobody wants."""
    for kept in sorted(runs, key=lambda one: (one.began, one.name), reverse=True):
        for table in kept.matrix.tables:
            if table.cell.size != TOO_SMALL:
                wanted = (row for row in table.rows if not is_control([row.comparison.treatment]))
                yield from (Entry(kept=kept, table=table, row=row) for row in wanted)


def surest(runs: Iterable[Kept]) -> tuple[Entry, ...]:
    """One entry for each question: the narrowest interval that the newest version gave, or else the newest words.

    Width is blind to what was found (docs/decisions/published-tables.md).
    """
    found: dict[Question, Entry] = {}
    for entry in entries(runs):
        held = found.get(entry.question)
        if held is None or _is_surer(entry, held):
            found[entry.question] = entry
    return tuple(found.values())


def _is_surer(older: Entry, held: Entry) -> bool:
    if older.row.estimate is None or held.row.estimate is None:
        return held.row.estimate is None and older.row.estimate is not None
    narrower = older.row.estimate.half_width < held.row.estimate.half_width * (1 - 1e-9)  # beyond rounding
    return narrower and older.kept.version == held.kept.version
