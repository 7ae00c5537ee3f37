"""`best`: searches the fastest stack of a workload, run after run, and measures the winner afresh."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import exp, inf, prod
from pathlib import Path
from time import monotonic

import numpy as np
from rich.console import Console

from harness.analyze.attribution import first_and_last
from harness.analyze.collection import Entry, Kept
from harness.analyze.matrix import Matrix, Row
from harness.analyze.prediction import Decomposition, Footprint, Trusted, footprints, trusted
from harness.analyze.stage_model import Stack, Study, fit, joined, measured_log_times, study_of
from harness.analyze.winner import SEARCH, WINNER, Certainty, Winner, barred, spoilt, step_rows
from harness.catalogue import Catalogue, read_catalogue
from harness.cli.measuring import (
    REPORT_S,
    Place,
    age_s,
    campaign_into,
    prepare_data,
    run_of,
    seconds_of,
    stopping_on_terminate,
)
from harness.cli.planning import (
    Context,
    Prepared,
    Wish,
    in_words,
    plan_of,
    prepared,
    protocol_named,
    reference_request,
    tell_unused_gpu,
)
from harness.cli.prediction import Ground, declared_of, decomposition, forecast_by, step_space
from harness.cli.reading import console, matrix_of
from harness.core.configuration import Comparison, Configuration, Option, parse_option
from harness.core.environment import Environment
from harness.core.mistake import Mistake
from harness.core.optimization import Numerics, Timing
from harness.core.plan import Plan
from harness.core.protocol import PROTOCOLS, Protocol
from harness.plan.designs import Space, space_of, varied
from harness.plan.feasibility import Scope, all_options, compare, hindrance
from harness.plan.search import RANKED, Proposal, Wanted, counted, is_over, propose, without_what_hurts
from harness.report.search import shown, winner_to_json
from harness.run.lock import measuring_alone
from harness.store import IN_PROGRESS, RUN, Run, create, read_run

# Deciding: what a search knows after so many runs, and what it therefore measures next.

WANTED = Wanted()


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What all runs of a search say together."""

    ground: Ground
    space: Space  # what may still be sought: nothing that failed, changes losses or is too large
    matrices: tuple[Matrix, ...]  # of the runs, the first of which tests the model
    times: Mapping[Stack, float]  # log seconds of a sample, of every measured stack; infinite where it must not win
    model: Trusted | str
    left_out: tuple[str, ...]

    @property
    def best(self) -> Stack:
        """The fastest measured stack that may win; the reference if there is none."""
        return min(self.times, key=lambda stack: self.times[stack])

    def ratio(self, stack: Stack) -> float:
        """How much faster than the reference a stack was in the search."""
        return exp(self.times[self.ground.scope.reference.options] - self.times[stack])


def known(ground: Ground, matrices: Sequence[Matrix]) -> Known | str:
    """What the runs say; words where nothing was measured yet."""
    workload = ground.scope.workload.name
    ground = replace(ground, space=step_space(ground.scope, matrices[0]))
    studies = [study_of(one, workload, ground.declared) for one in matrices]
    found = [one for one in studies if isinstance(one, Study)]
    if isinstance(studies[0], str):
        return studies[0]
    bad = _spoilt(step_rows(matrices, workload), ground.scope.reference)
    together = joined(found)
    return Known(
        ground=ground,
        space=_sought(ground.space, bad, footprints(matrices, workload, ground.scope.environment)),
        matrices=tuple(matrices),
        times=_times(together, step_rows(matrices, workload), [row for row, _ in bad]),
        model=_model(studies[0], together),
        left_out=tuple(dict.fromkeys(f"{row.label}: {why}" for row, why in bad)),
    )


def _spoilt(rows: Sequence[Row], reference: Configuration) -> list[tuple[Row, str]]:
    """Rows whose stacks must not win; only losses that were held against the reference's own tell."""
    found = spoilt(rows)
    return [(row, why) for row, why in found if row.absence or row.comparison.reference == reference]


def _times(together: Study, rows: Sequence[Row], bad: Sequence[Row]) -> dict[Stack, float]:
    """Log times of the measured stacks, infinite where they must not win.

    A stack that was only held against one that must not win is not counted as measured: nobody knows its losses.
    """
    reference = together.ratios[0].reference.options
    stacks, options = {row.comparison.treatment.options for row in bad}, {barred(row) for row in bad}
    judged = {row.comparison.treatment.options for row in rows if row.comparison.reference.options == reference}
    doubtful = {row.comparison.treatment.options for row in rows if row.comparison.reference.options in stacks}
    found = dict.fromkeys(stacks, inf)
    for stack, time in measured_log_times(together).items():
        if stack in stacks or options & set(stack):
            found[stack] = inf
        elif stack not in doubtful or stack in judged:
            found[stack] = time
    return found


def _model(first: Study, together: Study) -> Trusted | str:
    """Tested on the first run, whose balanced stacks nobody chose for being fast; then fitted to everything."""
    found = trusted(first)
    return found if isinstance(found, str) else replace(found, model=fit(together))


def _sought(space: Space, bad: Sequence[tuple[Row, str]], memories: Sequence[Footprint]) -> Space:
    out = {barred(row) for row, _ in bad}
    levels = (tuple(one for one in alike if one not in out) for alike in space.levels)
    return replace(
        space,
        levels=tuple(alike for alike in levels if alike),
        possible=lambda stack: all(one.fits(stack) for one in memories) and space.possible(stack),
    )


def proposed(so_far: Known, rounds: int) -> Proposal:
    """The stacks to measure next, the most promising first; or none, and why."""
    if isinstance(so_far.model, str):
        return _without_a_model(so_far, rounds)
    generator = np.random.default_rng(rounds)
    models = (so_far.model.model, so_far.model.model.drawn(generator))
    forecasts = [forecast_by(model, so_far.ground.declared) for model in models]
    found = propose(so_far.space, so_far.times, forecasts, generator, WANTED)
    return found if rounds else _with_the_lightest(so_far, found)


def _with_the_lightest(so_far: Known, found: Proposal) -> Proposal:
    """In the first round also all together without whatever hurts in it.

    A model believes in small harms less than was measured, and several of them add up to more than it looks for.
    """
    light = next((one for one in _lighter(so_far) if one not in so_far.times and one not in found.stacks), None)
    if light is None:
        return found
    return replace(found, stacks=(*found.stacks[: WANTED.stacks - 1], light), finished=None)


def _without_a_model(so_far: Known, rounds: int) -> Proposal:
    """All together without what hurts, once; then the measured configurations decide."""
    over = "the stage model is not trusted here, so measurements decide: all together, and without what hurts in it"
    stacks = () if rounds else tuple(one for one in _lighter(so_far) if one not in so_far.times)
    return Proposal(stacks=stacks[: WANTED.stacks], gain=0.0, finished=None if stacks else over)


def _lighter(so_far: Known) -> tuple[Stack, ...]:
    entries = _entries(so_far.matrices)
    mine = [one for one in entries if one.row.comparison.reference == so_far.ground.scope.reference]
    wholes = [one for one in mine if one.row.estimate and one.row.comparison.timing is Timing.STEP]
    if not wholes:
        return ()
    whole = max(wholes, key=lambda one: len(one.row.comparison.treatment.options))
    named = {str(one): one for one in whole.row.comparison.treatment.options}
    first, last = ({named[name]: one.log for name, one in found.items()} for found in first_and_last(whole, entries))
    return without_what_hurts(so_far.space, whole.row.comparison.treatment.options, first, last)


def taken_apart(so_far: Known, stack: Stack, final: Sequence[Matrix]) -> Decomposition | None:
    """The parts of a stack; its total comes from the newest run that measured it against the reference."""
    entries = _entries((*so_far.matrices, *final))
    wanted = stack, so_far.ground.scope.reference, Timing.STEP
    mine = [
        one
        for one in entries
        if one.row.estimate
        and (one.row.comparison.treatment.options, one.row.comparison.reference, one.row.comparison.timing) == wanted
    ]
    return decomposition(mine[-1], entries, so_far.ground, so_far.model) if mine else None


def _entries(matrices: Sequence[Matrix]) -> list[Entry]:
    return [
        Entry(kept=Kept(name="", began="", command="", version="", matrix=matrix), table=table, row=row)
        for matrix in matrices
        for table in matrix.tables
        for row in table.rows
    ]


def gain_left(so_far: Known) -> float | None:
    """By how much the best unmeasured stack is predicted to beat the best measured one; None without a model."""
    if isinstance(so_far.model, str):
        return None
    forecast = forecast_by(so_far.model.model, so_far.ground.declared)
    found = propose(so_far.space, so_far.times, [forecast], np.random.default_rng(0), replace(WANTED, least_gain=-inf))
    return found.gain if found.stacks else None


# Staging: the runs of a search, each a folder of its own that a later call finds again and goes on with.


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
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
class Quest:
    """One search: what is wanted, its first plan, the stacks there are, and the place where it is measured."""

    wish: Wish
    ready: Prepared
    ground: Ground
    bench: Bench


def is_unfinished(folder: Path) -> bool:
    """Whether something of a run is left to measure."""
    return (folder / IN_PROGRESS).exists()


def staged(quest: Quest, plan: Plan, until: float, since: str | None) -> Path:
    """The folder of a plan's run, measured as far as a share of the time allows; an earlier one is gone on with.

    Without `since` any earlier run will do, unless a fresh one was asked for; else one that began no earlier.
    """
    bench, run = quest.bench, run_of(replace(quest.ready, plan=plan))
    before = sorted(bench.results.glob(f"*/*-{run.digest}/{RUN}"), key=lambda path: path.parent.name)
    usable = [path.parent for path in before if since is None or read_run(path.parent).began >= since]
    folder = usable[-1] if usable and not (bench.fresh and since is None) else create(bench.results, run)
    go_on(quest, folder, until)
    return folder


def go_on(quest: Quest, folder: Path, until: float) -> None:
    """Measures what is left of a run, as far as a share of the time allows."""
    if is_unfinished(folder) and quest.bench.is_time_left(until):
        ready = replace(quest.ready, plan=read_run(folder).plan)
        quest.bench.measure(ready, folder, quest.bench.until(until))


def rounds_before(quest: Quest, first: Path) -> list[Path]:
    """Runs of proposals that were made since the first run, on the same machine with the same program."""
    start = read_run(first)
    found = []
    for path in sorted(quest.bench.results.glob(f"*/*/{RUN}"), key=lambda path: path.parent.name):
        run = read_run(path.parent)
        if run.plan.design == SEARCH and run.began >= start.began and _conditions(run) == _conditions(start):
            found += [path.parent] if _is_of(run.plan, start.plan) else []
    return found


def _conditions(run: Run) -> tuple[object, ...]:
    return run.version, run.environment.digest, run.plan.protocol, run.plan.seed, run.plan.data


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the user asked for; the wish says nothing yet of a design."""

    wish: Wish
    quality: QualityClass


def quality_named(name: str) -> QualityClass:
    """The class of that name; raises Mistake with the names there are."""
    if name not in list(QualityClass):
        raise Mistake(f"There is no quality '{name}'; choose one of {', '.join(QualityClass)}.")
    return QualityClass(name)


def wish_of(asked: Asked) -> Wish:
    """The run with which a search begins: a matrix, or every stack of a few options; raises Mistake."""
    catalogue = read_catalogue(asked.wish.own)
    scope = _scope(asked, catalogue)
    named = _named(asked, catalogue) if asked.wish.only else _willing(scope, asked.quality)
    name = scope.workload.name
    if not named:
        raise Mistake(f"No optimization of {name} can be sought here with --quality {asked.quality}; try another.")
    stacks = prod(1 + len(levels) for levels in varied(replace(scope, chosen=named)))
    return replace(
        asked.wish,
        workloads=(name,),
        design="factorial" if stacks <= FEW else "matrix",
        only=tuple(map(str, named)),
        target="none",  # time is for stacks; the winner gets replicates of its own
    )


def put_off(asked: Asked) -> Iterator[str]:
    """Sentences on what a more patient protocol would seek too; none where the options were named. Raises Mistake."""
    if asked.wish.only:
        return
    scope = _scope(asked, read_catalogue(asked.wish.own))
    patient = replace(scope, protocol=PROTOCOLS["standard"])
    for one in scope.optimizations:
        is_sought = one.sought and one.timed_on is Timing.STEP and one.numerics in ALLOWED[asked.quality]
        if is_sought and not hindrance(patient, one) and (reason := hindrance(scope, one)):
            yield f"{one.name} is not sought: it {reason}."


def _scope(asked: Asked, catalogue: Catalogue) -> Scope:
    """What a search may choose from on this machine; raises Mistake where no workload is named or known."""
    name = next(iter(asked.wish.workloads), catalogue.own)
    if name is None:
        raise Mistake("Name the workload to search: ./speedmatrix best leak; ./speedmatrix list shows them all.")
    environment = asked.wish.surroundings()
    context = Context(catalogue=catalogue, environment=environment, protocol=_patience(asked.wish, environment))
    request = reference_request("baseline", catalogue.workload(name).name, asked.wish.size, asked.wish.batch)
    return context.scope(catalogue.workload(name), context.config(request))


def _patience(wish: Wish, environment: Environment) -> Protocol:
    """The protocol that says how slowly an optimization may start.

    On a GPU compiling takes seconds and is what one seeks. On a CPU it takes minutes
    for each arm of every second stack.
    """
    return PROTOCOLS["standard"] if environment.device == "cuda" else protocol_named(wish.protocol)


def _willing(scope: Scope, quality: QualityClass) -> tuple[Option, ...]:
    """All that goes together, acts on training steps and lacks nothing that may not be switched on."""
    found = [one for one in all_options(scope, ALLOWED[quality]) if scope.known[one.name].timed_on is Timing.STEP]
    names = {one.name for one in found}
    return tuple(one for one in found if names.issuperset(scope.known[one.name].requires))


def _named(asked: Asked, catalogue: Catalogue) -> tuple[Option, ...]:
    """What was named; raises Mistake for what a search over training steps cannot take."""
    found = tuple(map(parse_option, asked.wish.only))
    for option in found:
        one = catalogue.optimization(option.name)
        if one.numerics not in ALLOWED[asked.quality]:
            raise Mistake(
                f"{one.name} promises losses that are {one.numerics}, which --quality {asked.quality} rules out; "
                f"leave it out, or say --quality {'close' if one.numerics is Numerics.CLOSE else 'any'}."
            )
        if one.timed_on is not Timing.STEP:
            raise Mistake(f"{one.name} is timed on {one.timed_on}s, and best compares training steps; leave it out.")
    return found


def ground_in(wish: Wish, ready: Prepared) -> Ground:
    """The stacks that a search may propose: those of the options in its first run."""
    context = Context(catalogue=ready.catalogue, environment=ready.environment, protocol=PROTOCOLS["standard"])
    reference = ready.plan.blocks[0].reference
    scope = context.scope(ready.catalogue.workload(reference.workload), reference)
    seen = {one for config in ready.plan.comparisons for one in config.treatment.options}
    chosen = tuple(sorted(one for one in seen if one not in reference.options and one.name in _names(wish)))
    scope = replace(scope, chosen=chosen)
    return Ground(scope=scope, space=space_of(scope, varied(scope)), declared=declared_of(ready.catalogue.known))


def _names(wish: Wish) -> set[str]:
    return {parse_option(name).name for name in wish.only}


REPLICATES = 4  # of the winner: it has no pool to borrow a variance from
# Shares of the budget after which the first run and the proposals leave off, so that the winner gets the rest.
FIRST, PROPOSALS = 0.6, 0.8


def best(asked: Asked, place: Place, *, as_json: bool) -> int:
    """Searches and prints; 0, or 1 when nothing could be measured, or 130 when it was stopped."""
    budget_s = seconds_of(place.budget)
    wish = wish_of(asked)
    ready = prepared(wish)
    tell_unused_gpu(wish.device, ready.environment)
    words = Console(stderr=as_json, highlight=False)
    for sentence in put_off(asked):
        words.print(sentence, markup=False)
    try:
        with measuring_alone(), stopping_on_terminate():
            bench = _bench(ready, place, budget_s, words)
            found = searched(Quest(wish=wish, ready=ready, ground=ground_in(wish, ready), bench=bench))
    except KeyboardInterrupt:
        sys.stderr.write("Stopped; what was measured is kept, and the same command continues.\n")
        return 130
    if isinstance(found, str):
        words.print(f"Nothing was found: {found}.")
        return 1
    if as_json:
        sys.stdout.write(winner_to_json(found))
    else:
        for part in shown(found):
            console().print(part)
    return 0


def _bench(ready: Prepared, place: Place, budget_s: float | None, words: Console) -> Bench:
    spent_s = age_s()
    data = prepare_data(ready, place, words)  # written once, and not from the budget
    return Bench(
        results=place.results,
        measure=lambda one, folder, until: campaign_into(one, folder, data, until),
        clock=monotonic,
        began_s=monotonic() - spent_s,
        budget_s=None if budget_s is None else max(0.0, budget_s - REPORT_S),
        fresh=place.fresh,
        tell=words.print,
    )


def searched(quest: Quest) -> Winner | str:
    """The winner of a search that goes on with whatever was measured for it before; words where nothing was."""
    plan, bench = quest.ready.plan, quest.bench
    options = len(quest.ground.scope.chosen)
    bench.tell(f"First: {len(plan.comparisons)} comparisons of {options} options ({plan.design})")
    first = staged(quest, plan, FIRST, since=None)
    folders = [first, *rounds_before(quest, first)]
    go_on(quest, folders[-1], PROPOSALS)
    so_far, ended = _explored(quest, folders)
    return so_far if isinstance(so_far, str) else _crowned(quest, so_far, folders, ended)


def _explored(quest: Quest, folders: list[Path]) -> tuple[Known | str, str]:
    """What is known when the search is over or its time is, and why it ended; appends the folders of its runs."""
    while True:
        so_far, rounds = known(quest.ground, [matrix_of(folder) for folder in folders]), len(folders) - 1
        if isinstance(so_far, str):
            return so_far, ""
        proposal = proposed(so_far, rounds)
        if is_over(rounds, proposal, WANTED):
            return so_far, proposal.finished or f"{rounds} rounds of proposals were measured"
        comparisons = list(_comparisons(so_far, proposal.stacks))
        if not comparisons or not quest.bench.is_time_left(PROPOSALS):
            return so_far, "the time for proposals was spent"
        quest.bench.tell(f"Then: {len(comparisons)} proposals; the first promises {100 * proposal.gain:+.1f} %")
        plan = plan_of(SEARCH, comparisons, quest.ready.plan, quest.ready.catalogue)
        folders.append(staged(quest, plan, PROPOSALS, since=read_run(folders[0]).began))


def _comparisons(so_far: Known, stacks: Sequence[Stack]) -> Iterator[Comparison]:
    reference = so_far.ground.scope.reference.options
    for stack in stacks:
        label = "+".join(str(one) for one in stack if one not in reference)
        entry = compare(so_far.ground.scope, label, stack, Timing.STEP)
        if isinstance(entry, Comparison):
            yield entry


def _crowned(quest: Quest, so_far: Known, folders: Sequence[Path], ended: str) -> Winner:
    """The winner with its own number: from processes that were not there when it was picked."""
    stack, final, plan = so_far.best, None, quest.ready.plan
    if stack != so_far.ground.scope.reference.options:
        fixed = replace(plan, protocol=replace(plan.protocol.fixed(), replicates=REPLICATES))
        afresh = plan_of(WINNER, list(_comparisons(so_far, [stack])), fixed, quest.ready.catalogue)
        quest.bench.tell(f"Last: {'+'.join(map(str, stack))} afresh, in {REPLICATES} replicates")
        final = staged(quest, afresh, 1.0, since=read_run(folders[0]).began)
    return _told(quest, so_far, (*folders, *([final] if final else [])), _certainty(so_far, len(folders) - 1, ended))


def _told(quest: Quest, so_far: Known, runs: Sequence[Path], certainty: Certainty) -> Winner:
    reference, stack = so_far.ground.scope.reference, so_far.best
    is_picked = stack != reference.options
    last: list[Matrix] = [matrix_of(runs[-1])] if is_picked else []
    return Winner(
        reference=reference,
        name=quest.ready.plan.names.get(str(reference), "baseline"),
        stack=stack if is_picked else (),
        sought=so_far.ratio(stack) if is_picked else None,
        result=next((row.result for matrix in last for row in matrix.rows), None),
        decomposition=taken_apart(so_far, stack, last) if is_picked else None,
        certainty=certainty,
        runs=tuple(map(str, runs)),
        command=_command(quest.wish, so_far) if is_picked else "",
        unfinished=tuple(str(one) for one in runs if is_unfinished(one)),
    )


def _certainty(so_far: Known, rounds: int, ended: str) -> Certainty:
    space = so_far.ground.space
    return Certainty(
        ended=ended,
        model=so_far.model if isinstance(so_far.model, str) else so_far.model.foretold,
        rounds=rounds,
        measured=len(so_far.times) - 1,
        stacks=counted(space),
        ranked=counted(space) <= RANKED,
        gain=gain_left(so_far),
        left_out=so_far.left_out,
    )


def _command(wish: Wish, so_far: Known) -> str:
    """What measures the winner alone again, with as many replicates."""
    config = so_far.ground.scope.reference
    environment = so_far.ground.scope.environment
    alone = replace(
        wish, design="alone", only=(), stack="+".join(map(str, so_far.best)), size=config.size, replicates=REPLICATES,
        target=None, device=environment.device, reference="baseline",
    )  # fmt: skip
    own = f" --workload {wish.own.name}" if wish.own else ""
    real = f" --data-root {config.workload}=FOLDER" if wish.data_roots else ""
    return in_words(alone) + own + real
