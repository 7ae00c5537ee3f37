"""The moments of a step that a recipe replaces: how gradients are made, applied and cleared, and metrics kept."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.amp.grad_scaler import GradScaler

from harness.core.recipe import Recipe


def kernel_keywords(recipe: Recipe) -> dict[str, bool]:
    """Keywords of a torch.optim optimizer; both stated, because its defaults depend on the device."""
    return {"foreach": recipe.optimizer_kernel == "foreach", "fused": recipe.optimizer_kernel == "fused"}


def plain_backward(value: Tensor) -> None:
    """Gradients of the loss, added to what lies in `.grad`."""
    torch.autograd.backward(value)


def plain_update(optimizer: torch.optim.Optimizer, *, set_to_none: bool) -> Callable[[], None]:
    """The optimizer's step, then the gradients cleared."""

    def update() -> None:
        optimizer.step()
        optimizer.zero_grad(set_to_none=set_to_none)

    return update


def scaled_backward(scaler: GradScaler) -> Callable[[Tensor], None]:
    """Gradients of the loss times the scale that keeps float16 from underflowing."""

    def backward(value: Tensor) -> None:
        torch.autograd.backward(scaler.scale(value))

    return backward


def scaled_update(optimizer: torch.optim.Optimizer, scaler: GradScaler, *, set_to_none: bool) -> Callable[[], None]:
    """The same through a GradScaler, which skips the step when a gradient overflowed."""

    def update() -> None:
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=set_to_none)

    return update


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
