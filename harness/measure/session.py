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
from harness.measure.habits import recording
from harness.measure.model import called, shaped
from harness.measure.phases import Phases, phases_for
from harness.measure.step import Batch, Bound, shape_of_step
from harness.measure.transfer import arriving, transfer_to
from harness.measure.update import (
    DeferredMetrics,
    EagerMetrics,
    kernel_keywords,
    plain_backward,
    scaled_backward,
    update_of,
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
    loss: nn.Module
    optimizer: torch.optim.Optimizer
    scaler: GradScaler | None
    metrics: EagerMetrics | DeferredMetrics
    move: Callable[[Any], tuple[Tensor, ...]]  # a batch to the device
    device_stage: Callable[[Any], Batch] | None  # what makes inputs and targets of it there, if anything must
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
    recipe, device, parts = task.recipe, task.device, task.parts
    torch.manual_seed(task.seed)
    model = shaped(parts.model(task.size, recipe).to(device), recipe)
    loss = parts.loss(task.size, recipe).to(device)
    parameters = [*model.parameters(), *loss.parameters()]
    optimizer = parts.optimizer(parameters, kernel_keywords(recipe))
    model.train()
    device_stage = parts.device_stage(task.data, task.size, recipe, device)
    torch.manual_seed(task.seed + 1)  # so that dropout does not depend on how the model was built
    scaler = GradScaler(device.type) if recipe.gradient_scaling else None
    move = transfer_to(device, recipe)
    metrics = DeferredMetrics() if recipe.deferred_metrics else EagerMetrics()
    bound = Bound(
        fetch=_nothing_to_fetch,
        transfer=arriving(phases.copying(move), device_stage),
        model=called(model, recipe),
        loss=loss,
        autocast=autocast_for(device, recipe),
        backward=scaled_backward(scaler) if scaler else plain_backward,
        update=phases.finishing(update_of(optimizer, recipe, scaler, parts.clip_norm, parts.average_decay)),
        record=recording(metrics, recipe, device),
        micro_batches=recipe.micro_batches,
    )
    return Trainee(
        model=model,
        loss=loss,
        optimizer=optimizer,
        scaler=scaler,
        metrics=metrics,
        move=move,
        device_stage=device_stage,
        bound=bound,
    )


def step_of(trainee: Trainee, fetch: Callable[[], Any]) -> Callable[[], Tensor]:
    """The trainee's step on the batches that `fetch` gives."""
    return shape_of_step(trainee.bound.micro_batches)(replace(trainee.bound, fetch=fetch))


def autocast_for(device: torch.device, recipe: Recipe) -> Callable[[], AbstractContextManager[Any]]:
    """Autocast to the recipe's type, or nothing at all."""
    if recipe.autocast is None:
        return nullcontext
    return partial(torch.autocast, device.type, dtype=getattr(torch, recipe.autocast))


def _nothing_to_fetch() -> Any:
    raise RuntimeError("the step was bound without a feed")
