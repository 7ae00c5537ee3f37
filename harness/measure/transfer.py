"""The way of a batch to the device, in the memory format that the recipe asks for."""

from collections.abc import Callable, Collection
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor

from harness.core.recipe import Recipe
from harness.measure.step import Batch


def transfer_to(
    device: torch.device, recipe: Recipe, on_host: Collection[int] = ()
) -> Callable[[Any], tuple[Tensor, ...]]:
    """Moves the tensors of a batch to the device, images and volumes in the memory format of the recipe.

    Tensors whose numbers are in `on_host` stay where they are: asking for them on a device would hold up the host.
    """
    formats = {4: torch.channels_last} if recipe.channels_last else {}
    if recipe.channels_last_3d:
        formats[5] = torch.channels_last_3d
    move = partial(Tensor.to, device=device, non_blocking=recipe.non_blocking)

    def transfer(batch: Any) -> tuple[Tensor, ...]:
        return tuple([move(one) for one in batch])

    def transfer_channels_last(batch: Any) -> tuple[Tensor, ...]:
        inputs, *others = batch
        keyword = {"memory_format": formats[inputs.dim()]} if inputs.dim() in formats else {}
        return move(inputs, **keyword), *[move(one) for one in others]

    chosen = transfer_channels_last if formats else transfer
    return _leaving(chosen, on_host) if on_host else chosen


def _leaving(
    transfer: Callable[[Any], tuple[Tensor, ...]], on_host: Collection[int]
) -> Callable[[Any], tuple[Tensor, ...]]:
    def transfer_others(batch: Any) -> tuple[Tensor, ...]:
        moved = iter(transfer([one for at, one in enumerate(batch) if at not in on_host]))
        return tuple([one if at in on_host else next(moved) for at, one in enumerate(batch)])

    return transfer_others


def arriving(
    transfer: Callable[[Any], tuple[Tensor, ...]], device_stage: Callable[[Any], Batch] | None
) -> Callable[[Any], Batch]:
    """The transfer, then whatever the workload does with a batch on the device."""
    if device_stage is None:
        return cast("Callable[[Any], Batch]", transfer)

    def arrived(batch: Any) -> Batch:
        return device_stage(transfer(batch))

    return arrived
