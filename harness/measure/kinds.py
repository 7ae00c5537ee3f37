"""Memory by kind: what a training step keeps, and what for."""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from harness.measure.session import Trainee


def memory_by_kind(trainee: Trainee, batch: Any) -> dict[str, int]:
    """Bytes of weights, gradients, the optimizer's state, a batch, and what a forward pass keeps for the backward one.

    Call it after an update, which leaves gradients and state. What is kept is counted by storage, once each, without
    weights and batch: on any device, and whatever an allocator rounds it up to.
    """
    bound, modules = trainee.bound, (trainee.model, trainee.loss)
    weights = [one for module in modules for one in (*module.parameters(), *module.buffers())]
    moved = bound.transfer(batch)
    kept: dict[int, int] = {}
    known = {_place(one) for one in (*weights, *_tensors(moved))}

    def keep(tensor: Tensor) -> Tensor:
        if _place(tensor) not in known:
            kept[_place(tensor)] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor), bound.autocast():
        value = bound.loss(bound.model(moved[0]), moved[1])
    del value
    return {
        "weights": _bytes(weights),
        "gradients": _bytes(one.grad for one in weights if one.grad is not None),
        "optimizer": _bytes(_tensors([one for state in trainee.optimizer.state.values() for one in state.values()])),
        "kept for the backward pass": sum(kept.values()),
        "batch": _bytes(_tensors(moved)),
    }


def _tensors(values: Any) -> Iterator[Tensor]:
    return (one for one in tree_leaves(values) if isinstance(one, Tensor))


def _place(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _bytes(tensors: Iterable[Tensor]) -> int:
    """Of all storages, each once."""
    return sum({_place(one): one.untyped_storage().nbytes() for one in tensors}.values())
