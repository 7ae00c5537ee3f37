"""The session: recipe and workload become a model, a step and a feed."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

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
    model = parts.model(task.size, recipe).to(device)
    loss = parts.loss(task.size, recipe).to(device)
    if recipe.channels_last:
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
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
        transfer=_arriving(phases.copying(move), device_stage),
        model=torch.compile(model, mode=_compile_mode(recipe)) if recipe.compile else model,
        loss=loss,
        autocast=autocast_for(device, recipe),
        backward=scaled_backward(scaler) if scaler else plain_backward,
        update=phases.finishing(update_of(optimizer, recipe, scaler, parts.clip_norm, parts.average_decay)),
        record=metrics.record,
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


def transfer_to(device: torch.device, recipe: Recipe) -> Callable[[Any], tuple[Tensor, ...]]:
    """Moves the tensors of a batch to the device, images in the memory format of the recipe."""
    move = partial(Tensor.to, device=device, non_blocking=recipe.non_blocking)

    def transfer(batch: Any) -> tuple[Tensor, ...]:
        return tuple([move(one) for one in batch])

    def transfer_channels_last(batch: Any) -> tuple[Tensor, ...]:
        inputs, *others = batch
        keyword = {"memory_format": torch.channels_last} if inputs.dim() == 4 else {}
        return move(inputs, **keyword), *[move(one) for one in others]

    return transfer_channels_last if recipe.channels_last else transfer


def _arriving(
    transfer: Callable[[Any], tuple[Tensor, ...]], device_stage: Callable[[Any], Batch] | None
) -> Callable[[Any], Batch]:
    """The transfer, then whatever the workload does with a batch on the device."""
    if device_stage is None:
        return cast("Callable[[Any], Batch]", transfer)

    def arrived(batch: Any) -> Batch:
        return device_stage(transfer(batch))

    return arrived


def autocast_for(device: torch.device, recipe: Recipe) -> Callable[[], AbstractContextManager[Any]]:
    """Autocast to the recipe's type, or nothing at all."""
    if recipe.autocast is None:
        return nullcontext
    return partial(torch.autocast, device.type, dtype=getattr(torch, recipe.autocast))


def _compile_mode(recipe: Recipe) -> str | None:
    return None if recipe.compile == "default" else recipe.compile


def _nothing_to_fetch() -> Any:
    raise RuntimeError("the step was bound without a feed")
