"""What an update shows: the kernels it ran, the gradients it left, the layers that ran twice."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from harness.core.recipe import Value
from harness.measure.session import Trainee


def of_optimizer(optimizer: torch.optim.Optimizer) -> dict[str, Value]:
    """The kernel that the optimizer will use, and how it left the gradients of its last step."""
    group = optimizer.param_groups[0]
    kernel = next((name for name in ("fused", "foreach") if group.get(name)), "loop")
    gradients = [one.grad for group in optimizer.param_groups for one in group["params"]]
    return {"optimizer_kernel": kernel, "set_to_none": all(gradient is None for gradient in gradients)}


def of_training(trainee: Trainee, batch: Any) -> dict[str, Value]:
    """What one more update shows: layers that ran again in the backward pass, and the kernels of the update."""
    bound, calls = trainee.bound, Calls()
    inputs, targets = bound.transfer(batch)
    with calls.counted(trainee.model):
        with bound.autocast():
            value = bound.loss(trainee.model(inputs), targets)
        in_forward = calls.count
        bound.backward(value)
    operators = Operators()
    with operators:
        bound.update()
    return {
        "checkpointing": calls.count > in_forward,
        "clip_kernel": "foreach" if "aten::_foreach_norm" in operators.names else "loop",
        "average_kernel": "foreach" if "aten::_foreach_lerp_" in operators.names else "loop",
    }


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
