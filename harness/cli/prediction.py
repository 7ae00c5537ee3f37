"""Foretelling: from a run to what the stage model says beyond it; joins the catalogue, the designs and the analysis."""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice

import numpy as np

from harness.analyze.attribution import Gain, first_and_last, gain
from harness.analyze.collection import Entry, Kept
from harness.analyze.matrix import Matrix, Table
from harness.analyze.prediction import (
    CrossCheck,
    Decomposition,
    Forecast,
    Outlook,
    Players,
    Trusted,
    UpperBound,
    cross_checked,
    parts,
    shares,
    trusted,
)
from harness.analyze.stage_model import Declared, Fitted, Stack, Study, measured_log_times, study_of, upper_bounds
from harness.catalogue import Catalogue
from harness.cli.planning import Context
from harness.core.configuration import Comparison, Option, settings
from harness.core.optimization import Optimization, Timing
from harness.core.protocol import PROTOCOLS
from harness.plan.designs import CROSSED, Space, space_of, varied
from harness.plan.designs import matrix as matrix_design
from harness.plan.feasibility import Scope
from harness.plan.search import Array, counted, every_stack, ranked

SHOWN = 10  # of the stacks that were not measured
COUNTED = 5000  # stacks; whether more of them are possible is not asked one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What predictions of one workload stand on besides its measurements."""

    scope: Scope
    space: Space
    declared: Declared


def outlooks(matrix: Matrix, catalogue: Catalogue) -> tuple[Outlook, ...]:
    """What is said of each workload of a run beyond its configurations; nothing where no options are crossed."""
    if matrix.design not in CROSSED:
        return ()
    kept = Kept(name="", began="", command="", version="", matrix=matrix)
    tables: dict[str, Table] = {}
    for table in matrix.tables:
        if table.timing is Timing.STEP:
            tables.setdefault(table.config.workload, table)
    return tuple(_outlook(kept, table, catalogue) for table in tables.values())


def _outlook(kept: Kept, table: Table, catalogue: Catalogue) -> Outlook:
    ground = ground_of(kept.matrix, table, catalogue)
    found = Outlook(
        config=table.config, name=table.name, whole=(), forecast="", best=_best(table), decomposition=None, check=None
    )
    if isinstance(ground, str):
        return replace(found, forecast=ground)
    study = study_of(kept.matrix, table.config.workload, ground.declared)
    if isinstance(study, str):
        return replace(found, forecast=study)
    model, whole = trusted(study), whole_of(kept, table)
    found = replace(found, check=_check(kept, study, ground))
    if whole is not None:
        others = [Entry(kept=kept, table=one, row=row) for one in kept.matrix.tables for row in one.rows]
        stack = whole.row.comparison.treatment.options
        found = replace(found, whole=stack, decomposition=decomposition(whole, others, ground, model))
    return replace(found, forecast=model if isinstance(model, str) else _forecast(model, study, ground, found))


def ground_of(matrix: Matrix, table: Table, catalogue: Catalogue) -> Ground | str:
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
    return Ground(scope=scope, space=step_space(scope, matrix), declared=declared_of(known))


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


def whole_of(kept: Kept, table: Table) -> Entry | None:
    """The measured stack with most options, if it has two at least."""
    found = [row for row in table.rows if row.estimate]
    row = max(found, key=lambda one: len(one.comparison.treatment.options), default=None)
    if row is None or len(row.comparison.treatment.options) - len(table.config.options) < 2:
        return None
    return Entry(kept=kept, table=table, row=row)


def _best(table: Table) -> tuple[str, Gain] | None:
    found = [(row.label, gain(row.estimate)) for row in table.rows if row.estimate]
    return max(found, key=lambda one: one[1].log, default=None)


def decomposition(whole: Entry, others: Sequence[Entry], ground: Ground, model: Trusted | str) -> Decomposition | None:
    """A measured stack in parts, by the model where it is trusted."""
    if whole.row.estimate is None:
        return None
    below = whole.row.comparison.reference.options
    added = tuple(one for one in whole.row.comparison.treatment.options if one not in below)
    modelled: Mapping[Option, Gain] = {}
    if not isinstance(model, str):
        players = Players(options=added, below=below, needs=ground.space.needs)
        modelled = shares(model, players, ground.declared, np.random.default_rng(0))
    return Decomposition(
        label=whole.row.label,
        total=gain(whole.row.estimate),
        parts=parts(added, *first_and_last(whole, others), modelled),
    )


def _forecast(model: Trusted, study: Study, ground: Ground, found: Outlook) -> Forecast:
    measured = measured_log_times(study)
    best = min(measured, key=lambda stack: measured[stack])
    order = ranked(ground.space, measured, best, forecast_by(model.model, ground.declared), np.random.default_rng(0))
    fastest = [ground.declared.arrangement(stack) for stack in islice(order, SHOWN)]
    names = {found.name: model.reference.options}
    if found.decomposition is not None:
        names[found.decomposition.label] = found.whole
    return Forecast(
        foretold=model.foretold,
        fastest=tuple(sorted(model.predicted(fastest), key=lambda one: -one.ratio)),
        unmeasured=_unmeasured(ground.space, measured),
        upper_bounds=tuple(
            UpperBound(name=name, stages=upper_bounds(model.model, ground.declared.arrangement(stack)))
            for name, stack in names.items()
        ),
    )


def forecast_by(model: Fitted, declared: Declared) -> Callable[[Sequence[Stack]], Array]:
    """Log times of stacks, as a search takes them."""
    return lambda stacks: model.log_times([declared.arrangement(stack) for stack in stacks])


def _unmeasured(space: Space, measured: Container[Stack]) -> int | None:
    if counted(space) > COUNTED:
        return None
    return sum(stack not in measured for stack in every_stack(space))


def _check(kept: Kept, study: Study, ground: Ground) -> CrossCheck | None:
    """Where every stack of some options was measured: what the configurations of a matrix foretell of the others."""
    if kept.matrix.design != "factorial":
        return None
    design = [one.treatment.options for one in matrix_design(ground.scope) if isinstance(one, Comparison)]
    return cross_checked(study, {study.ratios[0].reference.options, *design})
