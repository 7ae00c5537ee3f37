"""The moments of a step that a recipe replaces: how gradients are made, applied and cleared, and metrics kept."""

from collections import defaultdict
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler

from harness.core.recipe import CAPTURING, ImpossibleRecipe, Recipe
from harness.core.workload import Parts


def optimizer_of(parts: Parts, parameters: list[nn.Parameter], recipe: Recipe) -> torch.optim.Optimizer:
    """The system's optimizer with the kernel and the learning rate of the recipe, ready for a capture if it asks."""
    # Both keywords are stated, because their defaults depend on the device.
    kernel = {name: recipe.optimizer_kernel == name for name in ("foreach", "fused")}
    optimizer = parts.optimizer(parameters, kernel)
    for group in optimizer.param_groups:
        if recipe.learning_rate_rule == "linear":
            group["lr"] *= recipe.batch_scale
        if recipe.cuda_graph and "capturable" in group:
            group["capturable"] = True  # counts its steps on the device, where a replay can go on counting
    if recipe.compile in CAPTURING and not recipe.set_to_none:
        own_gradients(parameters)
    return optimizer


def own_gradients(parameters: list[nn.Parameter]) -> None:
    """Gives each parameter a gradient of zeros, to which the first backward pass adds its own.

    Autograd takes over the tensor of a first gradient where it finds none. A captured backward pass makes it in memory
    of its graph, which the next forward pass overwrites: torch then refuses to add to what has to last.
    """
    for one in parameters:
        if one.requires_grad:
            one.grad = torch.zeros_like(one)


def plain_backward(value: Tensor) -> None:
    """Gradients of the loss, added to what lies in `.grad`."""
    torch.autograd.backward(value)


def scaled_backward(scaler: GradScaler) -> Callable[[Tensor], None]:
    """Gradients of the loss times the scale that keeps float16 from underflowing."""

    def backward(value: Tensor) -> None:
        torch.autograd.backward(scaler.scale(value))

    return backward


def update_of(
    optimizer: torch.optim.Optimizer,
    recipe: Recipe,
    scaler: GradScaler | None = None,
    clip_norm: float | None = None,
    average_decay: float | None = None,
    average_ranks: Callable[[], None] | None = None,
) -> Callable[[], None]:
    """The optimizer's step, then the gradients cleared; before it the gradients are clipped, if the system does so.

    Weights that ranks have in common again are those that their moving average follows.

    A scaler skips the step when a gradient overflowed. Raises ImpossibleRecipe where gradients that are wanted together
    would be gone one by one.
    """
    if recipe.update_in_backward:
        if clip_norm is not None or average_decay is not None:
            raise ImpossibleRecipe("update_in_backward needs a system without clipping and without averaged weights")
        return updated_in_backward(optimizer)
    steps: list[Callable[[], object]] = []
    if clip_norm is not None:
        if scaler:
            steps.append(partial(scaler.unscale_, optimizer))
        steps.append(_clipping(optimizer, clip_norm, foreach=recipe.clip_kernel == "foreach"))
    steps += [partial(scaler.step, optimizer), scaler.update] if scaler else [optimizer.step]
    if average_ranks is not None:
        steps.append(average_ranks)
    if average_decay is not None:
        steps.append(WeightAverage(optimizer, average_decay, foreach=recipe.average_kernel == "foreach").follow)
    steps.append(partial(optimizer.zero_grad, set_to_none=recipe.set_to_none))

    def update() -> None:
        for step in steps:
            step()

    return update


def updated_in_backward(optimizer: torch.optim.Optimizer) -> Callable[[], None]:
    """Lets the backward pass update each weight as soon as its gradient is complete; gives what is left to do then.

    Each weight has an optimizer of its own, a copy of the given one, and its gradient is dropped at once.
    """
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(_stepping(_for_one(optimizer, group, parameter)))
    return nothing_left


def nothing_left() -> None:
    """The backward pass has updated all weights."""


def _for_one(optimizer: torch.optim.Optimizer, group: dict[str, Any], parameter: Tensor) -> torch.optim.Optimizer:
    own = copy(optimizer)
    vars(own).update(vars(optimizer), param_groups=[{**group, "params": [parameter]}], state=defaultdict(dict))
    return own


def _stepping(optimizer: torch.optim.Optimizer) -> Callable[[Tensor], None]:
    def step_and_drop(parameter: Tensor) -> None:
        optimizer.step()
        parameter.grad = None

    return step_and_drop


def _clipping(optimizer: torch.optim.Optimizer, norm: float, *, foreach: bool) -> Callable[[], object]:
    parameters = [one for group in optimizer.param_groups for one in group["params"]]
    return partial(torch.nn.utils.clip_grad_norm_, parameters, norm, foreach=foreach)


class WeightAverage:
    """An exponential moving average of all weights, brought up to date after each step of the optimizer."""

    def __init__(self, optimizer: torch.optim.Optimizer, decay: float, *, foreach: bool) -> None:
        self.weights = [one.detach() for group in optimizer.param_groups for one in group["params"]]
        self.averages = [one.clone() for one in self.weights]
        self.decay, self.foreach = decay, foreach

    def follow(self) -> None:
        """Moves the averages towards the weights by 1 - decay of the distance."""
        with torch.no_grad():
            if self.foreach:
                torch._foreach_lerp_(self.averages, self.weights, 1 - self.decay)
                return
            for average, weight in zip(self.averages, self.weights, strict=True):
                average.lerp_(weight, 1 - self.decay)


@dataclass(slots=True)
class EagerMetrics:
    """A running loss read from the device in every step, as most training scripts do."""

    total: float = 0.0

    def record(self, value: Tensor) -> None:
        """Waits for the device and adds the loss."""
        self.total += value.item()


@dataclass(slots=True)
class DeferredMetrics:
    """A running loss that stays on the device until somebody asks."""

    total: Any = field(default=0.0)

    def record(self, value: Tensor) -> None:
        """Adds the loss without waiting for it."""
        self.total = self.total + value.detach()
