"""What PyTorch takes the host for an operator, beside the kernel: python benchmarks/dispatch.py prints it.

Small tensors on the CPU, where the work itself takes next to nothing; time of one thread, the fastest fifth of many
passes. The host of a GPU takes three to four times as much for an operator (docs/decisions/emulated-devices.md); what a
parameter of a foreach or fused optimizer takes in harness/devices is from here.
"""

import time
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor, nn

from harness.measure.emulated import Launches, step_counts

BLOCKS, PASSES = 30, 100


def main() -> None:
    """Prints microseconds."""
    torch.set_num_threads(1)
    layers = (layer for _ in range(BLOCKS) for layer in (nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU()))
    model, inputs = nn.Sequential(*layers), torch.randn(4, 4)
    for name, microseconds in _found(model, inputs):
        print(f"{name:45} {microseconds:5.1f} us")


def _found(model: nn.Module, inputs: Tensor) -> Iterator[tuple[str, float]]:
    model(inputs).sum().backward()  # from here on gradients are added to what is there, as in the passes below
    with Launches() as forward:
        loss = model(inputs).sum()
    with Launches() as backward:
        loss.backward()
    forward_us = _microseconds(lambda: model(inputs).sum())
    both_us = _microseconds(lambda: model(inputs).sum().backward())
    yield "an operator of the forward pass", forward_us / forward.count
    yield "an operator of the backward pass", (both_us - forward_us) / backward.count
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    optimizer.step()
    with Launches(step_counts(optimizer)) as update:
        optimizer.step()
    yield "an operator of an optimizer in a loop", _microseconds(optimizer.step) / update.count
    yield (
        "a parameter that is sorted into lists",
        _microseconds(lambda: _group(optimizer)) / len(list(model.parameters())),
    )


def _group(optimizer: torch.optim.Optimizer) -> None:
    """What foreach and fused optimizers do with every parameter before their kernels."""
    parameters = [one for one in optimizer.param_groups[0]["params"] if one.grad is not None]
    states = [optimizer.state[one] for one in parameters]
    assert len(states) == len(parameters)
    torch.utils._foreach_utils._group_tensors_by_device_and_dtype([parameters, [one.grad for one in parameters]])  # noqa: SLF001


def _microseconds(work: Callable[[], object]) -> float:
    seconds = []
    for _ in range(PASSES):
        began = time.thread_time()
        work()
        seconds.append(time.thread_time() - began)
    return 1e6 * float(np.percentile(seconds, 20))


if __name__ == "__main__":
    main()
