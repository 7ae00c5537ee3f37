"""Evidence: the settings that really took effect, observed on the running arm and never echoed from the recipe."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from harness.core.recipe import Value
from harness.measure.feed import Feed
from harness.measure.session import Trainee


@dataclass(slots=True)
class Watch:
    """What passed through the model's layers while it was watched."""

    dtypes: set[str] = field(default_factory=set)  # of the outputs of convolutions and linear layers
    formats: set[str] = field(default_factory=set)  # of the 4-D outputs whose layout is unambiguous
    forwards: int = 0
    inference: bool = True  # every output was made in inference mode


@contextmanager
def watching(model: nn.Module) -> Iterator[Watch]:
    """Hooks on the model's layers for the time of the block."""
    watch = Watch()

    def layer(_module: nn.Module, _inputs: Any, output: Tensor) -> None:
        watch.dtypes.add(str(output.dtype).removeprefix("torch."))
        if output.dim() == 4 and (name := memory_format(output)):
            watch.formats.add(name)

    def whole(_module: nn.Module, _inputs: Any, output: Any) -> None:
        watch.forwards += 1
        first = output[0] if isinstance(output, tuple) else output
        watch.inference &= bool(first.is_inference())

    kinds = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)
    hooks = [one.register_forward_hook(layer) for one in model.modules() if isinstance(one, kinds)]
    hooks.append(model.register_forward_hook(whole))
    try:
        yield watch
    finally:
        for hook in hooks:
            hook.remove()


def memory_format(tensor: Tensor) -> str | None:
    """`channels_last` or `contiguous`; None where the sizes make both the same."""
    last = tensor.is_contiguous(memory_format=torch.channels_last)
    first = tensor.is_contiguous()
    if last == first:
        return None
    return "channels_last" if last else "contiguous"


def of_step(watch: Watch) -> dict[str, Value]:
    """What one watched training step shows."""
    return {
        "layer_dtypes": ", ".join(sorted(watch.dtypes)),
        "bfloat16_layers": "bfloat16" in watch.dtypes,
        "float16_layers": "float16" in watch.dtypes,
        # One layer left in the old layout means copies in between: then it is not channels_last.
        "memory_format": "channels_last" if watch.formats == {"channels_last"} else "contiguous",
    }


def of_evaluation(watch: Watch, items: int) -> dict[str, Value]:
    """What one watched pass over the evaluation set shows."""
    return {
        "inference_mode": watch.inference and watch.forwards > 0,
        "batched_evaluation": 0 < watch.forwards < items,
    }


def of_feed(feed: Feed, *, pinned: bool, non_blocking: bool) -> dict[str, Value]:
    """What the loader shows, and whether its first batch lay in pinned memory."""
    starts, ever = len(feed.worker_pids), frozenset().union(*feed.worker_pids)
    return {
        "workers": feed.live_workers,
        "prefetch_factor": getattr(feed.iterator, "_prefetch_factor", None) if feed.live_workers else None,
        # The same processes served several epochs; after one epoch only the loader's own word can be had.
        "persistent_workers": len(ever) == feed.live_workers > 0 if starts > 1 else feed.loader.persistent_workers,
        "start_method": getattr(feed.loader.multiprocessing_context, "get_start_method", _no_method)(),
        "pinned_batches": pinned,
        "overlapping_copies": pinned and non_blocking,
    }


def _no_method() -> None:
    """Without workers nothing is started."""


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


def of_compiler() -> dict[str, Value]:
    """What torch.compile has captured in this process."""
    from torch._dynamo.utils import counters

    graphs = int(counters["stats"]["unique_graphs"])
    return {
        "compiled": graphs > 0,
        "compiled_graphs": graphs,
        "graph_breaks": int(sum(counters["graph_break"].values())),
    }


def compiler_quiet() -> Callable[[], bool]:
    """A question to be asked after each step: was nothing compiled since it was last asked?"""
    seen: dict[str, Value] = {}

    def quiet() -> bool:
        nonlocal seen
        was, seen = seen, of_compiler()
        return was == seen

    return quiet
