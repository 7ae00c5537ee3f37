"""`explain`: what a cell changes, what its step is bound to and reads like; or an optimization's page."""

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.syntax import Syntax
from rich.table import Table

from harness.catalogue import Catalogue, read_catalogue
from harness.core.cell import Cell, CellRequest, parse_cell
from harness.core.compose import Conflict, compose, expected, unmet
from harness.core.environment import Environment
from harness.core.mistake import Mistake
from harness.core.optimization import Optimization
from harness.core.recipe import Recipe, difference
from harness.core.workload import Workload
from harness.measure.surroundings import read_environment


def show_explanation(what: str, reference: str, device: str, own: Path | None) -> None:
    """Prints the page of an optimization, or what a cell is."""
    catalogue, console = read_catalogue(own), Console(highlight=False)
    if what in catalogue.optimizations:
        _show_page(catalogue.optimizations[what], console)
        return
    environment = read_environment(device)
    request = parse_cell(what)
    size = "standard" if environment.device == "cuda" else "quick"
    cell = catalogue.cell(request, size, environment)
    names = () if reference == "plain" else tuple(reference.split("+"))
    below = catalogue.cell(
        CellRequest(workload=request.workload, size=request.size, batch=request.batch, names=names), size, environment
    )
    _show_cell(cell, below, (catalogue, environment), console)


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
    console.print(f"proof of engagement: {_stated(dict(optimization.proof))}")


def _show_cell(cell: Cell, below: Cell, context: tuple[Catalogue, Environment], console: Console) -> None:
    catalogue, environment = context
    workload = catalogue.workload(cell.workload)
    recipe, plain = _recipe(workload, cell, catalogue), _recipe(workload, below, catalogue)
    console.print(f"[bold]{cell}[/bold]  against  {below}\n")
    table = Table("choice", "reference", "this cell", title="What differs", title_justify="left")
    for name, (theirs, ours) in difference(recipe, plain).items():
        table.add_row(name, str(theirs), str(ours))
    console.print(table if table.rows else "Nothing differs from the reference.")
    for switch in cell.switches:
        optimization = catalogue.optimization(switch.name)
        hindrance = unmet(optimization, environment, workload)
        proof = f"proved by {_stated(expected(optimization, switch.level))}"
        console.print(f"{switch}: {optimization.title.lower()}; {hindrance or proof}")
    if any(unmet(catalogue.optimization(one.name), environment, workload) for one in cell.switches):
        console.print("\nThis cell cannot run on this machine, so its step cannot be shown.")
        return
    _show_step(workload, cell, recipe, (environment, console))


def _recipe(workload: Workload, cell: Cell, catalogue: Catalogue) -> Recipe:
    try:
        return compose(workload, cell.switches, catalogue.optimizations)
    except Conflict as conflict:
        raise Mistake(f"The cell {cell} is impossible: {conflict}.") from conflict


def _show_step(workload: Workload, cell: Cell, recipe: Recipe, context: tuple[Environment, Console]) -> None:
    import torch

    from harness.measure.phases import CpuPhases
    from harness.measure.session import Task, open_trainee
    from harness.measure.step import shape_of_step

    environment, console = context
    task = Task(
        parts=workload.parts(),
        size=workload.at(cell.size, cell.batch),
        recipe=recipe,
        data=Path(),
        device=torch.device(environment.device),
        seed=0,
        endless=True,
    )
    trainee = open_trainee(task, CpuPhases())
    table = Table("name", "bound to", title="Values bound in the step", title_justify="left")
    table.add_row("fetch", _feed(recipe))
    parameters = sum(one.numel() for one in trainee.model.parameters())
    table.add_row("model", f"{type(trainee.model).__name__}, {parameters:,} parameters{_compiled(recipe)}")
    table.add_row("loss", type(trainee.bound.loss).__name__)
    for name in ("transfer", "autocast", "backward", "update", "record"):
        table.add_row(name, "; ".join(_described(getattr(trainee.bound, name))))
    table.add_row("optimizer", " ".join(repr(trainee.optimizer).split()))
    console.print(table)
    source = inspect.getsource(shape_of_step(recipe.micro_batches))
    console.print(Syntax(source, "python", background_color="default"))


def _feed(recipe: Recipe) -> str:
    ahead = f", {recipe.prefetched_batches} batches ahead" if recipe.workers else ""
    kept = ", kept across epochs" if recipe.persistent_workers else ""
    whole = "whole batches" if recipe.batched_fetch else "item by item"
    return f"next batch of a DataLoader with {recipe.workers} workers{ahead}{kept}, {whole}"


def _compiled(recipe: Recipe) -> str:
    return f", compiled ({recipe.compile})" if recipe.compile else ""


def _described(call: Callable[..., Any]) -> Iterator[str]:
    """A function's name and what it closes over, calls within calls."""
    if isinstance(call, partial):
        given = [*map(str, call.args), *(f"{name}={value}" for name, value in call.keywords.items())]
        yield f"{call.func.__name__}({', '.join(given)})"
        return
    yield getattr(call, "__qualname__", repr(call)).replace(".<locals>", "")
    for name, value in inspect.getclosurevars(call).nonlocals.items() if inspect.isfunction(call) else ():
        if callable(value) and not isinstance(value, type):
            yield from _described(value)
        elif isinstance(value, (bool, int, str)):
            yield f"{name}={value}"


def _stated(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in settings.items()) or "nothing to prove"
