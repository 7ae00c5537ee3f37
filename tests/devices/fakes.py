"""Training steps on fake tensors, which have shapes, types and a device but no values: asking for one is an error."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily
from torch.utils.data import default_collate

from harness.measure import session
from harness.measure.devices import device_named
from harness.measure.phases import HostPhases
from harness.measure.session import Task, Trainee, open_trainee
from tests.devices.stand_ins import on_a_cpu
from tests.measure.tasks import task_of


@contextmanager
def fakes() -> Iterator[FakeTensorMode]:
    """Tensors that are made within the block, or sent to a device, are fake; what stays on the host has its values."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)

    def moved(module: nn.Module, device: Any) -> nn.Module:
        """The module with fake weights there; PyTorch's own way swaps tensors, which fake ones do not allow."""
        for part in module.modules():
            kinds: tuple[tuple[Any, Any], ...] = ((part._parameters, nn.Parameter), (part._buffers, Tensor.detach))
            for kept, kind in kinds:
                for name, one in kept.items():
                    kept[name] = one if one is None else kind(torch.empty_like(one.detach(), device=device))
        return module

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nn.Module, "to", moved)
        with mode:
            yield mode


def batch_of(task: Task) -> tuple[Tensor, ...]:
    """The first batch of a workload's data, as its loader would give it."""
    data: Any = task.parts.dataset(task.data, task.size, task.recipe)
    numbers = list(range(task.size.batch))
    if getattr(data, "collated", False):
        found = data.__getitems__(numbers)
    else:
        found = default_collate([data[number] for number in numbers])
    return tuple(found)


def captured(patch: pytest.MonkeyPatch) -> None:
    """Lets a recipe with `cuda_graph` be built without a device: what would be captured is called instead."""
    patch.setattr(session, "StepGraph", lambda train, _device: train)
    on_a_cpu(patch)


def trainee_of(task: Task, device: str = "cpu") -> Trainee:
    """What trains a task on a device that need not be there; its phases are those of a CPU."""
    parts = replace(task.parts, model=_with_values(task.parts.model), loss=_with_values(task.parts.loss))
    return open_trainee(replace(task, parts=parts, device=device_named(device)), HostPhases())


def _with_values(build: Callable[..., nn.Module]) -> Callable[..., nn.Module]:
    """Builds a module whose weights have values: some look at them while they are made."""

    def built(*given: Any) -> nn.Module:
        with unset_fake_temporarily():
            return build(*given)

    return built


def smoke(workload: str, folders: dict[str, Path], *names: str) -> Task:
    """A task at size smoke; imagenet's files are read where they lie."""
    nearby = ("local_copy",) if workload == "imagenet" else ()
    return task_of(workload, folders[workload], (*nearby, *names))
