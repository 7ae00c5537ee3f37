"""Evidence: the settings that really took effect, observed on the running arm and never echoed from the recipe."""

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from math import isclose
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d
from torch.utils import _pytree as trees
from torch.utils._python_dispatch import TorchDispatchMode

from harness.core.environment import GPU_CHECK
from harness.core.recipe import Value
from harness.measure.devices import Device
from harness.measure.session import OVERWRITING, Task, Trainee

# What torch.compile shows: its graphs, its breaks, and the layers that Python still runs one by one.


def of_compiler(trainee: Trainee, batch: Any, device: Device) -> dict[str, Value]:
    """What was captured, and what one more step shows of it; a model that fell back to eager is not compiled."""
    bound = trainee.bound
    inputs, targets = bound.transfer(batch)
    with eager_calls(trainee.model) as eager:
        with bound.autocast():
            value = bound.loss(bound.model(inputs), targets)
        bound.backward(value)
    bound.update()
    graphs, layers = captured(), sum(1 for _ in _layers(trainee.model))
    of_device = device.compiled_graphs()
    lacks_graphs = of_device == 0 and graphs["cuda_graph_skips"] != 0
    in_graphs = graphs["compiled_graphs"] != 0 and 2 * len(eager) <= layers and not lacks_graphs
    return {"compiled": in_graphs, "eager_layers": len(eager), "cuda_graphs": of_device or 0, **graphs}


def still_compiled(trainee: Trainee, step: Callable[[], object]) -> bool:
    """Whether a step of a warm arm still runs compiled: a model that is compiled anew too often falls back to eager."""
    with eager_calls(trainee.model) as eager:
        step()
    return 2 * len(eager) <= sum(1 for _ in _layers(trainee.model))


def run_in_eager(model: nn.Module) -> AbstractContextManager[Any]:
    """Lets the blocks of a model that are compiled in place run layer by layer, so that hooks see the layers."""
    if not any(one._compiled_call_impl for one in model.modules()):  # noqa: SLF001  a module tells nowhere else
        return nullcontext()
    stance: AbstractContextManager[Any] = torch.compiler.set_stance("force_eager")
    return stance


def captured() -> dict[str, int]:
    """What this process has captured so far, and where it gave up."""
    from torch._dynamo.utils import counters

    return {
        "compiled_graphs": int(counters["stats"]["unique_graphs"]),
        "graph_breaks": int(sum(counters["graph_break"].values())),
        "cuda_graph_skips": int(counters["inductor"]["cudagraph_skips"]),
    }


@contextmanager
def eager_calls(model: nn.Module) -> Iterator[list[str]]:
    """The classes of the layers that Python calls within the block; compiled code calls none.

    Hooks would not do: what is compiled has them traced in, or passes them over.
    """
    layers, called = {id(one) for one in _layers(model)}, list[str]()

    def entered(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and frame.f_code.co_name == "_call_impl" and id(frame.f_locals.get("self")) in layers:
            called.append(type(frame.f_locals["self"]).__name__)

    before = sys.getprofile()
    sys.setprofile(entered)
    try:
        yield called
    finally:
        sys.setprofile(before)


def _layers(model: nn.Module) -> Iterator[nn.Module]:
    """The modules without modules of their own."""
    return (one for one in model.modules() if not any(one.children()))


def compiler_quiet() -> Callable[[], bool]:
    """A question to be asked after each step: was nothing compiled since it was last asked?"""
    seen: dict[str, int] = {}

    def quiet() -> bool:
        nonlocal seen
        was, seen = seen, captured()
        return was == seen

    return quiet


# What layers show while a batch passes through them: types, memory formats, overwritten inputs, inference mode.


@dataclass(slots=True)
class Watch:
    """What passed through the model's layers while it was watched."""

    dtypes: set[str] = field(default_factory=set)  # of the outputs of convolutions and linear layers
    formats: set[str] = field(default_factory=set)  # of the 4-D outputs whose layout is unambiguous
    formats_3d: set[str] = field(default_factory=set)  # of the 5-D outputs, where the kernel has a layout of its own
    activations: int = 0  # calls of layers that can overwrite their input
    overwriting: int = 0  # those whose output lay where their input had been
    forwards: int = 0
    inference: bool = True  # every output was made in inference mode


@contextmanager
def watching(model: nn.Module) -> Iterator[Watch]:
    """Hooks on the model's layers for the time of the block."""
    watch = Watch()

    def layer(module: nn.Module, _inputs: Any, output: Any) -> None:
        if not isinstance(output, Tensor):  # of a user's own kind of layer
            return
        watch.dtypes.add(str(output.dtype).removeprefix("torch."))
        if isinstance(module, nn.Linear):  # whose outputs of four dimensions have no layout of pictures
            return
        if output.dim() == 4 and (name := memory_format(output)):
            watch.formats.add(name)
        if output.dim() == 5 and memory_format(module.get_parameter("weight")) and (name := memory_format(output)):
            watch.formats_3d.add(name)

    def activation(_module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        watch.activations += 1
        watch.overwriting += bool(inputs) and inputs[0].data_ptr() == output.data_ptr()

    def whole(_module: nn.Module, _inputs: Any, output: Any) -> None:
        watch.forwards += 1
        leaves = trees.tree_leaves(dict(output) if isinstance(output, Mapping) else output)
        first = next((one for one in leaves if isinstance(one, Tensor)), None)
        watch.inference &= first is not None and first.is_inference()

    kinds = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)
    hooks = [one.register_forward_hook(layer) for one in model.modules() if isinstance(one, kinds)]
    hooks += [one.register_forward_hook(activation) for one in model.modules() if isinstance(one, OVERWRITING)]
    hooks.append(model.register_forward_hook(whole))
    try:
        yield watch
    finally:
        for hook in hooks:
            hook.remove()


def memory_format(tensor: Tensor) -> str | None:
    """`channels_last`, of volumes `channels_last_3d`, or `contiguous`; None where the sizes make both the same."""
    name = "channels_last" if tensor.dim() == 4 else "channels_last_3d"
    last = tensor.is_contiguous(memory_format=getattr(torch, name))
    first = tensor.is_contiguous()
    if last == first:
        return None
    return name if last else "contiguous"


def of_step(watch: Watch) -> dict[str, Value]:
    """What one watched training step shows."""
    return {
        "layer_dtypes": ", ".join(sorted(watch.dtypes)),
        "bfloat16_layers": "bfloat16" in watch.dtypes,
        "float16_layers": "float16" in watch.dtypes,
        # One layer left in the old layout means copies in between: then it is not channels_last.
        "memory_format": "channels_last" if watch.formats == {"channels_last"} else "contiguous",
        # Norms of volumes go back to the old layout; whoever asks for the new one pays for that, and it is measured.
        "memory_format_3d": "channels_last_3d" if watch.formats_3d == {"channels_last_3d"} else "contiguous",
        "in_place_activations": watch.overwriting == watch.activations > 0,
    }


def of_evaluation(watch: Watch, items: int) -> dict[str, Value]:
    """What one watched pass over the evaluation set shows."""
    return {
        "inference_mode": watch.inference and watch.forwards > 0,
        "batched_evaluation": 0 < watch.forwards < items,
        "evaluation_autocast": next((one for one in ("bfloat16", "float16") if one in watch.dtypes), None),
    }


# What the device makes of float32: how far its products and convolutions lie from float64's.

# The relative error tells the mantissa: about 2e-7 with float32's 23 bits, 3e-4 with TensorFloat-32's ten, 2e-3 with
# bfloat16's seven. Sums of several short numbers stand for longer mantissas and come close to float32's.
SHORTENED = 2e-5


def of_precision(device: Device) -> dict[str, Value]:
    """Whether float32 products and convolutions keep their mantissa now, and the errors that say so."""
    numbers = torch.Generator().manual_seed(0)  # of its own, so that the model's draws stay what they are

    def drawn(*shape: int) -> Tensor:
        return torch.randn(shape, generator=numbers).to(device.torch)

    product = relative_error(torch.mm, drawn(256, 256), drawn(256, 256))
    # Channels by the eight, for tensor cores; a stride of two, because Winograd's algorithm has an error of its own.
    samples, channels, side = device.convolved
    image, kernel = drawn(samples, channels, side, side), drawn(channels, channels, 3, 3)
    convolution = relative_error(lambda x, y: conv2d(x, y, stride=2), image, kernel)
    return {
        "reduced_products": product > SHORTENED,
        "reduced_convolutions": convolution > SHORTENED,
        "product_error": product,
        "convolution_error": convolution,
    }


def relative_error(operation: Callable[[Tensor, Tensor], Tensor], one: Tensor, other: Tensor) -> float:
    """The distance of a float32 result from that of float64, as a share of the result's norm."""
    exact = operation(one.double(), other.double())
    return float((operation(one, other).double() - exact).norm() / exact.norm())


# What an update shows: the kernels it ran, the gradients it left, the layers that ran twice.


def of_optimizer(optimizer: torch.optim.Optimizer) -> dict[str, Value]:
    """The kernel that the optimizer will use, and how it left the gradients of its last step."""
    group = optimizer.param_groups[0]
    kernel = next((name for name in ("fused", "foreach") if group.get(name)), "loop")
    return {"optimizer_kernel": kernel, "set_to_none": _gradients_are_gone(optimizer)}


def of_learning_rate(optimizer: torch.optim.Optimizer, task: Task) -> dict[str, Value]:
    """The rule that the learning rate follows, told from the one that the system sets of itself."""
    parameters = [one for group in optimizer.param_groups for one in group["params"]]
    own = task.parts.optimizer(parameters, {"foreach": False, "fused": False})
    rates = [(one["lr"], before["lr"]) for one, before in zip(optimizer.param_groups, own.param_groups, strict=True)]
    rules = {"fixed": 1.0, "linear": float(task.recipe.batch_scale)}
    found = (rule for rule, ratio in rules.items() if all(isclose(one, ratio * before) for one, before in rates))
    return {"learning_rate_rule": next(found, "another")}


def of_capture(trainee: Trainee) -> dict[str, Value]:
    """Whether steps were replayed as one graph, and how many so far."""
    replays = trainee.graph.replays if trainee.graph else 0
    return {"cuda_graph": replays > 0, "graph_replays": replays}


def of_training(trainee: Trainee, batch: Any) -> dict[str, Value]:
    """What one more update shows: layers that ran again in the backward pass, and the kernels of the update."""
    bound = trainee.bound
    inputs, targets = bound.transfer(batch)
    before = _versions(trainee.optimizer)
    with _layer_calls(trainee.model) as calls:
        with bound.autocast():
            value = bound.loss(trainee.parallel(inputs), targets)
        in_forward = len(calls)
        bound.backward(value)
    updated = _versions(trainee.optimizer) != before and _gradients_are_gone(trainee.optimizer)
    operators = Operators()
    with operators:
        bound.update()
    seen: dict[str, Value] = {
        "update_in_backward": updated,
        "checkpointing": len(calls) > in_forward,
        "clip_kernel": "foreach" if "aten::_foreach_norm" in operators.names else "loop",
        "average_kernel": "foreach" if "aten::_foreach_lerp_" in operators.names else "loop",
    }
    if updated:  # how torch looks for a GPU, as it does in each update of any optimizer: through CUDA or the driver
        seen["gpu_check"] = "driver" if os.environ.get(GPU_CHECK) == "1" else "CUDA"
    return seen


def _versions(optimizer: torch.optim.Optimizer) -> list[int]:
    """How often each weight was written to."""
    return [one._version for group in optimizer.param_groups for one in group["params"]]  # noqa: SLF001


def _gradients_are_gone(optimizer: torch.optim.Optimizer) -> bool:
    return all(one.grad is None for group in optimizer.param_groups for one in group["params"])


@contextmanager
def backwards_into(model: nn.Module) -> Iterator[Counter[int]]:
    """How many backward passes within the block reached each of the model's weights; some are in no step's graph."""
    passes = Counter[int]()
    trained = [one for one in model.parameters() if one.requires_grad]
    hooks = [one.register_post_accumulate_grad_hook(lambda weight: passes.update([id(weight)])) for one in trained]
    try:
        yield passes
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def _layer_calls(model: nn.Module) -> Iterator[list[None]]:
    """One entry for each call within the block of a layer without layers of its own."""
    calls: list[None] = []
    hooks = [one.register_forward_hook(lambda *_: calls.append(None)) for one in _layers(model)]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()


class Operators(TorchDispatchMode):
    """Notes the names of all operators that run while it is entered."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: set[str] = set()

    def __torch_dispatch__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(function._schema.name)  # noqa: SLF001  a dispatched operator has no other name
        return function(*args, **(kwargs or {}))
