"""What torch.compile shows: its graphs, its breaks, and the layers that Python still runs one by one."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import FrameType
from typing import Any

import torch
from torch import nn

from harness.core.recipe import Value
from harness.measure.session import Trainee


def of_compiler(trainee: Trainee, batch: Any) -> dict[str, Value]:
    """What was captured, and what one more step shows of it; a model that fell back to eager is not compiled."""
    bound = trainee.bound
    inputs, targets = bound.transfer(batch)
    with eager_calls(trainee.model) as eager:
        with bound.autocast():
            value = bound.loss(bound.model(inputs), targets)
        bound.backward(value)
    bound.update()
    graphs, layers = captured(), sum(1 for _ in _layers(trainee.model))
    cuda_graphs = captured_by_cuda(inputs.device)
    lacks_cuda_graphs = cuda_graphs == 0 and graphs["cuda_graph_skips"] != 0 and inputs.device.type == "cuda"
    in_graphs = graphs["compiled_graphs"] != 0 and 2 * len(eager) <= layers and not lacks_cuda_graphs
    return {"compiled": in_graphs, "eager_layers": len(eager), "cuda_graphs": cuda_graphs, **graphs}


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


def captured_by_cuda(device: torch.device) -> int:
    """CUDA graphs that torch.compile has recorded on a device: first ones and those that follow another."""
    if device.type != "cuda":
        return 0
    from torch._inductor.cudagraph_trees import get_manager

    manager = get_manager(device.index or 0, create_if_none_exists=False)
    return _recorded(manager.roots) if manager else 0


def _recorded(graphs: Mapping[Any, list[Any]]) -> int:
    return sum(1 + _recorded(one.children) for alternatives in graphs.values() for one in alternatives)


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
