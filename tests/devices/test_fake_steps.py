"""Whole training steps on fake tensors: what a capture forbids, and devices that are mixed, show without a GPU."""

from pathlib import Path

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import DataDependentOutputException, unset_fake_temporarily

from harness.core.recipe import Recipe
from harness.measure.loop import examined
from harness.measure.update import DeferredMetrics, EagerMetrics, plain_backward
from tests.devices.fakes import batch_of, captured, fakes, smoke, trainee_of
from tests.measure.tasks import CATALOGUE
from workloads.patches3d.device import augmented

GENERAL = ("", "amp_bfloat16+channels_last+set_to_none+foreach_optimizer", "fused_optimizer+foreach_clipping")
OWN = {
    "imagenet": ("uint8_transfer+foreach_optimizer", "image_size=160+cudnn_benchmark"),
    "leak": (
        "focal_loss+binary_classes", "conv1d_rewrite+in_place_activations", "data_on_device+device_spec_augment",
        "foreach_optimizer+foreach_clipping+amp_bfloat16",
    ),
    "speaker": (
        "metric_learning=angular_prototypical+amp_bfloat16", "metric_learning=softmax_prototypical+fused_optimizer",
        "larger_network=resnetse34v2+foreach_optimizer", "device_mixing+set_to_none",
    ),
    "spoof": ("se_resnet34+in_place_activations", "device_mel+amp_bfloat16", "no_tiling+foreach_optimizer"),
}  # fmt: skip
CAPTURABLE = [name for name, one in sorted(CATALOGUE.workloads.items()) if "capturable" in one.traits]
STAGES = [
    ("imagenet", ""), ("imagenet", "uint8_transfer"),
    ("leak", ""), ("leak", "data_on_device"), ("leak", "device_spec_augment"), ("leak", "binary_classes+focal_loss"),
    ("leak", "data_on_device+device_spec_augment"),
    ("patches3d", ""), ("patches3d", "device_augmentation"),
    ("speaker", ""), ("speaker", "int16_waveforms"), ("speaker", "device_mixing"), ("speaker", "looped_front_end"),
    ("speaker", "metric_learning=softmax_prototypical"),
    ("spoof", ""), ("spoof", "device_mel"),
]  # fmt: skip


def split(stack: str) -> tuple[str, ...]:
    return tuple(filter(None, stack.split("+")))


@pytest.mark.parametrize(
    ("workload", "stack"), [(name, stack) for name in CAPTURABLE for stack in (*GENERAL, *OWN[name])]
)
def test_a_step_that_can_be_captured_asks_for_no_value(
    workload: str, stack: str, smoke_data: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    captured(monkeypatch)
    task = smoke(workload, smoke_data, "cuda_graph", *split(stack))
    batch = batch_of(task)
    with fakes() as mode:
        bound = trainee_of(task).bound
        assert bound.whole_step is not None
        inputs, targets = bound.transfer(tuple(map(mode.from_tensor, batch)))
        assert bound.whole_step(inputs, targets).shape == ()


@pytest.mark.parametrize("stack", ["", "deferred_loss_components"])
def test_a_step_that_cannot_be_captured_is_found_out(stack: str, smoke_data: dict[str, Path]) -> None:
    task = smoke("patches3d", smoke_data, *split(stack))
    batch = batch_of(task)
    with fakes() as mode:
        bound = trainee_of(task).bound
        inputs, targets = bound.transfer(tuple(map(mode.from_tensor, batch)))
        with pytest.raises((DataDependentOutputException, RuntimeError, TypeError)):
            bound.backward(bound.loss(bound.model(inputs), targets))


def test_what_reads_a_loss_back_is_found_out() -> None:
    with fakes():
        value = torch.ones((), requires_grad=True) * torch.rand(())
        DeferredMetrics().record(value)
        plain_backward(value * 1)
        with pytest.raises(DataDependentOutputException):
            EagerMetrics().record(value)
        with pytest.raises(DataDependentOutputException):
            examined(plain_backward, Recipe(finite_check=True))(value)


@pytest.mark.parametrize(
    ("workload", "stack"),
    STAGES,
)
def test_the_stages_of_a_device_mix_no_devices_and_wait_for_nothing(
    workload: str, stack: str, smoke_data: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    task, generator = smoke(workload, smoke_data, *split(stack)), torch.Generator
    batch = batch_of(task)
    monkeypatch.setattr(torch, "Generator", lambda *_: generator())  # a device's needs the device
    with fakes():
        bound = trainee_of(task, "cuda:0").bound
        inputs, targets = bound.transfer(batch)
        assert {inputs.device, targets.device} == {torch.device("cuda:0")}
        outputs = bound.model(inputs)
        if workload == "patches3d":  # its loss measures distances on the host
            return
        assert bound.loss(outputs, targets).device == torch.device("cuda:0")


def test_patches_are_augmented_on_a_device_by_seeds_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator
    monkeypatch.setattr(torch, "Generator", lambda *_: generator())
    with fakes():
        patches, targets = (torch.empty(2, 1, 16, 16, 16, device="cuda:0") for _ in range(2))
        with unset_fake_temporarily():
            seeds = torch.tensor([3, 4])
        images, surfaces = augmented((patches, targets, seeds))
    assert {images.device, surfaces.device} == {torch.device("cuda:0")}
    assert images.shape == surfaces.shape == patches.shape


def test_a_mixed_device_is_found_out(smoke_data: dict[str, Path]) -> None:
    task = smoke("spoof", smoke_data)
    batch = batch_of(task)
    with fakes():
        bound = trainee_of(task, "cuda:0").bound
        inputs, targets = bound.transfer(batch)
        assert isinstance(bound.loss, nn.Module)
        bound.loss.to("cpu")  # as one that nobody has moved
        with pytest.raises(RuntimeError, match=r"cuda:0.*cpu|cpu.*cuda:0"):
            bound.loss(bound.model(inputs), targets)
