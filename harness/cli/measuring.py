"""`plan`, `run`, `calibrate` and `best`: measure a request, show how it goes, and print what came of it."""

import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic

from rich.console import Console
from rich.table import Table

from harness import __version__
from harness.analyze.calibration import calibrate
from harness.api import Until, measure_into, measured, written
from harness.catalogue import read_catalogue
from harness.cli.progress import Terminal
from harness.cli.reading import console, print_matrix
from harness.core.catalogue import Catalogue
from harness.core.codec import encode
from harness.core.mistake import Mistake
from harness.core.request import Request, placeless
from harness.measure.surroundings import read_environment, unused_gpu
from harness.plan.cost import seconds_for
from harness.plan.planning import protocol_named, usual_size
from harness.report.calibration import calibration_parts
from harness.report.document import show as show_parts
from harness.report.prediction import winner_parts, winner_to_json
from harness.report.words import looks
from harness.results import decides, matrix_of
from harness.run.lock import measuring_alone, stopping_on_terminate
from harness.run.preparation import REPORT_S, Place, Prepared, age_s, prepared, seconds_of
from harness.search import Search, SearchBudget, SearchRequest, put_off, request_of, searched, stacks_in
from harness.store import IN_PROGRESS, read_records, read_run


def show_plan(request: Request, *, as_json: bool) -> None:
    """Prints the plan of a request."""
    ready = prepared(request)
    console = Console()
    if as_json:
        console.print_json(json.dumps({"version": __version__, "plan": encode(ready.plan)}))
        return
    table = Table("block", "workload", "timed on", "reference", "against it, in turns", title="What would be measured")
    for block in ready.plan.blocks:
        labels = ", ".join(comparison.label for comparison in block.comparisons)
        stack = "+".join(map(str, block.reference.options)) or "baseline"
        table.add_row(block.identity, block.reference.workload, block.timing, stack, labels)
    console.print(table)
    for no_result in ready.plan.no_results:
        console.print(f"[dim]{no_result.workload}: {no_result.label} — {no_result.reason}[/dim]", highlight=False)
    protocol, count = ready.plan.protocol, len(ready.plan.comparisons)
    console.print(
        f"{count} comparisons, each in {protocol.replicates} replicates of {protocol.rounds} rounds: "
        f"about {seconds_for(ready.plan, ready.paces) / 60:.0f} minutes{looks(protocol)}; "
        "[bold]run[/bold] with the same words measures them.",
        highlight=False,
    )


def measure(request: Request, place: Place, shown: Callable[[Path], int] | None = None) -> int:
    """Measures what is left of the request's plan; gives the exit status.

    That is 0, or 1 when nothing could be measured, or 130 when it was stopped by Ctrl-C or SIGTERM. `shown` prints
    what a run's folder says in another way than as a matrix, and gives the status.
    """
    try:
        tell_unused_gpu(request.device)
        folder = measured(request, place, Terminal(Console()), command=shown_command(sys.argv[1:]), spent_s=age_s())
    except KeyboardInterrupt:
        sys.stderr.write("Stopped; what was measured is kept, and the same command continues.\n")
        return 130
    return (shown or partial(show_matrix, request.own))(folder)


def tell_unused_gpu(chosen: str) -> None:
    """Says once that a GPU is here and the CPU is measured in its place, unless the user chose the CPU."""
    if chosen == "auto" and read_environment(chosen).device == "cpu" and (sentence := unused_gpu()):
        sys.stderr.write(f"{sentence}\n")


def show_matrix(own: Path | None, folder: Path, *, verbose: bool = False) -> int:
    """Prints what a run says, on one screen or in full; gives 1 where it has no ratio, else 0."""
    matrix = matrix_of(folder)
    print_matrix(matrix, folder, read_catalogue(own), verbose=verbose)
    return 0 if any(row.estimate for row in matrix.rows) else 1


def shown_command(words: list[str]) -> str:
    """The command line as others can use it: without the places on this machine, which are nobody's business."""
    kept, rest = ["speedmatrix"], iter(words)
    for word in rest:
        option, _, value = word.partition("=")
        if option in {"--results", "--data", "--archive", "--workload"}:
            place = value or next(rest, "")
            kept += ["--workload", Path(place).name] if option == "--workload" else []
        elif option == "--data-root":
            kept += ["--data-root", placeless(value or next(rest, ""))]
        else:
            kept.append(word)
    return shlex.join(kept)


# `calibrate`: measures what this machine can tell, and prints what came of it.


def measure_and_show(request: Request, place: Place) -> int:
    """Calibrates this machine; gives 0, or 1 when it failed, or what `run` gives when it was stopped."""
    return measure(replace(request, workloads=request.workloads or _quick_ones(request)), place, show)


def _quick_ones(request: Request) -> tuple[str, ...]:
    """Workloads whose steps are short beside a window: in the same time they show more pairs."""
    catalogue, protocol = read_catalogue(request.own), protocol_named(request.protocol)
    if catalogue.own:
        return (catalogue.own,)
    size = request.size or usual_size(read_environment(request.device))
    found = tuple(name for name, step_s in _step_s(catalogue, size) if not protocol.is_slow(step_s))
    if not found:
        raise Mistake(
            f"Every workload's step is slow at size {size}; name those that are to calibrate, or --size quick."
        )
    return found


def _step_s(catalogue: Catalogue, size: str) -> list[tuple[str, float]]:
    return [(name, one.sizes[size].step_s) for name, one in sorted(catalogue.workloads.items()) if size in one.sizes]


def show(folder: Path) -> int:
    """Prints what a run of the design `calibration` says of its machine; gives 1 where it failed."""
    run = read_run(folder)
    found, where = calibrate(run.plan, read_records(folder)), console()
    show_parts(calibration_parts(found), where)
    if (folder / IN_PROGRESS).exists():
        where.print(f"Not finished, so nothing rests on it yet: the same command continues {folder}.", highlight=False)
        return 0 if found.copies else 1
    rests = (
        "every report of this machine and environment rests on it" if decides(run) else "too small to decide anything"
    )
    where.print(f"Kept in {folder}; {rests}.", highlight=False)
    return 0 if found.passed else 1


# `best`: searches the fastest stack, and prints the winner.


def best(asked: SearchRequest, place: Place, *, as_json: bool) -> int:
    """Searches and prints; 0, or 1 when nothing could be measured, or 130 when it was stopped."""
    budget_s = seconds_of(place.budget)
    request = request_of(asked)
    ready = prepared(request, shown_command(sys.argv[1:]))
    tell_unused_gpu(request.device)
    words = Console(stderr=as_json, highlight=False)
    for sentence in put_off(asked):
        words.print(sentence, markup=False)
    try:
        with measuring_alone(), stopping_on_terminate():
            bench = _budget(ready, place, budget_s, words)
            found = searched(Search(request=request, ready=ready, possible=stacks_in(request, ready), budget=bench))
    except KeyboardInterrupt:
        sys.stderr.write("Stopped; what was measured is kept, and the same command continues.\n")
        return 130
    if isinstance(found, str):
        words.print(f"Nothing was found: {found}.")
        return 1
    if as_json:
        sys.stdout.write(winner_to_json(found))
    else:
        show_parts(winner_parts(found), console())
    return 0


def _budget(ready: Prepared, place: Place, budget_s: float | None, words: Console) -> SearchBudget:
    spent_s = age_s()
    data = written(ready, place.data, Terminal(words))  # written once, and not from the budget
    return SearchBudget(
        results=place.results,
        measure=lambda one, folder, until: measure_into(one, folder, data, Until(until), Terminal(Console())),
        clock=monotonic,
        began_s=monotonic() - spent_s,
        budget_s=None if budget_s is None else max(0.0, budget_s - REPORT_S),
        fresh=place.fresh,
        tell=words.print,
    )
