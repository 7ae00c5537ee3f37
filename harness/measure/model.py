"""The model as a recipe wants it: its memory format, its activations, compiled or not."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from harness.core.recipe import Recipe


def shaped(model: nn.Module, recipe: Recipe) -> nn.Module:
    """The model after the changes that do not touch what it computes; the optimizer is built on its parameters."""
    if recipe.channels_last:
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model


def called(model: nn.Module, recipe: Recipe) -> Callable[..., Any]:
    """What the step calls: the model itself, or its compiled form."""
    if recipe.compile is None:
        return model
    compiled: Callable[..., Any] = torch.compile(model, mode=None if recipe.compile == "default" else recipe.compile)
    return compiled
