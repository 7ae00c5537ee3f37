"""What the models promise to whoever changes their layout, their activations or the way in which they are called."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from harness.core.configuration import compose
from harness.measure.evaluation import ReadBacks
from harness.measure.session import Session, open_session
from tests.measure.tasks import CATALOGUE, task_of
from workloads.patches3d.model import ResidualUNet3D

torch.set_num_threads(1)


def having(trait: str) -> list[str]:
    return sorted(name for name, one in CATALOGUE.workloads.items() if trait in one.traits)


def opened(name: str, folders: dict[str, Path], *names: str) -> Session:
    return open_session(task_of(name, folders[name], names))


def losses(session: Session) -> list[float]:
    step = session.step()
    found = [float(step()) for _ in range(4)]
    session.feed.close()
    return found


def overwriting(model: nn.Module) -> set[bool]:
    return {one.inplace for one in model.modules() if isinstance(one, nn.ReLU)}


@pytest.mark.parametrize("name", having("convolutions"))
def test_no_model_meets_the_kernel_that_destroys_the_heap(name: str) -> None:
    """1x1 convolutions of stride 2 with fewer than 16 channels (docs/decisions/unwritten-memory.md)."""
    workload = CATALOGUE.workloads[name]
    recipe = compose(workload, (), CATALOGUE.optimizations)
    for size in workload.sizes.values():
        for layer in workload.parts().model(size, recipe).modules():
            if isinstance(layer, nn.Conv2d) and layer.kernel_size == (1, 1) and layer.stride == (2, 2):
                assert layer.in_channels >= 16


@pytest.mark.parametrize("name", having("relu"))
def test_activations_may_overwrite_their_input(name: str, smoke_data: dict[str, Path]) -> None:
    usual = opened(name, smoke_data)
    assert overwriting(usual.trainee.model) == {False}
    expected = losses(usual)
    ours = opened(name, smoke_data, "in_place_activations")
    assert overwriting(ours.trainee.model) == {True}
    assert losses(ours) == expected


@pytest.mark.parametrize("name", having("relu"))
def test_no_activation_is_called_as_a_function(
    name: str, smoke_data: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would keep its input whatever the recipe says."""
    called: list[bool] = []
    honest = nn.functional.relu

    def relu(input: Tensor, inplace: bool = False) -> Tensor:  # noqa: A002  the name that torch gave it
        called.append(inplace)
        return honest(input, inplace)

    monkeypatch.setattr(nn.functional, "relu", relu)
    session = opened(name, smoke_data, "in_place_activations")
    session.step()()
    session.feed.close()
    assert called
    assert all(called)


def test_torchvision_s_activations_overwrite_from_the_start(smoke_data: dict[str, Path]) -> None:
    assert overwriting(opened("imagenet", smoke_data, "local_copy").trainee.model) == {True}


def test_only_mish_activates_volumes(smoke_data: dict[str, Path]) -> None:
    assert overwriting(opened("patches3d", smoke_data).trainee.model) == set()


def asked(session: Session) -> int:
    """How often the host asks for values between a batch on the device and its gradients."""
    trainee = session.trainee
    inputs, targets = trainee.bound.transfer(session.feed.fetch())
    reads = ReadBacks(torch.device("cpu"))
    reads.note_forward(trainee.model, (), None)
    with reads:
        trainee.loss(trainee.model(inputs), targets).backward()
    session.feed.close()
    return reads.count


@pytest.mark.parametrize("name", having("capturable"))
def test_what_can_be_captured_asks_for_nothing(name: str, smoke_data: dict[str, Path]) -> None:
    assert asked(opened(name, smoke_data, *(("local_copy",) if name == "imagenet" else ()))) == 0


def test_the_composite_loss_asks_and_cannot_be_captured(smoke_data: dict[str, Path]) -> None:
    assert "patches3d" not in having("capturable")
    assert asked(opened("patches3d", smoke_data, "precomputed_preparation")) > 20


def is_last(tensor: Tensor) -> bool:
    return tensor.is_contiguous(memory_format=torch.channels_last_3d) and not tensor.is_contiguous()


def test_norms_of_volumes_lose_channels_last_which_every_convolution_then_brings_back() -> None:
    """PyTorch's instance norm gives contiguous tensors, whatever it is given: each convolution behind one copies."""
    model = ResidualUNet3D().encoder[0].to(memory_format=torch.channels_last_3d)  # type: ignore[call-overload]
    seen: dict[str, list[bool]] = {}

    def note(module: nn.Module, _inputs: Any, output: Tensor) -> None:
        seen.setdefault(type(module).__name__, []).append(is_last(output))

    for module in model.modules():
        if not any(module.children()):
            module.register_forward_hook(note)
    model(torch.randn(1, 1, 32, 32, 32))
    first, second, projection, *others = seen["Conv3d"]
    assert not first  # it and the projection have one channel, where both layouts are one
    assert not projection
    assert all((second, *others))
    assert not any(seen["InstanceNorm3d"])
    assert not any(seen["Mish"])


@pytest.mark.parametrize(
    "layer",
    [
        nn.Mish(),
        nn.MaxPool3d(2),
        nn.Dropout3d(0.1),
        lambda one: nn.functional.interpolate(one, (9, 9, 9), mode="trilinear", align_corners=False),
        lambda one: torch.cat((one, one), 1),
        lambda one: one + one,
    ],
)
def test_all_else_that_handles_volumes_keeps_channels_last(layer: Callable[[Tensor], Tensor]) -> None:
    assert is_last(layer(torch.randn(2, 4, 8, 8, 8).to(memory_format=torch.channels_last_3d)))
