"""The leak classifier's network, loss and declaration."""

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from harness.core.mistake import Mistake
from harness.core.recipe import Recipe
from workloads.leak import WORKLOAD
from workloads.leak.classes import LEAK, SHARES
from workloads.leak.loss import build_loss
from workloads.leak.model import LeakCNNMulti, MiddleColumn, build_model, build_optimizer

torch.set_num_threads(1)
SMOKE = WORKLOAD.sizes["smoke"]


def recipe(**choices: Any) -> Recipe:
    own = {name: choices.pop(name, value) for name, value in WORKLOAD.own.items()}
    return Recipe(own=tuple(sorted(own.items())), **choices)


def parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("convolution", [nn.Conv2d, MiddleColumn])
@pytest.mark.parametrize(("classes", "expected"), [(5, 618_758), (2, 617_987)])
def test_parameters_are_those_of_the_real_network(classes: int, expected: int, convolution: type[nn.Conv2d]) -> None:
    assert parameters(LeakCNNMulti(classes, convolution)) == expected


def test_the_declared_parameters_are_the_built_ones() -> None:
    assert parameters(build_model(SMOKE, recipe())) == WORKLOAD.parameters
    assert parameters(build_model(SMOKE, recipe(convolution="middle_column"))) == WORKLOAD.parameters
    assert {"binary": parameters(build_model(SMOKE, recipe(classes="binary")))} == WORKLOAD.variants


def test_layers_give_the_shapes_of_the_layer_table() -> None:
    shapes = []
    value = torch.zeros(3, 1, 64, 1)
    for layer in LeakCNNMulti(5).trunk:
        value = layer(value)
        shapes.append((type(layer).__name__, tuple(value.shape[1:])))
    assert shapes == [
        ("Conv2d", (32, 64, 1)),
        ("ReLU", (32, 64, 1)),
        ("Conv2d", (64, 64, 1)),
        ("ReLU", (64, 64, 1)),
        ("MaxPool2d", (64, 32, 1)),
        ("Conv2d", (128, 32, 1)),
        ("ReLU", (128, 32, 1)),
        ("MaxPool2d", (128, 16, 1)),
        ("AdaptiveAvgPool2d", (128, 16, 1)),
        ("Flatten", (2048,)),
        ("Dropout", (2048,)),
        ("Linear", (256,)),
        ("ReLU", (256,)),
    ]


@pytest.mark.parametrize(
    ("mels", "frames", "pooled"), [(32, 1, (8, 1)), (64, 1, (16, 1)), (32, 8, (8, 8)), (64, 4, (16, 4))]
)
def test_shapes_of_segments_that_the_real_system_has_used(mels: int, frames: int, pooled: tuple[int, int]) -> None:
    model, mel = LeakCNNMulti(5), torch.randn(7, 1, mels, frames)
    assert model.trunk[:8](mel).shape == (7, 128, *pooled)
    assert model.trunk[:10](mel).shape == (7, 2048)
    logits, leak_logit = model(mel)
    assert (logits.shape, leak_logit.shape) == ((7, 5), (7,))


def test_kernels_and_poolings_are_those_of_the_layer_table() -> None:
    layers = LeakCNNMulti(5).trunk
    convolutions = [one for one in layers if isinstance(one, nn.Conv2d)]
    assert [(one.kernel_size, one.stride, one.padding) for one in convolutions] == 3 * [((3, 3), (1, 1), (1, 1))]
    assert [one.kernel_size for one in layers if isinstance(one, nn.MaxPool2d)] == 2 * [(2, 1)]
    assert [one.p for one in layers if isinstance(one, nn.Dropout)] == [0.25]


def both_convolutions() -> tuple[LeakCNNMulti, LeakCNNMulti]:
    """The network and its rewrite, with the same weights."""
    torch.manual_seed(0)
    square = build_model(SMOKE, recipe())
    torch.manual_seed(0)
    return square.eval(), build_model(SMOKE, recipe(convolution="middle_column")).eval()


@pytest.mark.parametrize("mels", [32, 64])
def test_the_middle_column_gives_the_same_values(mels: int) -> None:
    square, narrow = both_convolutions()
    mel = torch.randn(64, 1, mels, 1)
    for ours, theirs in zip(narrow(mel), square(mel), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)


def test_the_middle_column_is_a_convolution_in_one_dimension() -> None:
    layer = MiddleColumn(4, 6, 3, padding=1)
    mel = torch.randn(3, 4, 16, 1)
    flat = functional.conv1d(mel.squeeze(3), layer.weight[..., 1], layer.bias, padding=1)
    torch.testing.assert_close(layer(mel).squeeze(3), flat)


def test_both_convolutions_learn_alike_and_leave_the_outer_columns_alone() -> None:
    mel, target, models = torch.randn(64, 1, 64, 1), torch.arange(64) % 5, both_convolutions()
    for model in models:
        build_loss(SMOKE, recipe())(model(mel), target).backward()
    for ours, theirs in zip(models[1].parameters(), models[0].parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-7)
        if ours.dim() == 4:
            assert theirs.grad is not None
            assert not theirs.grad[..., [0, 2]].any()
            assert theirs.grad[..., 1].any()


def test_the_rewrite_refuses_several_frames() -> None:
    wide = replace(SMOKE, shape={**SMOKE.shape, "frames": 4})
    assert parameters(build_model(wide, recipe())) == WORKLOAD.parameters
    with pytest.raises(Mistake, match="exact for one frame only, and these segments have 4"):
        build_model(wide, recipe(convolution="middle_column"))


def test_the_loss_is_weighted_cross_entropy_and_half_a_binary_one() -> None:
    logits, leak_logit, target = torch.randn(6, 5), torch.randn(6), torch.tensor([0, 1, 2, 2, 3, 4])
    loss = build_loss(SMOKE, recipe())
    weights = loss.class_weights[target]
    classes = -(weights * logits.log_softmax(1)[torch.arange(6), target]).sum() / weights.sum()
    chance = leak_logit.sigmoid()
    leak = -torch.where(target == 2, chance.log(), (1 - chance).log()).mean()
    torch.testing.assert_close(loss((logits, leak_logit), target), classes + 0.5 * leak)


def test_classes_weigh_the_more_the_rarer_they_are() -> None:
    weights = build_loss(WORKLOAD.sizes["standard"], recipe()).class_weights
    torch.testing.assert_close(weights * torch.tensor(SHARES), torch.full((5,), 0.2), rtol=1e-3, atol=0)


def test_the_focal_loss_of_a_case_worked_out_by_hand() -> None:
    loss = build_loss(SMOKE, recipe(class_loss="focal"))
    torch.testing.assert_close(loss.class_weights, torch.tensor([0.0625, 0.0625, 0.75, 0.0625, 0.0625]))
    logits = torch.log(torch.tensor([[0.1, 0.1, 0.6, 0.1, 0.1], [0.8, 0.05, 0.05, 0.05, 0.05]]))
    expected = (0.75 * 0.4**2 * -torch.log(torch.tensor(0.6)) + 0.0625 * 0.2**2 * -torch.log(torch.tensor(0.8))) / 2
    undecided = torch.zeros(2)
    classes = loss((logits, undecided), torch.tensor([LEAK, 0])) - 0.5 * torch.log(torch.tensor(2.0))
    torch.testing.assert_close(classes, expected)


@pytest.mark.parametrize("class_loss", ["cross_entropy", "focal"])
def test_the_binary_loss_asks_for_leaks_alone(class_loss: str) -> None:
    loss = build_loss(SMOKE, recipe(classes="binary", class_loss=class_loss))
    assert loss.class_weights.shape == (2,)
    assert (loss.class_weights[1] > loss.class_weights[0]).item()
    right, wrong = torch.tensor([[9.0, -9.0], [-9.0, 9.0]]), torch.tensor([[-9.0, 9.0], [9.0, -9.0]])
    target, undecided = torch.tensor([4, LEAK]), torch.zeros(2)
    assert loss((right, undecided), target) < loss((wrong, undecided), target)


def test_the_loss_takes_half_precision_outputs() -> None:
    outputs = (torch.zeros(4, 5, dtype=torch.bfloat16), torch.zeros(4, dtype=torch.bfloat16))
    assert build_loss(SMOKE, recipe())(outputs, torch.tensor([0, 1, 2, 3])).dtype == torch.float32


def test_the_optimizer_is_adamw_with_the_kernel_asked_for() -> None:
    optimizer = build_optimizer([nn.Parameter(torch.zeros(1))], {"foreach": True})
    assert isinstance(optimizer, torch.optim.AdamW)
    assert (optimizer.defaults["lr"], optimizer.defaults["foreach"]) == (1e-3, True)


def test_an_epoch_has_whole_batches_of_existing_segments() -> None:
    for size in WORKLOAD.sizes.values():
        assert size.batch * size.epoch_steps <= size.shape["files"] * 80


def test_declaring_the_workload_imports_nothing_heavy() -> None:
    code = "import sys, workloads.leak; sys.exit(bool({'torch', 'numpy', 'h5py'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
