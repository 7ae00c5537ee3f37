"""What layers show while a batch passes through them: types, memory formats, overwritten inputs, inference mode."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from harness.core.recipe import Value
from harness.measure.model import OVERWRITING


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

    def layer(module: nn.Module, _inputs: Any, output: Tensor) -> None:
        watch.dtypes.add(str(output.dtype).removeprefix("torch."))
        if output.dim() == 4 and (name := memory_format(output)):
            watch.formats.add(name)
        if output.dim() == 5 and memory_format(module.get_parameter("weight")) and (name := memory_format(output)):
            watch.formats_3d.add(name)

    def activation(_module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        watch.activations += 1
        watch.overwriting += inputs[0].data_ptr() == output.data_ptr()

    def whole(_module: nn.Module, _inputs: Any, output: Any) -> None:
        watch.forwards += 1
        first = output[0] if isinstance(output, tuple) else output
        watch.inference &= bool(first.is_inference())

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
    }
