"""Winners: what a search for the fastest stack came to, and how sure it is."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from harness.analyze.estimate import Estimate
from harness.analyze.matrix import Matrix, Row
from harness.analyze.prediction import Decomposition, Foretold
from harness.analyze.quality import Agreement
from harness.analyze.soundness import Absence, Outcome
from harness.analyze.stage_model import Stack
from harness.core.configuration import Configuration, Option
from harness.core.optimization import Timing

SEARCH, WINNER = "search", "winner"  # what the plans of a search's later runs are called
_BROKEN = {Agreement.DIFFERS, Agreement.NAN}
_FINAL = {Outcome.FAILED, Outcome.SKIPPED, Outcome.NOT_ACTIVE, Outcome.NOT_COMPARABLE, Outcome.UNSOUND}


@dataclass(frozen=True, slots=True, kw_only=True)
class Certainty:
    """How far a search went."""

    ended: str  # why it ended, in words
    model: Foretold | str  # what the stage model had foretold, or why it was not trusted
    rounds: int  # of proposals that were measured
    measured: int  # stacks, the reference not counted
    stacks: int  # that there are at most, some of them impossible
    ranked: bool  # all of them were ranked
    gain: float | None  # predicted rate of the best unmeasured stack over the best measured one, less 1
    left_out: tuple[str, ...]  # in words: options and stacks that were not sought, and why


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """The fastest stack that a search measured, and its own number from fresh replicates."""

    reference: Configuration
    name: str  # the reference's
    stack: Stack  # empty where nothing is faster than the reference
    sought: float | None  # its ratio in the search, which is too good on average: it was picked for it
    result: Estimate | Absence | None  # from fresh replicates; None before there are any
    decomposition: Decomposition | None
    certainty: Certainty
    runs: tuple[str, ...]  # folders, in the order in which they were measured
    command: str  # measures the winner alone again
    unfinished: tuple[str, ...]  # those of them in which something is left to measure


def spoilt(rows: Iterable[Row]) -> Iterator[tuple[Row, str]]:
    """Rows that must not win, and why: their losses are not what was promised, or they failed for good."""
    for row in rows:
        if row.quality is not None and row.quality.status in _BROKEN:
            yield row, row.quality.sentence
        elif row.absence is not None and row.absence.outcome in _FINAL:
            yield row, row.absence.words


def barred(row: Row) -> Option | None:
    """The one option that a spoilt row is about, which then is no part of any stack; None for several."""
    comparison = row.comparison
    added = set(comparison.treatment.options) - set(comparison.reference.options)
    lacking = set(comparison.reference.options) - set(comparison.treatment.options)
    return added.pop() if len(added) == 1 and not lacking else None


def step_rows(matrices: Iterable[Matrix], workload: str) -> tuple[Row, ...]:
    """All rows of a workload's training steps."""
    return tuple(
        row
        for matrix in matrices
        for row in matrix.rows
        if row.comparison.treatment.workload == workload and row.comparison.timing is Timing.STEP
    )
