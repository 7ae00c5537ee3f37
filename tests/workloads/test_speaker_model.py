"""The model and the loss of the speaker workload."""

import math
import subprocess
import sys

import pytest
import torch
from torch import nn

from harness.core.recipe import Recipe
from workloads.speaker import WORKLOAD
from workloads.speaker.loss import AngularMarginLoss
from workloads.speaker.model import Block, ResNetSE34L

torch.set_num_threads(1)


def parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_facts_need_no_heavy_import() -> None:
    code = "import sys, workloads.speaker; print({'torch', 'numpy', 'soundfile'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout == "set()\n"


@pytest.mark.parametrize(("embedding", "count"), [(512, 1_437_078), (256, 1_404_054)])
def test_parameter_count_is_the_published_one(embedding: int, count: int) -> None:
    assert parameters(ResNetSE34L(embedding)) == count


def test_workload_states_its_parameters_and_loss_adds_a_direction_per_speaker() -> None:
    size = WORKLOAD.sizes["smoke"]
    parts = WORKLOAD.parts()
    assert parameters(parts.model(size, Recipe())) == WORKLOAD.parameters
    assert parameters(parts.loss(size, Recipe())) == size.shape["speakers"] * 512
    assert parameters(AngularMarginLoss(5991, 512)) == 3_067_392


def test_optimizer_is_adam_and_passes_its_kernel_on() -> None:
    optimizer = WORKLOAD.parts().optimizer(list(nn.Linear(2, 2).parameters()), {"foreach": True})
    assert isinstance(optimizer, torch.optim.Adam)
    group = optimizer.param_groups[0]
    assert (group["lr"], group["weight_decay"], group["foreach"]) == (1e-3, 0, True)


def test_front_end_gives_202_normalised_frames_without_gradient_and_in_float32() -> None:
    front_end = ResNetSE34L().front_end
    with torch.autocast("cpu", torch.bfloat16):
        mels = front_end(torch.randn(2, 32_240))
    assert mels.shape == (2, 64, 202)
    assert mels.dtype == torch.float32
    assert not mels.requires_grad
    assert torch.allclose(mels.mean(dim=2), torch.zeros(2, 64), atol=1e-5)


def test_log_input_changes_the_front_end() -> None:
    wave = torch.randn(1, 32_240)
    assert not torch.allclose(ResNetSE34L().front_end(wave), ResNetSE34L(log_input=True).front_end(wave))


def test_stages_have_their_blocks_widths_and_strides() -> None:
    sizes: list[tuple[int, ...]] = []
    model = ResNetSE34L().eval()
    for layer in (model.stem, *model.stages):
        layer.register_forward_hook(lambda _module, _inputs, output: sizes.append(tuple(output.shape[1:])))
    assert model(torch.randn(1, 32_240)).shape == (1, 512)
    expected = [(16, 32, 202)] * 4 + [(32, 16, 101)] * 4 + [(64, 8, 51)] * 6 + [(128, 8, 51)] * 3
    assert sizes == expected


def test_block_order_is_relu_before_the_first_norm() -> None:
    block = Block(16, 32, (2, 2))
    names = [type(layer).__name__ for layer in block.residual]
    assert names == ["Conv2d", "ReLU", "BatchNorm2d", "Conv2d", "BatchNorm2d", "SqueezeExcitation"]
    assert isinstance(Block(16, 16, (1, 1)).shortcut, nn.Identity)
    assert isinstance(block.shortcut, nn.Sequential)


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_every_activation_follows_the_memory_format_of_the_weights(memory_format: torch.memory_format) -> None:
    model = ResNetSE34L().to(memory_format=memory_format)
    pictures: list[torch.Tensor] = []
    model.stem.register_forward_pre_hook(lambda _module, inputs: pictures.append(inputs[0]))
    for layer in (*model.stem, *model.stages):
        layer.register_forward_hook(lambda _module, _inputs, output: pictures.append(output))
    model(torch.randn(2, 32_240))
    is_last = memory_format == torch.channels_last
    assert [picture.stride(1) == 1 for picture in pictures] == [is_last] * len(pictures)


def test_channels_last_gives_the_same_embeddings() -> None:
    model, wave = ResNetSE34L().eval(), torch.randn(2, 32_240)
    expected = model(wave)
    torch.testing.assert_close(model.to(memory_format=torch.channels_last)(wave), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("degrees", [20, 90, 160, 175])
def test_loss_moves_the_true_class_by_the_margin(degrees: int) -> None:
    loss = AngularMarginLoss(3, 2)
    true, others = math.radians(degrees), (0.3, -2.0)
    with torch.no_grad():
        loss.weight.copy_(torch.tensor([[math.cos(angle), math.sin(angle)] for angle in (true, *others)]) * 7)
    moved = math.cos(true + 0.2) if true + 0.2 < math.pi else math.cos(true) - math.sin(0.2) * 0.2
    logits = [30 * moved, *(30 * math.cos(angle) for angle in others)]
    expected = math.log(sum(math.exp(logit) for logit in logits)) - logits[0]
    assert loss(torch.tensor([[5.0, 0.0]]), torch.tensor([0])).item() == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_loss_has_a_finite_gradient_where_an_embedding_lies_on_its_class() -> None:
    loss = AngularMarginLoss(3, 4)
    embeddings = loss.weight.detach()[:1].clone().requires_grad_()
    loss(embeddings, torch.tensor([0])).backward()
    assert embeddings.grad is not None
    assert torch.isfinite(embeddings.grad).all()
