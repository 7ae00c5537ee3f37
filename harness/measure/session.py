"""The session: recipe and workload become a model, a step and a feed."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler

from harness.core.recipe import Recipe
from harness.core.workload import Evaluation, Parts, Size
from harness.measure.delay import Delay, delay_of
from harness.measure.devices import Device, settle_torch
from harness.measure.feed import Feed, open_feed
from harness.measure.first_batches import FirstBatches
from harness.measure.loop import Habit, examined, habits_of, recording
from harness.measure.phases import Phases, phases_for
from harness.measure.ranks import averager_of, rank_now, shard_weights, sharded, synchronizing, wrapped
from harness.measure.step import Batch, Bound, StepGraph, marking, shape_of_step, trained_by
from harness.measure.transfer import Ahead, SideStream, arriving, transfer_to
from harness.measure.update import (
    DeferredMetrics,
    EagerMetrics,
    optimizer_of,
    plain_backward,
    scaled_backward,
    update_of,
)

# The model, changed as the recipe says.


# Activations whose gradient can be told from the output, bit for bit, so that the input may be overwritten.
OVERWRITING = (nn.ReLU, nn.ReLU6, nn.LeakyReLU)


def shaped(model: nn.Module, recipe: Recipe) -> nn.Module:
    """The model after the changes that do not touch what it computes; the optimizer is built on its parameters."""
    if recipe.channels_last:
        lay_out(model, 4, torch.channels_last)
    if recipe.channels_last_3d:
        lay_out(model, 5, torch.channels_last_3d)
    if recipe.in_place_activations:
        overwrite_inputs(model)
    return model


def into_training(model: nn.Module) -> None:
    """Puts a model into training; parts that were put into evaluation within one that trains stay there."""
    kept = [one for one in model.modules() if not one.training] if model.training else []
    model.train()
    for one in kept:
        one.training = False


def lay_out(model: nn.Module, dimensions: int, memory_format: torch.memory_format) -> None:
    """What `model.to(memory_format=...)` does, for weights of so many dimensions alone: it fails where others are."""
    for one in model.parameters():
        if one.dim() == dimensions:
            one.data = one.data.to(memory_format=memory_format)


def overwrite_inputs(model: nn.Module) -> None:
    """Lets every activation that can do so overwrite its input."""
    for layer in model.modules():
        if isinstance(layer, OVERWRITING):
            layer.inplace = True


def called(model: nn.Module, recipe: Recipe) -> Callable[..., Any]:
    """What the step calls: the model itself, its compiled form, or the model with compiled blocks."""
    if recipe.compile is None:
        return model
    if recipe.compile == "regional":
        return compiled_by_block(model)
    if recipe.compile == "fullgraph":
        return _compiled(model, fullgraph=True)
    return _compiled(model, mode=None if recipe.compile == "default" else recipe.compile)


def _compiled(model: nn.Module, **keywords: Any) -> Callable[..., Any]:
    compiled: Callable[..., Any] = torch.compile(model, **keywords)
    return compiled


def compiled_by_block(model: nn.Module) -> nn.Module:
    """The model, its repeated blocks compiled in place; blocks of one shape share what was compiled."""
    blocks = list(repeated_blocks(model))
    # Blocks of several shapes meet in one cache, whose limit is meant for one piece of code that keeps changing.
    torch.compiler.config.recompile_limit = max(torch.compiler.config.recompile_limit, len(blocks))
    for block in blocks:
        block.compile()
    return model


def repeated_blocks(model: nn.Module) -> Iterator[nn.Module]:
    """The outermost modules with layers and code of their own that occur at least twice in one Sequential or list."""
    children = list(model.children())
    in_a_row = isinstance(model, (nn.Sequential, nn.ModuleList))
    alike = Counter(type(one) for one in children if in_a_row and _is_block(one))
    for child in children:
        if alike[type(child)] > 1:
            yield child
        else:
            yield from repeated_blocks(child)


def _is_block(module: nn.Module) -> bool:
    # A kind of Sequential without a `forward` of its own would stay in eager: PyTorch leaves its own code untraced.
    return any(module.children()) and type(module).forward not in {nn.Sequential.forward, nn.ModuleList.forward}


# The session: recipe and workload become a model, a step and a feed.


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """All that decides how a session is built."""

    parts: Parts
    size: Size
    recipe: Recipe
    data: Path
    device: Device
    seed: int  # of the model; the data's order is the same for every seed
    endless: bool  # leave out the boundary between epochs
    shared: bool = False  # other arms live in the same process
    first: FirstBatches | None = None  # where some of them have a loader that gives the same


@dataclass(slots=True, kw_only=True)
class Trainee:
    """A model with what trains it; `bound.fetch` is left to whoever takes steps."""

    model: nn.Module
    loss: nn.Module
    parallel: nn.Module  # the model as all ranks train it; the model itself where one process trains alone
    optimizer: torch.optim.Optimizer
    scaler: GradScaler | None
    metrics: EagerMetrics | DeferredMetrics
    move: Callable[[Any], tuple[Tensor, ...]]  # a batch to the device
    device_stage: Callable[[Any], Batch] | None  # what makes inputs and targets of it there, if anything must
    habits: tuple[Habit, ...]  # what a step does beside training
    delay: Delay | None  # a pause of known length in every step, if the recipe is a control
    mark: Callable[[Bound], Bound]  # ranges around the parts of a step, for a profiler
    bound: Bound
    graph: StepGraph | None  # of the whole step, if it is captured


@dataclass(slots=True, kw_only=True)
class Session:
    """A training run that is ready to take steps."""

    task: Task
    trainee: Trainee
    feed: Feed
    phases: Phases
    ahead: Ahead | None = None  # what sends batches to the device before they are asked for, if the recipe does

    def step(self) -> Callable[[], Tensor]:
        """The training step on the loader's batches."""
        return self.step_from(self.phases.waiting(self.fetch))

    @property
    def fetch(self) -> Callable[[], Any]:
        """The next batch of the loader, later by the recipe's delay if that lies there."""
        delay = self.trainee.delay
        return delay.before(self.feed.fetch) if delay and delay.place == "loader" else self.feed.fetch

    def step_from(self, fetch: Callable[[], Any]) -> Callable[[], Tensor]:
        """The step on batches that lie on the host, sent to the device in the recipe's way."""
        if self.ahead is None:
            return self.step_on(fetch)
        self.ahead.source = fetch
        bound = self.ahead.bound(self.trainee.bound, self.trainee.device_stage)
        return step_of(replace(self.trainee, bound=bound), bound.fetch)

    @property
    def consumed(self) -> int:
        """Batches that steps have taken; one that was only sent ahead is not among them."""
        return self.feed.taken - (self.ahead is not None and self.ahead.pending is not None)

    def step_on(self, fetch: Callable[[], Any]) -> Callable[[], Tensor]:
        """The same step on batches from anywhere, such as a cache on the device."""
        return step_of(self.trainee, fetch)

    def evaluate(self, recipe: Recipe | None = None) -> Evaluation:
        """One pass over the evaluation set by the session's recipe or another one, the model in evaluation mode."""
        task, model = self.task, self.trainee.model
        with evaluating(model):
            return task.parts.evaluate(model, task.data, task.size, recipe or task.recipe, task.device.torch)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """The model in evaluation mode, and afterwards each of its parts in the mode it had."""
    before = [(one, one.training) for one in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for one, training in before:
            one.training = training


def open_session(task: Task) -> Session:
    """Builds everything in the order in which the recipe lives it; nothing is fetched yet."""
    phases = phases_for(task.device)
    dataset = task.parts.dataset(task.data, task.size, task.recipe)
    feed = open_feed(dataset, task.size, task.recipe, seed=0, endless=task.endless, pin=task.device.pin)
    feed.shared = task.shared
    trainee = open_trainee(task, phases)
    ahead = Ahead(SideStream(trainee.move, task.device, phases), feed.fetch) if task.recipe.device_prefetch else None
    return Session(task=task, trainee=trainee, feed=feed, phases=phases, ahead=ahead)


def open_trainee(task: Task, phases: Phases) -> Trainee:
    """A model from the task's seed, its optimizer and the bound values of its step."""
    recipe, device, parts = task.recipe, task.device, task.parts
    model, loss, optimizer = _network(task)
    device_stage = parts.device_stage(task.data, task.size, recipe, device.torch)
    parallel, of_loss = wrapped(model, recipe), wrapped(loss, recipe)
    torch.manual_seed(task.seed + 1 + rank_now())  # so that dropout does not depend on how the model was built
    scaler = GradScaler(device.torch.type) if recipe.gradient_scaling else None
    move = transfer_to(device, recipe, getattr(device_stage, "on_host", ()))
    own_loop = getattr(device_stage, "own_loop", False)  # which reads its losses itself, if at all
    metrics = DeferredMetrics() if recipe.deferred_metrics or own_loop else EagerMetrics()
    habits, delay = habits_of(recipe, device), delay_of(recipe, device)
    average_ranks = averager_of([*model.parameters(), *loss.parameters()], recipe)
    update = update_of(optimizer, recipe, scaler, parts.clip_norm, parts.average_decay, average_ranks)
    if delay and delay.place == "device":
        update = delay.after(update)
    bound = Bound(
        fetch=_nothing_to_fetch,
        transfer=arriving(phases.copying(move), device_stage),
        model=called(parallel, recipe),
        loss=of_loss,
        autocast=autocast_for(device.torch, recipe),
        backward=examined(scaled_backward(scaler) if scaler else plain_backward, recipe),
        update=phases.finishing(update),
        record=recording(metrics, (*habits, delay) if delay and delay.place == "host" else habits),
        micro_batches=recipe.micro_batches,
        synchronize=synchronizing((parallel, of_loss), recipe),
    )
    graph = StepGraph(trained_by(bound, update), device) if recipe.cuda_graph else None
    settle_torch(recipe)  # again: what was built may have set threads or precisions, as some models do
    return Trainee(
        model=model,
        loss=loss,
        parallel=parallel,
        optimizer=optimizer,
        scaler=scaler,
        metrics=metrics,
        move=move,
        device_stage=device_stage,
        habits=habits,
        delay=delay,
        mark=marking(recipe, device),
        bound=replace(bound, whole_step=phases.finishing(graph)) if graph else bound,
        graph=graph,
    )


def _network(task: Task) -> tuple[nn.Module, nn.Module, torch.optim.Optimizer]:
    """Model, loss and optimizer, drawn from the task's seed."""
    recipe, device, parts = task.recipe, task.device.torch, task.parts
    torch.manual_seed(task.seed)
    model = shaped(parts.model(task.size, recipe).to(device), recipe)
    loss = parts.loss(task.size, recipe).to(device)
    shard_weights(model, repeated_blocks(model), recipe, mixed=True)
    shard_weights(loss, (), recipe, mixed=False)
    optimizer = optimizer_of(parts, [*model.parameters(), *loss.parameters()], recipe)
    into_training(model)
    return model, loss, sharded(optimizer, recipe)


def step_of(trainee: Trainee, fetch: Callable[[], Any]) -> Callable[[], Tensor]:
    """The trainee's step on the batches that `fetch` gives."""
    bound = trainee.bound
    captured, synchronizes = bound.whole_step is not None, bound.synchronize is not None
    shape = shape_of_step(bound.micro_batches, captured=captured, synchronizes=synchronizes)
    return shape(trainee.mark(replace(bound, fetch=fetch)))


def autocast_for(device: torch.device, recipe: Recipe) -> Callable[[], AbstractContextManager[Any]]:
    """Autocast to the recipe's type, or nothing at all."""
    if recipe.autocast is None:
        return nullcontext
    return partial(torch.autocast, device.type, dtype=getattr(torch, recipe.autocast))


def _nothing_to_fetch() -> Any:
    raise RuntimeError("the step was bound without a feed")
