"""The session: recipe and workload become a model, a step and a feed."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler

from harness.core.recipe import Recipe
from harness.core.workload import Evaluation, Parts, Size
from harness.measure.feed import Feed, open_feed
from harness.measure.phases import Phases, phases_for
from harness.measure.step import Batch, Bound, shape_of_step
from harness.measure.update import (
    DeferredMetrics,
    EagerMetrics,
    kernel_keywords,
    plain_backward,
    plain_update,
    scaled_backward,
    scaled_update,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """All that decides how a session is built."""

    parts: Parts
    size: Size
    recipe: Recipe
    data: Path
    device: torch.device
    seed: int  # of the model; the data's order is the same for every seed
    endless: bool  # leave out the boundary between epochs


@dataclass(slots=True, kw_only=True)
class Trainee:
    """A model with what trains it; `bound.fetch` is left to whoever takes steps."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    metrics: EagerMetrics | DeferredMetrics
    bound: Bound


@dataclass(slots=True, kw_only=True)
class Session:
    """A training run that is ready to take steps."""

    task: Task
    trainee: Trainee
    feed: Feed
    phases: Phases

    def step(self) -> Callable[[], Tensor]:
        """The training step on the loader's batches."""
        return self.step_on(self.phases.waiting(self.feed.fetch))

    def step_on(self, fetch: Callable[[], Any]) -> Callable[[], Tensor]:
        """The same step on batches from anywhere, such as a cache on the device."""
        return step_of(self.trainee, fetch)

    def evaluate(self) -> Evaluation:
        """One pass over the evaluation set."""
        task = self.task
        return task.parts.evaluate(self.trainee.model, task.data, task.size, task.recipe, task.device)


def open_session(task: Task) -> Session:
    """Builds everything in the order in which the recipe lives it; nothing is fetched yet."""
    phases = phases_for(task.device)
    dataset = task.parts.dataset(task.data, task.size, task.recipe)
    feed = open_feed(dataset, task.size, task.recipe, seed=0, endless=task.endless)
    return Session(task=task, trainee=open_trainee(task, phases), feed=feed, phases=phases)


def open_trainee(task: Task, phases: Phases) -> Trainee:
    """A model from the task's seed, its optimizer and the bound values of its step."""
    recipe, device = task.recipe, task.device
    torch.manual_seed(task.seed)
    model = task.parts.model(task.size).to(device)
    loss = task.parts.loss(task.size).to(device)
    if recipe.channels_last:
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    parameters = [*model.parameters(), *loss.parameters()]
    optimizer = task.parts.optimizer(parameters, kernel_keywords(recipe))
    model.train()
    torch.manual_seed(task.seed + 1)  # so that dropout does not depend on how the model was built
    backward, update = _bound_update(optimizer, recipe, device)
    metrics = DeferredMetrics() if recipe.deferred_metrics else EagerMetrics()
    bound = Bound(
        fetch=_nothing_to_fetch,
        transfer=phases.copying(transfer_to(device, recipe)),
        model=torch.compile(model, mode=_compile_mode(recipe)) if recipe.compile else model,
        loss=loss,
        autocast=autocast_for(device, recipe),
        backward=backward,
        update=phases.finishing(update),
        record=metrics.record,
        micro_batches=recipe.micro_batches,
    )
    return Trainee(model=model, optimizer=optimizer, metrics=metrics, bound=bound)


def step_of(trainee: Trainee, fetch: Callable[[], Any]) -> Callable[[], Tensor]:
    """The trainee's step on the batches that `fetch` gives."""
    return shape_of_step(trainee.bound.micro_batches)(replace(trainee.bound, fetch=fetch))


def transfer_to(device: torch.device, recipe: Recipe) -> Callable[[Any], Batch]:
    """Moves a batch to the device, images in the memory format of the recipe."""
    move = partial(Tensor.to, device=device, non_blocking=recipe.non_blocking)

    def transfer(batch: Any) -> Batch:
        inputs, targets = batch
        return move(inputs), move(targets)

    def transfer_channels_last(batch: Any) -> Batch:
        inputs, targets = batch
        keyword = {"memory_format": torch.channels_last} if inputs.dim() == 4 else {}
        return move(inputs, **keyword), move(targets)

    return transfer_channels_last if recipe.channels_last else transfer


def autocast_for(device: torch.device, recipe: Recipe) -> Callable[[], AbstractContextManager[Any]]:
    """Autocast to the recipe's type, or nothing at all."""
    if recipe.autocast is None:
        return nullcontext
    return partial(torch.autocast, device.type, dtype=getattr(torch, recipe.autocast))


def _bound_update(
    optimizer: torch.optim.Optimizer, recipe: Recipe, device: torch.device
) -> tuple[Callable[[Tensor], None], Callable[[], None]]:
    if recipe.autocast != "float16":
        return plain_backward, plain_update(optimizer, set_to_none=recipe.set_to_none)
    scaler = GradScaler(device.type)
    return scaled_backward(scaler), scaled_update(optimizer, scaler, set_to_none=recipe.set_to_none)


def _compile_mode(recipe: Recipe) -> str | None:
    return None if recipe.compile == "default" else recipe.compile


def _nothing_to_fetch() -> Any:
    raise RuntimeError("the step was bound without a feed")
