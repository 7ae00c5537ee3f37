"""Runs that were never made, as a folder of results would hold them, for tests of what is published."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from harness.analyze.collection import StoredRun
from harness.analyze.composition import Arrival, Composed
from harness.analyze.verdict import Verdict
from harness.core.configuration import Comparison, Configuration
from harness.core.environment import Environment
from harness.core.optimization import Timing
from harness.core.plan import NoResult
from harness.core.records import Record
from harness.report.published import Place, published_place
from tests.analyze.synthetic import ENVIRONMENT, config, matrix, plan, records

NAMES = {(): "baseline", ("amp", "workers"): "original"}
ANOTHER = replace(ENVIRONMENT, python="3.12.1")


@dataclass(frozen=True, kw_only=True)
class Made:
    """One comparison with the ratio that it shall have; none where it was not measured."""

    treatment: tuple[str, ...]
    ratio: float | None
    reference: tuple[str, ...] = ()
    workload: str = "leak"
    timing: Timing = Timing.STEP
    label: str = ""
    batch: int = 64
    start: Mapping[str, Any] = field(default_factory=dict)  # how the treatment started: losses, settings, upper bounds

    @property
    def comparison(self) -> Comparison:
        return Comparison(
            label=self.label or "+".join(self.treatment),
            treatment=self._config(self.treatment),
            reference=self._config(self.reference),
            timing=self.timing,
        )

    def _config(self, names: tuple[str, ...]) -> Configuration:
        return config(*names, workload=self.workload, batch=self.batch)


def kept(
    *made: Made,
    day: int = 2,
    environment: Environment = ENVIRONMENT,
    no_results: Iterable[NoResult] = (),
    contributed: bool = False,
) -> StoredRun:
    """A run of that day."""
    known: list[Record] = []
    for index, one in enumerate(made):
        if one.ratio is not None:
            known += records(index, one.ratio, timing=one.timing, **one.start)
    the_plan = plan(*(one.comparison for one in made), no_results=tuple(no_results))
    named = {str(one.comparison.reference): NAMES.get(one.reference, "") for one in made if one.reference in NAMES}
    made_of = matrix(replace(the_plan, names=the_plan.names | named), known)
    return StoredRun(
        name=f"2026010{day}T030405-0123456{day}",
        began=f"2026-01-0{day}T03:04:05+00:00",
        command="speedmatrix run",
        version="0.2.0",
        matrix=replace(made_of, environment=environment, contributed=contributed),
    )


def composed(run: StoredRun, verdict: Verdict = Verdict.FASTER) -> StoredRun:
    """The same run with what its loaders' ratios come to on whole steps, which is 1.7x."""
    came_to = Composed(ratio=1.7, low=1.5, high=1.9, verdict=verdict, share=0.5, arrives=Arrival())
    tables = tuple(
        replace(table, rows=tuple(replace(row, on_steps=came_to) for row in table.rows))
        if table.timing is Timing.LOADER
        else table
        for table in run.matrix.tables
    )
    return replace(run, matrix=replace(run.matrix, tables=tables))


def changed(run: StoredRun, **facts: Any) -> StoredRun:
    """The same run with estimates that say so."""
    known = [(table, [(row, row.estimate) for row in table.rows]) for table in run.matrix.tables]
    tables = (
        replace(table, rows=tuple(replace(row, result=replace(one, **facts)) if one else row for row, one in rows))
        for table, rows in known
    )
    return replace(run, matrix=replace(run.matrix, tables=tuple(tables)))


def emulating(run: StoredRun, tabled_s: float, launching_s: float) -> StoredRun:
    """The same run with references whose emulated device and host take so long for a step."""
    known = ((table, table.profile) for table in run.matrix.tables)
    tables = (
        replace(table, profile=arm and replace(arm, tabled_s=tabled_s, launching_s=launching_s)) for table, arm in known
    )
    return replace(run, matrix=replace(run.matrix, tables=tuple(tables)))


def shared(run: StoredRun) -> StoredRun:
    """The same run with arms that shared a process."""
    return changed(run, shared=True)


def sound(run: StoredRun) -> StoredRun:
    """The same run with ratios that an average may hold."""
    return changed(run, df=9.0, freedom=9.0)


def placed(*runs: StoredRun, name: str = "example-9000") -> Place:
    """The runs of one machine."""
    return published_place(name, runs)
