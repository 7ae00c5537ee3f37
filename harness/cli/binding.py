"""Binding: what the names in a cell's step stand for, seen on a model that was built for it."""

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cli.describing import Link, described, feed_in_words, optimizer_in_words
from harness.cli.naming import Context
from harness.core.cell import Cell
from harness.core.mistake import Mistake
from harness.core.optimization import Timing
from harness.core.recipe import Recipe
from harness.core.workload import Workload

if TYPE_CHECKING:
    from harness.measure.session import Trainee
    from harness.measure.step import Bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """A cell with what it runs."""

    cell: Cell
    workload: Workload
    recipe: Recipe
    context: Context


def what_is_timed(cell: Explained) -> Callable[..., Any]:
    """The shape of the step, or the evaluation where nothing but evaluation is switched."""
    from harness.measure.step import shape_of_step

    known = cell.context.catalogue.known
    timings = {known[switch.name].timed_on for switch in cell.cell.switches}
    evaluate = cell.workload.parts().evaluate
    if timings == {Timing.EVALUATION} and inspect.isfunction(evaluate):
        return evaluate
    return shape_of_step(cell.recipe.micro_batches, captured=cell.recipe.cuda_graph)


def bound_values(cell: Explained) -> Iterator[tuple[str, Iterable[Link]]]:
    """All names that a step may use, and the optimizer behind them: each with the callables that it stands for."""
    trainee = _trainee(cell)
    yield "fetch", [Link(call="next batch", words=feed_in_words(cell.recipe))]
    bound = _as_stepped(cell, trainee)
    for field in fields(bound):
        value = getattr(bound, field.name)
        if field.name == "model":
            yield "model", _model(cell.recipe, trainee)
        elif field.name != "fetch" and callable(value):
            yield field.name, described(value)
    yield "optimizer", [optimizer_in_words(trainee.optimizer)]


def _as_stepped(cell: Explained, trainee: "Trainee") -> "Bound":
    """The values as the step gets them: batches sent ahead and parts marked, where the recipe says so."""
    from harness.measure.ahead import Ahead, CudaRoad
    from harness.measure.phases import phases_for

    bound = trainee.bound
    if cell.recipe.device_prefetch:
        device = next(trainee.model.parameters()).device
        road = CudaRoad(trainee.move, device, phases_for(device))
        bound = Ahead(road, bound.fetch).bound(bound, trainee.device_stage)
    return trainee.mark(bound)


def _model(recipe: Recipe, trainee: "Trainee") -> Iterator[Link]:
    if recipe.compile:
        yield Link(call=type(trainee.bound.model).__name__, words=f"Compiled: {recipe.compile}")
    first, *_ = described(trainee.model)
    parameters = sum(one.numel() for one in trainee.model.parameters())
    yield Link(call=first.call, words="; ".join(filter(None, (first.words, f"{parameters:,} parameters"))))


def _trainee(cell: Explained) -> "Trainee":
    import torch

    from harness.measure.phases import phases_for
    from harness.measure.session import Task, open_trainee

    device = torch.device(cell.context.environment.device)
    parts = cell.workload.parts()
    task = Task(
        parts=replace(parts, device_stage=partial(_stage_or_maker, parts.device_stage)),
        size=cell.workload.at(cell.cell.size, cell.cell.batch),
        recipe=cell.recipe,
        data=Path(),
        device=device,
        seed=0,
        endless=True,
    )
    return open_trainee(task, phases_for(device))


def _stage_or_maker(make: Callable[..., Any], *given: object) -> Any:
    """The device stage, or what would make it of the workload's data, which need not be there to be explained."""
    try:
        return make(*given)
    except (Mistake, OSError):
        return make
