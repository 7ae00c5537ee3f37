"""The collection: rows of many runs, each beside where it was found; one answer from all that asked the same."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from harness.analyze.composition import average_of_composed
from harness.analyze.estimate import Estimate, average, surest_of
from harness.analyze.grouping import together
from harness.analyze.matrix import Matrix, Row, Table, notes
from harness.analyze.quality import Agreement, worst
from harness.core.configuration import Configuration, is_control
from harness.core.environment import Environment
from harness.core.optimization import Timing
from harness.core.plan import WINNER

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
    """What a row answers: rows with the same question have one answer, to which each of them counts."""

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
    """A row, its table and its run; where several runs measured the same, the ratio is their average."""

    run: StoredRun
    table: Table
    row: Row
    repeats: tuple[
        "StoredRow", ...
    ] = ()  # those that its ratio is the average of, its own run's first; none of one run

    @property
    def alone(self) -> "StoredRow":
        """Its own run's row, with the ratio that this run measured."""
        return self.repeats[0] if self.repeats else self

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


def answered(runs: Iterable[StoredRun]) -> tuple[StoredRow, ...]:
    """One entry for each question: the average of what the newest version's runs measured, or the newest words.

    Times, memory and settings are those of the run with most replicates. One from a disturbed machine stands only where
    there is no other, and then alone; what a search measured afresh for its winner stands without what led it there
    (docs/decisions/averages-of-runs.md).
    """
    asked = together((entry.question, entry) for entry in entries(runs))
    return tuple(_doubted(_answer(answers), answers) for answers in asked.values())


def _doubted(found: StoredRow, answers: Iterable[StoredRow]) -> StoredRow:
    """An answer with the losses of a run that it does not rest on, where these differ or became nan.

    Restlessness, few replicates and a later refusal say something of a ratio, and nothing against losses.
    """
    same = (one.row.quality for one in answers if one.run.version == found.run.version)
    bad = worst(one for one in same if one and one.status in {Agreement.DIFFERS, Agreement.NAN})
    ours = found.row.quality
    if bad is None or ours is None or worst((ours, bad)) is ours:
        return found
    note = f"quality {bad.status} in another run: {bad.sentence}"
    return replace(found, row=replace(found.row, quality=bad, notes=(*found.row.notes, note)))


def _answer(answers: Sequence[StoredRow]) -> StoredRow:
    known = [(one.row.estimate, one) for one in answers if one.row.estimate]
    known = [(estimate, one) for estimate, one in known if one.run.version == known[0][1].run.version]
    afresh = [one for estimate, one in known if one.run.matrix.design == WINNER and estimate.is_calm]
    if afresh:  # what led to them was chosen for its luck, and what came after the last was not
        last = max(one.run.began for one in afresh)
        known = [pair for pair in known if pair[1] in afresh or pair[1].run.began > last]
    alike = [one for estimate, one in known if estimate.is_sound]
    if len(alike) < 2:
        return surest_among(alike or ([one for _, one in known] if afresh else answers))
    composed = [one for one in alike if one.row.on_steps and one.row.on_steps.is_known]
    first = surest_among(composed or alike)
    repeats = (first, *(one for one in composed or alike if one is not first))
    return replace(first, row=_averaged(repeats), repeats=repeats) if len(repeats) > 1 else first


def _averaged(repeats: Sequence[StoredRow]) -> Row:
    """The first one's row with the average of all, the worst quality of any, and what must be known of each."""
    rows = [one.row for one in repeats]
    mean = average([row.estimate for row in rows if row.estimate])
    parts = [row.on_steps for row in rows if row.on_steps and row.on_steps.is_known]
    on_steps = average_of_composed(parts, mean.thresholds.margin) if parts else None
    quality, arms = worst(row.quality for row in rows if row.quality), (rows[0].treatment, rows[0].reference)
    known = (row.estimate.device for row in rows if row.estimate and row.estimate.device)
    devices = (one for device in known for one in device.remarks())
    told = (
        *notes(mean, quality, arms, repeats[0].run.matrix.protocol),
        *(one for row in rows for one in row.remarks),
        *(one for one in devices if one != mean.disturbance),
    )
    return replace(rows[0], result=mean, on_steps=on_steps, quality=quality, notes=tuple(dict.fromkeys(told)))


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
    """Every question that two runs of the same version and environment answered; the furthest apart first.

    What the table of an emulated device decides is no measurement that could be repeated.
    """
    answers = (one for one in entries(runs) if one.row.estimate and not one.row.estimate.looked_up)
    answers = (one for one in answers if not one.run.contributed)
    asked = together(((one.question, one.run.version), one) for one in answers)
    found = [
        Repeated(earlier=earlier, later=later, first=earlier.row.estimate, second=later.row.estimate)
        for held in asked.values()
        for later, earlier in pairwise(held)
        if earlier.row.estimate and later.row.estimate
    ]
    return tuple(sorted(found, key=lambda one: -abs(one.apart)))


# What else answers a question, of whatever environment.

_WIDER = 2  # times as wide as ours an interval may be that agrees


def other_answers(runs: Iterable[StoredRun], entry: StoredRow) -> Iterator[tuple[StoredRow, Estimate]]:
    """What other runs, of whatever environment, answer to the same question on a calm machine; the newest first.

    Beside an answer that an average may hold, only such count.
    """
    asked, ours = replace(entry.question, environment=""), entry.alone.row.estimate
    inside = {one.run.name for one in entry.repeats or (entry,)}
    for one in entries(run for run in runs if run.name not in inside):
        estimate = one.row.estimate
        if estimate is None or ours is None or estimate.disturbed or estimate.half_width > _WIDER * ours.half_width:
            continue
        if (estimate.is_sound or not ours.is_sound) and replace(one.question, environment="") == asked:
            yield one, estimate


def is_alike(entry: StoredRow, other: Estimate) -> bool:
    """Whether another run's estimate is compatible with a row's."""
    ours = entry.row.estimate
    return ours is not None and abs(math.log(ours.ratio / other.ratio)) <= math.hypot(ours.half_width, other.half_width)
