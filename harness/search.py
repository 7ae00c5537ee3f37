"""The search for the fastest stack of a workload: run after run, then the winner afresh."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from itertools import islice
from math import isfinite, prod
from pathlib import Path

import numpy as np

from harness.analyze.attribution import Gain, gain, largest, learns_alike
from harness.analyze.collection import StoredRow, StoredRun, rows_of, unnamed
from harness.analyze.matrix import Matrix, Row, Table
from harness.analyze.search.prediction import Prediction, Trusted
from harness.analyze.search.shares import Decomposition, WorkloadPrediction, decomposition
from harness.analyze.search.stage_model import (
    Declared,
    Fitted,
    Stack,
    upper_bounds,
    usable,
)
from harness.analyze.search.winner import (
    Certainty,
    Measured,
    Winner,
    measured,
    paired,
    preferred,
    spoilt_losses,
)
from harness.analyze.verdict import Verdict
from harness.catalogue import read_catalogue
from harness.core.catalogue import Catalogue
from harness.core.configuration import Comparison, Option, parse_option, settings
from harness.core.mistake import Mistake
from harness.core.optimization import Numerics, Optimization, Timing
from harness.core.plan import SEARCH, WINNER, Plan, Request
from harness.core.protocol import PROTOCOLS
from harness.plan.designs import CROSSED, Space, space_of, varied
from harness.plan.feasibility import Scope, all_options, compare, hindrance
from harness.plan.planning import Context, plan_of, protocol_named, reference_request
from harness.plan.search import (
    LEAST_GAIN,
    RANKED,
    ROUNDS,
    Array,
    LogTimes,
    Proposal,
    counted,
    every_stack,
    gain_left,
    leaner,
    narrowed,
    proposed,
    ranked,
    without_what_hurts,
)
from harness.results import matrix_of
from harness.run.preparation import Prepared, environment_of, run_of
from harness.store import RUN, Run, create, is_finished, is_own, read_records, read_run

# Predictions of a run: what the stage model says beyond it.


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
        config=table.config, name=table.name, whole=(), prediction="", best=_best(table), decomposition=None
    )
    if isinstance(possible, str):
        return replace(found, prediction=possible)
    so_far = known(possible, [kept.matrix])
    if isinstance(so_far, str):
        return replace(found, prediction=so_far)
    model = so_far.found.model
    whole = largest(StoredRow(run=kept, table=table, row=row) for row in table.rows if usable(row))
    if whole is not None:
        others = list(rows_of(kept))
        stack = whole.row.comparison.treatment.options
        found = replace(found, whole=stack, decomposition=possible.decomposition(whole, others, model))
    return replace(found, prediction=model if isinstance(model, str) else _prediction(model, so_far, found))


def possible_stacks(matrix: Matrix, table: Table, catalogue: Catalogue) -> PossibleStacks | str:
    """The stacks there are beside a run's table, and what is declared of them; words where they are not known here."""
    name, known = table.config.workload, catalogue.known
    crossed = [
        one for row in matrix.rows for one in row.comparison.treatment.options if _is_step_of(row.comparison, name)
    ]
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


def _is_step_of(comparison: Comparison, workload: str) -> bool:
    return comparison.treatment.workload == workload and comparison.timing is Timing.STEP


def step_space(scope: Scope, matrix: Matrix) -> Space:
    """The stacks of those options that act on training steps and were on in a measured configuration."""
    seen = {
        option
        for row in matrix.rows
        if usable(row) and _is_step_of(row.comparison, scope.workload.name)
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


def _best(table: Table) -> tuple[str, Gain] | None:
    """The row that is surely faster by most and learns alike; None where there is none."""
    rows = ((row.label, row.estimate) for row in table.rows if learns_alike(row))
    found = [(label, gain(one)) for label, one in rows if one and one.verdict.gains]
    return max(found, key=lambda one: one[1].low, default=None)


def _prediction(model: Trusted, so_far: "Known", found: WorkloadPrediction) -> Prediction:
    """What a model says of the stacks that were not measured and may win."""
    possible, space, measured = so_far.possible, so_far.space, so_far.found.times
    order = ranked(space, measured, so_far.found.best, possible.log_times(model.model), np.random.default_rng(0))
    fastest = [possible.declared.arrangement(stack) for stack in islice(order, SHOWN)]
    names = {found.name: model.reference.options}
    if found.decomposition is not None:
        names[found.decomposition.label] = found.whole
    return Prediction(
        validation=model.validation,
        fastest=tuple(sorted(model.predicted(fastest), key=lambda one: -one.ratio)),
        unmeasured=None if counted(space) > COUNTED else sum(stack not in measured for stack in every_stack(space)),
        upper_bounds={
            name: upper_bounds(model.model, possible.declared.arrangement(stack)) for name, stack in names.items()
        },
    )


# Deciding: what a search knows after so many runs, and what it therefore measures next.


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What was measured for a search so far, and the stacks that there are."""

    possible: PossibleStacks
    space: Space  # what may still be sought: nothing that failed, changes losses or is too large
    found: Measured

    def log_times(self, generator: np.random.Generator) -> list[LogTimes]:
        """The trusted model's best guess and one that the data allow as well; none where no model is trusted."""
        if isinstance(self.found.model, str):
            return []
        model = self.found.model.model
        return [self.possible.log_times(one) for one in (model, model.drawn(generator))]


def known(possible: PossibleStacks, matrices: Sequence[Matrix]) -> Known | str:
    """What the runs say; words where nothing was measured yet."""
    found = measured(matrices, possible.scope.reference, possible.declared, possible.scope.environment)
    if isinstance(found, str):
        return found
    possible = replace(possible, space=step_space(possible.scope, matrices[0]))
    return Known(possible=possible, space=narrowed(possible.space, found.barred, found.fits), found=found)


def next_proposal(so_far: Known, rounds: int) -> Proposal:
    """The stacks to measure next, the most promising first; or none, and why."""
    generator, whole = np.random.default_rng(rounds), None if rounds else so_far.found.whole()
    lighter = without_what_hurts(so_far.space, *whole) if whole else ()
    return proposed(so_far.space, so_far.found.times, so_far.log_times(generator), lighter, generator)


KEPT = 1e3  # the log gain of an option that nobody has seen put on last: far more than that of any other


def leanest(so_far: Known) -> Stack:
    """The fastest stack without what gains nothing in it: by the model, or as measured.

    What options gain put on last tells of stacks that were not measured, unless they can stand in for each other.
    """
    best, whole, times = so_far.found.best, so_far.found.whole(), so_far.found.times
    if not isinstance(so_far.found.model, str):
        log_times = so_far.possible.log_times(so_far.found.model.model)
    elif whole is not None:
        gains = whole[2]

        def lacking(stack: Stack) -> float:
            return sum(gains.get(option, KEPT) for option in best if option not in stack)

        def log_times(stacks: Sequence[Stack]) -> Array:
            return np.array([times[one] if one in times else times[best] + lacking(one) for one in stacks])
    else:
        return best
    return leaner(so_far.space, best, log_times, LEAST_GAIN)


def taken_apart(so_far: Known, stack: Stack, final: Sequence[Matrix]) -> Decomposition | None:
    """The parts of a stack; its total comes from the newest run that measured it against the reference."""
    entries, possible = so_far.found.entries(*final), so_far.possible
    wanted = stack, possible.scope.reference, Timing.STEP
    compared = ((one, one.row.comparison) for one in entries if one.row.estimate)
    mine = [one for one, its in compared if (its.treatment.options, its.reference, its.timing) == wanted]
    return possible.decomposition(mine[-1], entries, so_far.found.model) if mine else None


# Staging: the runs of a search, each a folder of its own that a later call finds again and goes on with.


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchBudget:
    """Where and how long a search measures."""

    results: Path
    measure: Callable[[Prepared, Path, float | None], None]  # a plan into its folder, until a moment of the clock
    clock: Callable[[], float]
    began_s: float
    budget_s: float | None
    fresh: bool
    tell: Callable[[str], None]

    def until(self, share: float) -> float | None:
        """The moment at which a share of the budget is spent."""
        return None if self.budget_s is None else self.began_s + share * self.budget_s

    def is_time_left(self, share: float) -> bool:
        """Whether that moment is still to come."""
        moment = self.until(share)
        return moment is None or self.clock() < moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """One search: what is wanted, its first plan, the stacks there are, and the place where it is measured."""

    request: Request
    ready: Prepared
    possible: PossibleStacks
    budget: SearchBudget


def staged(search: Search, plan: Plan, until: float, since: str | None) -> Path:
    """The folder of a plan's run, measured as far as a share of the time allows; an earlier one is gone on with.

    Without `since` any earlier run will do, unless a fresh one was asked for; else one that began no earlier.
    """
    budget, run = search.budget, run_of(replace(search.ready, plan=plan))
    before = sorted(budget.results.glob(f"*/*-{run.digest}/{RUN}"), key=lambda path: path.parent.name)
    own = (path.parent for path in before if is_own(path.parent))
    usable = [folder for folder in own if since is None or read_run(folder).began >= since]
    folder = usable[-1] if usable and not (budget.fresh and since is None) else create(budget.results, run)
    go_on(search, folder, until)
    return folder


def go_on(search: Search, folder: Path, until: float) -> None:
    """Measures what is left of a run, as far as a share of the time allows."""
    if not is_finished(folder) and search.budget.is_time_left(until):
        ready = replace(search.ready, plan=read_run(folder).plan)
        search.budget.measure(ready, folder, search.budget.until(until))


def rounds_before(search: Search, first: Path) -> list[Path]:
    """Runs of proposals that were made since the first run, on the same machine with the same program.

    Runs for which no time was left are passed over: with more of the first one known other stacks may be proposed.
    """
    start = read_run(first)
    found = []
    for path in sorted(search.budget.results.glob(f"*/*/{RUN}"), key=lambda path: path.parent.name):
        run = read_run(path.parent)
        if run.plan.design == SEARCH and run.began >= start.began and _conditions(run) == _conditions(start):
            usable = is_own(path.parent) and _is_of(run.plan, start.plan) and read_records(path.parent)
            found += [path.parent] if usable else []
    return found


def _conditions(run: Run) -> tuple[object, ...]:
    return run.version, run.code, run.environment.digest, run.plan.protocol, run.plan.seed, run.plan.data


def _is_of(plan: Plan, first: Plan) -> bool:
    """Whether a run of proposals is about options of the first run alone, against the same reference."""
    options = {option for one in first.comparisons for option in one.treatment.options}
    reference = first.blocks[0].reference
    return all(one.reference == reference and options.issuperset(one.treatment.options) for one in plan.comparisons)


# Candidates: which optimizations a search for the fastest stack may switch on, and the run that it begins with.

FEW = 16  # stacks that are all measured: a matrix of so few options costs as much and tests no model


class QualityClass(StrEnum):
    """What the winner may do to losses."""

    EXACT = "exact"
    CLOSE = "close"
    ANY = "any"


ALLOWED = {
    QualityClass.EXACT: frozenset({Numerics.EXACT}),
    QualityClass.CLOSE: frozenset({Numerics.EXACT, Numerics.CLOSE}),
    QualityClass.ANY: frozenset(Numerics),
}


def quality_named(name: str) -> QualityClass:
    """The class of that name; raises Mistake with the names there are."""
    if name not in list(QualityClass):
        raise Mistake(f"There is no quality '{name}'; choose one of {', '.join(QualityClass)}.")
    return QualityClass(name)


def request_of(asked: Request, quality: QualityClass) -> Request:
    """The run with which a search begins: a matrix, or every stack of a few options; raises Mistake."""
    catalogue = read_catalogue(asked.own)
    scope = _scope(asked, catalogue)
    named = _named(asked, quality, catalogue) if asked.only else _willing(scope, quality)
    name = scope.workload.name
    if not named:
        raise Mistake(f"No optimization of {name} can be sought here with --quality {quality}; try another.")
    stacks = prod(1 + len(levels) for levels in varied(replace(scope, chosen=named)))
    return replace(
        asked,
        workloads=(name,),
        design="factorial" if stacks <= FEW else "matrix",
        only=tuple(map(str, named)),
        target="none",  # time is for stacks; the winner gets replicates of its own
    )


def put_off(asked: Request, quality: QualityClass) -> Iterator[str]:
    """Sentences on what a more patient protocol would seek too; none where the options were named. Raises Mistake."""
    if asked.only:
        return
    scope = _scope(asked, read_catalogue(asked.own))
    patient = replace(scope, protocol=PROTOCOLS["standard"])
    for one in scope.optimizations:
        is_sought = one.sought and one.timed_on is Timing.STEP and one.numerics in ALLOWED[quality]
        if is_sought and not hindrance(patient, one) and (reason := hindrance(scope, one)):
            yield f"{one.name} is not sought: it {reason}."


def _scope(asked: Request, catalogue: Catalogue) -> Scope:
    """What a search may choose from on this machine; raises Mistake where no workload is named or known.

    How slowly an optimization may start, the protocol says. On a GPU compiling takes seconds and is what one seeks. On
    a CPU it takes minutes for each arm of every second stack.
    """
    name = next(iter(asked.workloads), catalogue.own)
    if name is None:
        raise Mistake("Name the workload to search: ./speedmatrix best leak; ./speedmatrix list shows them all.")
    environment = environment_of(asked)
    protocol = PROTOCOLS["standard"] if environment.accelerated else protocol_named(asked.protocol)
    context = Context(catalogue=catalogue, environment=environment, protocol=protocol)
    request = reference_request("baseline", catalogue.workload(name).name, asked.size, asked.batch)
    return context.scope(catalogue.workload(name), context.config(request))


def _willing(scope: Scope, quality: QualityClass) -> tuple[Option, ...]:
    """All that goes together, acts on training steps and lacks nothing that may not be switched on."""
    found = [one for one in all_options(scope, ALLOWED[quality]) if scope.known[one.name].timed_on is Timing.STEP]
    names = {one.name for one in found}
    return tuple(one for one in found if names.issuperset(scope.known[one.name].requires))


def _named(asked: Request, quality: QualityClass, catalogue: Catalogue) -> tuple[Option, ...]:
    """What was named; raises Mistake for what a search over training steps cannot take."""
    found = tuple(map(parse_option, asked.only))
    for option in found:
        one = catalogue.optimization(option.name)
        if one.numerics not in ALLOWED[quality]:
            raise Mistake(
                f"{one.name} promises losses that are {one.numerics}, which --quality {quality} rules out; "
                f"leave it out, or say --quality {'close' if one.numerics is Numerics.CLOSE else 'any'}."
            )
        if one.timed_on is not Timing.STEP:
            raise Mistake(f"{one.name} is timed on {one.timed_on}s, and best compares training steps; leave it out.")
    return found


def stacks_in(request: Request, ready: Prepared) -> PossibleStacks:
    """The stacks that a search may propose: those of the options in its first run."""
    context = Context(catalogue=ready.catalogue, environment=ready.environment, protocol=PROTOCOLS["standard"])
    reference = ready.plan.blocks[0].reference
    scope = context.scope(ready.catalogue.workload(reference.workload), reference)
    seen = {one for config in ready.plan.comparisons for one in config.treatment.options}
    asked = {parse_option(name).name for name in request.only}
    chosen = tuple(sorted(one for one in seen if one not in reference.options and one.name in asked))
    scope = replace(scope, chosen=chosen)
    return PossibleStacks(
        scope=scope, space=space_of(scope, varied(scope)), declared=declared_of(ready.catalogue.known)
    )


REPLICATES = 4  # of the winner: it has no pool to borrow a variance from
# Shares of the budget after which the first run and the proposals leave off, so that the winner gets the rest.
FIRST, PROPOSALS = 0.6, 0.8


def searched(search: Search) -> Winner | str:
    """The winner of a search that goes on with whatever was measured for it before; words where nothing was."""
    plan, budget = search.ready.plan, search.budget
    options = len(search.possible.scope.chosen)
    budget.tell(f"First: {len(plan.comparisons)} comparisons of {options} options ({plan.design})")
    first = staged(search, plan, FIRST, since=None)
    folders = [first, *rounds_before(search, first)]
    go_on(search, folders[-1], PROPOSALS)
    so_far, ended = _explored(search, folders)
    return so_far if isinstance(so_far, str) else _crowned(search, so_far, folders, ended)


def _explored(search: Search, folders: list[Path]) -> tuple[Known | str, str]:
    """What is known when the search is over or its time is, and why it ended; appends the folders of its runs."""
    while True:
        so_far, rounds = known(search.possible, [matrix_of(folder) for folder in folders]), len(folders) - 1
        if isinstance(so_far, str):
            return so_far, ""
        proposal = next_proposal(so_far, rounds)
        if proposal.finished is not None or rounds >= ROUNDS:
            return so_far, proposal.finished or f"{rounds} rounds of proposals were measured"
        comparisons = list(_comparisons(so_far, proposal.stacks))
        if not comparisons or not search.budget.is_time_left(PROPOSALS):
            return so_far, "the time for proposals was spent"
        search.budget.tell(f"Then: {len(comparisons)} proposals; the first promises {100 * proposal.gain:+.1f} %")
        plan = plan_of(SEARCH, comparisons, search.ready.plan, search.ready.catalogue, search.ready.environment)
        folders.append(staged(search, plan, PROPOSALS, since=read_run(folders[0]).began))


def _comparisons(so_far: Known, stacks: Sequence[Stack]) -> Iterator[Comparison]:
    reference = so_far.possible.scope.reference.options
    for stack in stacks:
        label = "+".join(str(one) for one in stack if one not in reference)
        entry = compare(so_far.possible.scope, label, stack, Timing.STEP)
        if isinstance(entry, Comparison):
            yield entry


def _crowned(search: Search, so_far: Known, folders: Sequence[Path], ended: str) -> Winner:
    """The winner with its own number: from processes that were not there when it was picked.

    Beside it stands the same stack without what gains nothing in it, which wins unless it is more than 1 % slower.
    """
    best, lean, reference = so_far.found.best, leanest(so_far), so_far.possible.scope.reference.options
    final, plan = None, search.ready.plan
    if best != reference:
        stacks = dict.fromkeys(one for one in (best, lean) if one != reference)
        fixed = replace(plan, protocol=replace(plan.protocol.fixed(), replicates=REPLICATES))
        afresh = plan_of(
            WINNER,
            list(_comparisons(so_far, [*stacks])),
            fixed,
            search.ready.catalogue,
            search.ready.environment,
        )
        search.budget.tell(f"Last: {'; '.join(map(_named_stack, stacks))} afresh, in {REPLICATES} replicates")
        final = staged(search, afresh, 1.0, since=read_run(folders[0]).began)
    return _told(search, so_far, (*folders, *([final] if final else [])), _certainty(so_far, len(folders) - 1, ended))


def _named_stack(stack: Stack) -> str:
    return "+".join(map(str, stack))


def _told(search: Search, so_far: Known, runs: Sequence[Path], certainty: Certainty) -> Winner:
    reference, best = so_far.possible.scope.reference, so_far.found.best
    is_picked = best != reference.options
    last: list[Matrix] = [matrix_of(runs[-1])] if is_picked else []
    rows = {row.comparison.treatment.options: row for matrix in last for row in matrix.rows}
    lean, gained = leanest(so_far), None
    if (ours := rows.get(best)) and ours.estimate and lean != best:
        plan, records = read_run(runs[-1]).plan, read_records(runs[-1])
        gained = paired(plan, records, best, lean, ours.estimate.thresholds)
    stack = preferred(rows, best, lean, gained, LEAST_GAIN)
    row = rows.get(stack)
    is_known = row is not None and row.estimate is not None
    if row and row.estimate and row.estimate.verdict in {Verdict.NO_EFFECT, Verdict.SLOWER}:
        is_picked, row = False, None  # the fastest of many that gain nothing is the luckiest
    return Winner(
        reference=reference,
        name=search.ready.plan.names.get(str(reference), "baseline"),
        stack=stack if is_picked else (),
        idle=tuple(one for one in best if one not in stack),
        idle_gain=gained if stack != best else None,
        unusable=_unusable(rows[best]) if stack != best and best in rows else "",
        chosen_afresh=gained is not None,
        sought=so_far.found.ratio(best) if is_picked else None,
        result=row.result if row else None,
        spoilt=spoilt_losses(row) if row else "",
        # What the search itself measured of its winner is too good.
        decomposition=taken_apart(so_far, stack, last) if is_picked and is_known else None,
        certainty=certainty,
        runs=tuple(map(str, runs)),
        command=_command(search.request, so_far, stack) if is_picked else "",
        unfinished=tuple(str(one) for one in runs if not is_finished(one)),
    )


def _unusable(row: Row) -> str:
    return spoilt_losses(row) or (row.absence.words if row.absence else "")


def _certainty(so_far: Known, rounds: int, ended: str) -> Certainty:
    space, model, models = so_far.possible.space, so_far.found.model, so_far.log_times(np.random.default_rng(0))
    return Certainty(
        ended=ended,
        model=model if isinstance(model, str) else model.validation,
        rounds=rounds,
        measured=sum(map(isfinite, so_far.found.times.values())) - 1,
        stacks=counted(space) - 1,  # the reference aside
        ranked=counted(space) <= RANKED,
        gain=gain_left(so_far.space, so_far.found.times, models[0]) if models else None,
        left_out=so_far.found.left_out,
    )


def _command(request: Request, so_far: Known, stack: Stack) -> str:
    """What measures the winner alone again, with as many replicates."""
    config = so_far.possible.scope.reference
    environment = so_far.possible.scope.environment
    alone = replace(
        request, design="alone", only=(), stack=_named_stack(stack), size=config.size,
        replicates=REPLICATES, target=None, device=environment.device, reference="baseline",
    )  # fmt: skip
    return alone.command
