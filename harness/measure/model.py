"""The model as a recipe wants it: its memory format, its activations, compiled or not."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from harness.core.recipe import Recipe

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
