"""What an update shows: the kernels it ran, the gradients it left, the layers that ran twice."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import isclose
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from harness.core.recipe import Value
from harness.measure.session import Task, Trainee


def of_optimizer(optimizer: torch.optim.Optimizer) -> dict[str, Value]:
    """The kernel that the optimizer will use, and how it left the gradients of its last step."""
    group = optimizer.param_groups[0]
    kernel = next((name for name in ("fused", "foreach") if group.get(name)), "loop")
    return {"optimizer_kernel": kernel, "set_to_none": _gradients_are_gone(optimizer)}


def of_learning_rate(optimizer: torch.optim.Optimizer, task: Task) -> dict[str, Value]:
    """The rule that the learning rate follows, told from the one that the system sets of itself."""
    parameters = [one for group in optimizer.param_groups for one in group["params"]]
    own = task.parts.optimizer(parameters, {"foreach": False, "fused": False})
    ratios = [one["lr"] / before["lr"] for one, before in zip(optimizer.param_groups, own.param_groups, strict=True)]
    rules = {"fixed": 1.0, "linear": float(task.recipe.batch_scale)}
    found = (rule for rule, ratio in rules.items() if all(isclose(one, ratio) for one in ratios))
    return {"learning_rate_rule": next(found, "another")}


def of_capture(trainee: Trainee) -> dict[str, Value]:
    """Whether steps were replayed as one graph, and how many so far."""
    replays = trainee.graph.replays if trainee.graph else 0
    return {"cuda_graph": replays > 0, "graph_replays": replays}


def of_training(trainee: Trainee, batch: Any) -> dict[str, Value]:
    """What one more update shows: layers that ran again in the backward pass, and the kernels of the update."""
    bound, calls = trainee.bound, Calls()
    inputs, targets = bound.transfer(batch)
    before = _versions(trainee.optimizer)
    with calls.counted(trainee.model):
        with bound.autocast():
            value = bound.loss(trainee.model(inputs), targets)
        in_forward = calls.count
        bound.backward(value)
    updated = _versions(trainee.optimizer) != before and _gradients_are_gone(trainee.optimizer)
    operators = Operators()
    with operators:
        bound.update()
    return {
        "update_in_backward": updated,
        "checkpointing": calls.count > in_forward,
        "clip_kernel": "foreach" if "aten::_foreach_norm" in operators.names else "loop",
        "average_kernel": "foreach" if "aten::_foreach_lerp_" in operators.names else "loop",
    }


def _versions(optimizer: torch.optim.Optimizer) -> list[int]:
    """How often each weight was written to."""
    return [one._version for group in optimizer.param_groups for one in group["params"]]  # noqa: SLF001


def _gradients_are_gone(optimizer: torch.optim.Optimizer) -> bool:
    return all(one.grad is None for group in optimizer.param_groups for one in group["params"])


@contextmanager
def backwards_into(model: nn.Module) -> Iterator[list[None]]:
    """One entry for each backward pass within the block whose gradients reached the model's last weights."""
    passes: list[None] = []
    last = [one for one in model.parameters() if one.requires_grad][-1]
    hook = last.register_post_accumulate_grad_hook(lambda _: passes.append(None))
    try:
        yield passes
    finally:
        hook.remove()


@dataclass(slots=True)
class Calls:
    """Counts how often layers without layers of their own are called."""

    count: int = 0

    @contextmanager
    def counted(self, model: nn.Module) -> Iterator[None]:
        """Counts within the block."""
        leaves = [one for one in model.modules() if not any(one.children())]
        hooks = [one.register_forward_hook(self._called) for one in leaves]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _called(self, _module: nn.Module, _inputs: Any, _output: Any) -> None:
        self.count += 1


class Operators(TorchDispatchMode):
    """Notes the names of all operators that run while it is entered."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: set[str] = set()

    def __torch_dispatch__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Notes the operator and lets it run."""
        self.names.add(function._schema.name)  # noqa: SLF001  a dispatched operator has no other name
        return function(*args, **(kwargs or {}))
