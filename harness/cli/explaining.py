"""`explain`: what a cell changes, what its step is bound to and reads like; or an optimization's page."""

import inspect
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.syntax import Syntax
from rich.table import Table

from harness.catalogue import read_catalogue
from harness.cli.binding import Explained, bound_values, what_is_timed
from harness.cli.differing import between, compact, proof_in_words
from harness.cli.naming import Context, protocol_named, reference_request
from harness.core.cell import CellRequest, parse_cell
from harness.core.claim import Claim
from harness.core.compose import Conflict, batch_scale, compose, unmet
from harness.core.mistake import Mistake
from harness.core.optimization import Optimization
from harness.measure.surroundings import read_environment
from harness.plan.entries import equal_samples
from harness.report.claims import promised


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What the user asked for."""

    what: str
    reference: str
    protocol: str  # decides what `everything` is: a first look leaves out what starts slowly
    device: str
    own: Path | None
    fully: bool  # a row for each switch, nothing shortened


def show_explanation(question: Question) -> None:
    """Prints the page of an optimization, or what a cell is."""
    catalogue, console = read_catalogue(question.own), Console(highlight=False)
    if question.what in catalogue.known:
        _show_page(catalogue.known[question.what], console)
        _show_claims(question.what, catalogue.claims, console)
        return
    context = Context(
        catalogue=catalogue,
        environment=read_environment(question.device),
        protocol=protocol_named(question.protocol),
    )
    request = parse_cell(question.what)
    below = reference_request(question.reference, request.workload, request.size, request.batch)
    cell, asked = _explained(request, context), _explained(below, context)
    reference = _at_equal_samples(asked, cell)
    added = tuple(str(one) for one in reference.cell.switches if one not in asked.cell.switches)
    console.print(f"[bold]{_called(cell, request.names)}[/bold]  against  {_called(reference, (*below.names, *added))}")
    _show_difference(cell, reference, fully=question.fully, console=console)
    if "as_found" in request.names:
        _show_sources(cell, console)
    _show_step(cell, console)


def _show_page(optimization: Optimization, console: Console) -> None:
    console.print(f"[bold]{optimization.name}[/bold] — {optimization.title}\n")
    console.print(escape(optimization.page))
    console.print(f"\nstage {optimization.stage}, numerics {optimization.numerics}, timed on {optimization.timed_on}s")
    if optimization.levels:
        console.print(f"levels: {', '.join(map(str, optimization.levels))}")
    if optimization.requires:
        console.print(f"requires: {', '.join(optimization.requires)}")
    for need in optimization.needs:
        console.print(f"condition: {need.missing} otherwise")
    console.print(f"proof of engagement: {proof_in_words(optimization.proof)}")


def _show_claims(name: str, claims: Iterable[Claim], console: Console) -> None:
    """The ledger's claims about an optimization, or about what is lost where it is on."""
    about = [claim for claim in claims if name in claim.differing]
    for claim in about:
        where = f", {claim.conditions}" if claim.conditions else ""
        console.print(f"claim {claim.name}: {promised(claim)}{where} ({claim.source})", markup=False)
    if about:
        console.print("what was measured of them: ./speedmatrix claims")


def _show_sources(cell: Explained, console: Console) -> None:
    """Where it is known from that the real system had a setting."""
    table = compact("As the real system ran", "setting", "known from")
    for name in cell.workload.found_on(cell.context.environment.device):
        table.add_row(name, escape(cell.workload.as_found[name]))
    console.print(table)


def _explained(request: CellRequest, context: Context) -> Explained:
    cell, catalogue = context.cell(request), context.catalogue
    workload = catalogue.workload(cell.workload)
    try:
        recipe = compose(workload, cell.switches, catalogue.known)
    except Conflict as conflict:
        raise Mistake(f"The cell {cell} is impossible: {conflict}.") from conflict
    return Explained(cell=cell, workload=workload, recipe=recipe, context=context)


def _at_equal_samples(reference: Explained, cell: Explained) -> Explained:
    """The reference as it would be measured: with as many samples for each update as the cell."""
    workload, context, known = cell.workload, cell.context, cell.context.catalogue.known
    usual = cell.cell.batch // batch_scale(cell.cell.switches, known)
    start = replace(reference.cell, batch=usual * batch_scale(reference.cell.switches, known))
    try:
        _, found = equal_samples(context.scope(workload, start), cell.cell.switches)
        return replace(reference, cell=found, recipe=compose(workload, found.switches, known))
    except Conflict as conflict:
        raise Mistake(f"{cell.cell} cannot be compared with {reference.cell}: {conflict}.") from conflict


def _called(explained: Explained, names: tuple[str, ...]) -> str:
    """A cell by the names it was asked for, which are shorter than its switches."""
    cell = explained.cell
    return escape(f"{cell.workload}@{cell.size}#{cell.batch}" + (f":{'+'.join(names)}" if names else ""))


def _show_difference(cell: Explained, reference: Explained, *, fully: bool, console: Console) -> None:
    catalogue, environment = cell.context.catalogue, cell.context.environment
    optimizations = ((one, catalogue.optimization(one.name)) for one in cell.cell.switches)
    found = between(
        (cell.recipe, reference.recipe),
        ((switch, one, unmet(one, environment, cell.workload, switch.level)) for switch, one in optimizations),
    )
    console.print(found.table(fully=fully) or "No switch of it differs from the reference.")
    if found.only_in_reference:
        console.print(f"Changed in the reference alone: {found.only_in_reference}.")
    if found.shared:
        console.print(f"On in both: {', '.join(map(str, found.shared))}.")
    for words in found.hindrances:
        console.print(f"Cannot run on this machine: {words}.")


def _show_step(cell: Explained, console: Console) -> None:
    if _can_run(cell):
        console.print(_table(cell))
    else:
        console.print("Its step would read as follows; what is bound in it can be seen where it can run.")
    source = inspect.getsource(what_is_timed(cell))
    console.print(Syntax(source.rstrip(), "python", background_color="default"))


def _can_run(cell: Explained) -> bool:
    known, environment = cell.context.catalogue.known, cell.context.environment
    return not any(unmet(known[switch.name], environment, cell.workload, switch.level) for switch in cell.cell.switches)


def _table(cell: Explained) -> Table:
    table = compact("Values bound in the step", "name", "bound to", "what it does")
    table.columns[1].max_width = 44
    for name, links in bound_values(cell):
        for place, link in enumerate(links):
            table.add_row(name if place == 0 else "", escape(link.call), escape(link.words))
    return table
