"""The leak classifier's network, loss and declaration."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from harness.core.recipe import Recipe
from workloads.leak import WORKLOAD
from workloads.leak.loss import build_loss
from workloads.leak.model import LeakCNNMulti, build_model, build_optimizer
from workloads.leak.optimizations.hdf5_chunk_cache import OPTIMIZATION

torch.set_num_threads(1)
SMOKE = WORKLOAD.sizes["smoke"]


def parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(("classes", "expected"), [(5, 618_758), (2, 617_987)])
def test_parameters_are_those_of_the_real_network(classes: int, expected: int) -> None:
    assert parameters(LeakCNNMulti(classes)) == expected


def test_the_declared_parameters_are_the_built_ones() -> None:
    assert parameters(build_model(SMOKE)) == WORKLOAD.parameters


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


def test_both_heads_have_their_shape() -> None:
    logits, leak_logit = LeakCNNMulti(5)(torch.zeros(7, 1, 64, 1))
    assert (logits.shape, leak_logit.shape) == ((7, 5), (7,))


def test_the_loss_is_weighted_cross_entropy_and_half_a_binary_one() -> None:
    logits, leak_logit, target = torch.randn(6, 5), torch.randn(6), torch.tensor([0, 1, 2, 2, 3, 4])
    loss = build_loss(SMOKE)
    weights = loss.class_weights[target]
    classes = -(weights * logits.log_softmax(1)[torch.arange(6), target]).sum() / weights.sum()
    chance = leak_logit.sigmoid()
    leak = -torch.where(target == 2, chance.log(), (1 - chance).log()).mean()
    torch.testing.assert_close(loss((logits, leak_logit), target), classes + 0.5 * leak)


def test_the_loss_takes_half_precision_outputs() -> None:
    outputs = (torch.zeros(4, 5, dtype=torch.bfloat16), torch.zeros(4, dtype=torch.bfloat16))
    assert build_loss(SMOKE)(outputs, torch.tensor([0, 1, 2, 3])).dtype == torch.float32


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


def test_the_chunk_cache_sets_a_choice_that_the_workload_declares() -> None:
    assert set(OPTIMIZATION.sets) == set(WORKLOAD.own)
    assert Recipe(own=tuple(WORKLOAD.own.items())).choice("chunk_cache_mib") is None
