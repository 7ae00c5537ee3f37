"""`best`: searches the fastest stack of a workload, run after run, and measures the winner afresh."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic

from rich.console import Console

from harness.analyze.matrix import Matrix
from harness.analyze.study import Stack
from harness.analyze.winner import SEARCH, WINNER, Certainty, Winner
from harness.cli.asking_again import in_words
from harness.cli.candidates import Asked, ground_in, put_off, wish_of
from harness.cli.deciding import WANTED, Known, gain_left, known, proposed, taken_apart
from harness.cli.measuring import (
    REPORT_S,
    Place,
    age_s,
    campaign_into,
    prepare_data,
    seconds_of,
    stopping_on_terminate,
)
from harness.cli.planning import Prepared, Wish, plan_of, prepared, tell_unused_gpu
from harness.cli.reporting import console, matrix_of
from harness.cli.staging import Bench, Quest, go_on, is_unfinished, rounds_before, staged
from harness.core.cell import Comparison
from harness.core.optimization import Timing
from harness.plan.entries import compare
from harness.plan.search import RANKED, counted, is_over
from harness.report.winner import shown, to_json
from harness.run.lock import measuring_alone
from harness.store import read_run

RESTARTS = 4  # of the winner: it has no pool to borrow a variance from
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
        sys.stdout.write(to_json(found))
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
    switches = len(quest.ground.scope.chosen)
    bench.tell(f"First: {len(plan.comparisons)} comparisons of {switches} switches ({plan.design})")
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
    reference = so_far.ground.scope.reference.switches
    for stack in stacks:
        subject = "+".join(str(one) for one in stack if one not in reference)
        entry = compare(so_far.ground.scope, subject, stack, Timing.STEP)
        if isinstance(entry, Comparison):
            yield entry


def _crowned(quest: Quest, so_far: Known, folders: Sequence[Path], ended: str) -> Winner:
    """The winner with its own number: from processes that were not there when it was picked."""
    stack, final, plan = so_far.best, None, quest.ready.plan
    if stack != so_far.ground.scope.reference.switches:
        fixed = replace(plan, protocol=replace(plan.protocol.fixed(), restarts=RESTARTS))
        afresh = plan_of(WINNER, list(_comparisons(so_far, [stack])), fixed, quest.ready.catalogue)
        quest.bench.tell(f"Last: {'+'.join(map(str, stack))} afresh, in {RESTARTS} restarts")
        final = staged(quest, afresh, 1.0, since=read_run(folders[0]).began)
    return _told(quest, so_far, (*folders, *([final] if final else [])), _certainty(so_far, len(folders) - 1, ended))


def _told(quest: Quest, so_far: Known, runs: Sequence[Path], certainty: Certainty) -> Winner:
    reference, stack = so_far.ground.scope.reference, so_far.best
    is_picked = stack != reference.switches
    last: list[Matrix] = [matrix_of(runs[-1])] if is_picked else []
    return Winner(
        reference=reference,
        name=quest.ready.plan.names.get(str(reference), "plain"),
        stack=stack if is_picked else (),
        sought=so_far.ratio(stack) if is_picked else None,
        result=next((row.result for matrix in last for row in matrix.rows), None),
        anatomy=taken_apart(so_far, stack, last) if is_picked else None,
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
    """What measures the winner alone again, with as many restarts."""
    cell = so_far.ground.scope.reference
    environment = so_far.ground.scope.environment
    alone = replace(
        wish, design="alone", only=(), stack="+".join(map(str, so_far.best)), size=cell.size, restarts=RESTARTS,
        target=None, device=environment.device, reference="plain",
    )  # fmt: skip
    own = f" --workload {wish.own.name}" if wish.own else ""
    real = f" --data-root {cell.workload}=FOLDER" if wish.data_roots else ""
    return in_words(alone) + own + real
