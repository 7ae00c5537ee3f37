"""Predictions of a run: what the stage model says beyond it; joins the catalogue, the designs and the analysis."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice

import numpy as np

from harness.analyze.attribution import Gain, gain
from harness.analyze.collection import StoredRow, StoredRun, rows_of, unnamed
from harness.analyze.matrix import Matrix, Table
from harness.analyze.search.prediction import CrossCheck, Prediction, Trusted, UpperBound, cross_checked, trusted
from harness.analyze.search.shares import Decomposition, WorkloadPrediction, decomposition
from harness.analyze.search.stage_model import (
    Declared,
    Fitted,
    Study,
    measured_log_times,
    study_of,
    upper_bounds,
)
from harness.core.catalogue import Catalogue
from harness.core.configuration import Comparison, Option, settings
from harness.core.optimization import Optimization, Timing
from harness.core.protocol import PROTOCOLS
from harness.plan.designs import CROSSED, Space, space_of, varied
from harness.plan.designs import matrix as matrix_design
from harness.plan.feasibility import Scope
from harness.plan.planning import Context
from harness.plan.search import LogTimes, counted, every_stack, ranked

SHOWN = 10  # of the stacks that were not measured
COUNTED = 5000  # stacks; whether more of them are possible is not asked one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class PossibleStacks:
    """What predictions of one workload stand on besides its measurements."""

    scope: Scope
    space: Space
    declared: Declared

    def decomposition(self, whole: StoredRow, rows: Sequence[StoredRow], model: Trusted | str) -> Decomposition | None:
        """A measured stack in parts, by the model where it is trusted."""
        return decomposition(whole, rows, model, self.declared, self.space.needs)

    def log_times(self, model: Fitted) -> LogTimes:
        """Log times of stacks by a model, as a search takes them."""
        return lambda stacks: model.log_times([self.declared.arrangement(stack) for stack in stacks])


def predictions(matrix: Matrix, catalogue: Catalogue) -> tuple[WorkloadPrediction, ...]:
    """What is said of each workload of a run beyond its configurations; nothing where no options are crossed."""
    if matrix.design not in CROSSED:
        return ()
    kept = unnamed(matrix)
    tables: dict[str, Table] = {}
    for table in matrix.tables:
        if table.timing is Timing.STEP:
            tables.setdefault(table.config.workload, table)
    return tuple(_predicted(kept, table, catalogue) for table in tables.values())


def _predicted(kept: StoredRun, table: Table, catalogue: Catalogue) -> WorkloadPrediction:
    possible = possible_stacks(kept.matrix, table, catalogue)
    found = WorkloadPrediction(
        config=table.config, name=table.name, whole=(), prediction="", best=_best(table), decomposition=None, check=None
    )
    if isinstance(possible, str):
        return replace(found, prediction=possible)
    study = study_of(kept.matrix, table.config.workload, possible.declared)
    if isinstance(study, str):
        return replace(found, prediction=study)
    model, whole = trusted(study), whole_of(kept, table)
    found = replace(found, check=_check(kept, study, possible))
    if whole is not None:
        others = list(rows_of(kept))
        stack = whole.row.comparison.treatment.options
        found = replace(found, whole=stack, decomposition=possible.decomposition(whole, others, model))
    return replace(found, prediction=model if isinstance(model, str) else _prediction(model, study, possible, found))


def possible_stacks(matrix: Matrix, table: Table, catalogue: Catalogue) -> PossibleStacks | str:
    """The stacks there are beside a run's table, and what is declared of them; words where they are not known here."""
    name, known = table.config.workload, catalogue.known
    crossed = [one for row in matrix.rows for one in row.comparison.treatment.options if _is_of(row.comparison, name)]
    chosen = tuple(one for one in dict.fromkeys(crossed) if one not in table.config.options)
    if name not in catalogue.workloads:
        return f"{name} is not known here, and so neither which of its stacks are possible"
    if unknown := sorted({one.name for one in (*chosen, *table.config.options)} - known.keys()):
        return f"{', '.join(unknown)} is not known here, and so neither which stacks are possible"
    context = Context(catalogue=catalogue, environment=matrix.environment, protocol=PROTOCOLS["standard"])
    # Whatever service this machine cannot start, the one that measured could.
    workload = replace(catalogue.workload(name), service=None)
    scope = replace(context.scope(workload, table.config), chosen=chosen)
    return PossibleStacks(scope=scope, space=step_space(scope, matrix), declared=declared_of(known))


def _is_of(comparison: Comparison, workload: str) -> bool:
    return comparison.treatment.workload == workload and comparison.timing is Timing.STEP


def step_space(scope: Scope, matrix: Matrix) -> Space:
    """The stacks of those options that act on training steps and were on in a measured configuration."""
    seen = {
        option
        for row in matrix.rows
        if row.estimate and _is_of(row.comparison, scope.workload.name)
        for option in row.comparison.treatment.options
    }
    levels = (tuple(one for one in alike if one in seen) for alike in varied(scope))
    return space_of(scope, [one for one in levels if one and scope.known[one[0].name].timed_on is Timing.STEP])


def declared_of(known: Mapping[str, Optimization]) -> Declared:
    """What optimizations say of themselves: their stages, and which of them start loader workers."""

    @cache
    def starts_workers(option: Option) -> bool:
        return bool(settings(known[option.name], option.level).get("workers"))

    return Declared(
        stages={name: one.stage for name, one in known.items()},
        overlapped=lambda stack: any(map(starts_workers, stack)),
    )


def whole_of(kept: StoredRun, table: Table) -> StoredRow | None:
    """The measured stack with most options, if it has two at least."""
    found = [row for row in table.rows if row.estimate]
    row = max(found, key=lambda one: len(one.comparison.treatment.options), default=None)
    if row is None or len(row.comparison.treatment.options) - len(table.config.options) < 2:
        return None
    return StoredRow(run=kept, table=table, row=row)


def _best(table: Table) -> tuple[str, Gain] | None:
    found = [(row.label, gain(row.estimate)) for row in table.rows if row.estimate]
    return max(found, key=lambda one: one[1].log, default=None)


def _prediction(model: Trusted, study: Study, possible: PossibleStacks, found: WorkloadPrediction) -> Prediction:
    measured = measured_log_times(study)
    best = min(measured, key=lambda stack: measured[stack])
    order = ranked(possible.space, measured, best, possible.log_times(model.model), np.random.default_rng(0))
    fastest = [possible.declared.arrangement(stack) for stack in islice(order, SHOWN)]
    names = {found.name: model.reference.options}
    if found.decomposition is not None:
        names[found.decomposition.label] = found.whole
    return Prediction(
        validation=model.validation,
        fastest=tuple(sorted(model.predicted(fastest), key=lambda one: -one.ratio)),
        unmeasured=None
        if counted(possible.space) > COUNTED
        else sum(stack not in measured for stack in every_stack(possible.space)),
        upper_bounds=tuple(
            UpperBound(name=name, stages=upper_bounds(model.model, possible.declared.arrangement(stack)))
            for name, stack in names.items()
        ),
    )


def _check(kept: StoredRun, study: Study, possible: PossibleStacks) -> CrossCheck | None:
    """Where every stack of some options was measured: what the configurations of a matrix predict of the others."""
    if kept.matrix.design != "factorial":
        return None
    design = [one.treatment.options for one in matrix_design(possible.scope) if isinstance(one, Comparison)]
    return cross_checked(study, {study.ratios[0].reference.options, *design})
