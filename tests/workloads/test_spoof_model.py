"""The model and the loss of the anti-spoofing workload."""

import math
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from harness.core.recipe import Recipe, patched
from workloads.spoof import WORKLOAD
from workloads.spoof.loss import WeightedCrossEntropy
from workloads.spoof.model import DEPTHS, AttentiveStatistics, Block, SEResNet, SqueezeExcitation

torch.set_num_threads(1)
SMOKE = WORKLOAD.sizes["smoke"]
PLAIN = patched(Recipe(), WORKLOAD.own)


def parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def kinds(layers: nn.Sequential) -> list[str]:
    return [type(layer).__name__ for layer in layers]


def test_facts_need_no_heavy_import() -> None:
    code = (
        "import sys, workloads.spoof; print({'torch', 'torchaudio', 'numpy', 'scipy', 'soundfile'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout == "set()\n"


def test_parameter_counts_are_those_of_the_original() -> None:
    parts = WORKLOAD.parts()
    with torch.device("meta"):
        model = parts.model(SMOKE, PLAIN)
        deeper = parts.model(SMOKE, patched(PLAIN, {"model": "se_resnet34"}))
    assert parameters(model) == WORKLOAD.parameters == 11_981_251
    assert parameters(deeper) == WORKLOAD.variants["se_resnet34"] == 22_159_555
    assert parameters(parts.loss(SMOKE, PLAIN)) == 0


def test_at_quick_the_stages_have_a_quarter_of_their_channels() -> None:
    with torch.device("meta"):
        model = WORKLOAD.parts().model(WORKLOAD.sizes["quick"], PLAIN)
        embedding, logits = model(torch.empty(2, 128, 404))
    assert parameters(model) == 987_571
    assert [stage.residual[0].out_channels for stage in model.stages[::2]] == [16, 32, 64, 128]
    assert (embedding.shape, logits.shape) == ((2, 256), (2, 2))


@pytest.mark.parametrize(("frames", "gflop"), [(404, 3.64), (202, 1.87)])
def test_a_forward_pass_costs_what_the_original_does(frames: int, gflop: float) -> None:
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        SEResNet().eval()(torch.empty(1, 128, frames))
    assert counter.get_total_flops() / 1e9 == pytest.approx(gflop, abs=0.005)


@pytest.mark.parametrize("name", DEPTHS)
def test_stages_have_their_blocks_widths_and_strides(name: str) -> None:
    sizes: list[tuple[int, ...]] = []
    with torch.device("meta"):
        model = SEResNet(DEPTHS[name]).eval()
        for layer in (model.stem, *model.stages):
            layer.register_forward_hook(lambda _module, _inputs, output: sizes.append(tuple(output.shape[1:])))
        embedding, logits = model(torch.empty(2, 128, 404))
    assert (embedding.shape, logits.shape) == ((2, 256), (2, 2))
    pictures = [(64, 32, 101), (128, 16, 51), (256, 8, 26), (512, 4, 13)]
    expected = [(64, 32, 101)]
    for picture, count in zip(pictures, DEPTHS[name], strict=True):
        expected += [picture] * count
    assert sizes == expected


def test_stem_blocks_and_head_are_in_order() -> None:
    with torch.device("meta"):
        model = SEResNet()
    assert kinds(model.stem) == ["Conv2d", "BatchNorm2d", "ReLU", "MaxPool2d"]
    assert (model.stem[0].kernel_size, model.stem[0].stride, model.stem[0].bias) == ((7, 7), (2, 2), None)
    block = Block(64, 128, 2)
    assert kinds(block.residual) == ["Conv2d", "BatchNorm2d", "ReLU", "Conv2d", "BatchNorm2d", "SqueezeExcitation"]
    assert (block.residual[0].stride, block.residual[3].stride) == ((2, 2), (1, 1))
    assert isinstance(Block(64, 64, 1).shortcut, nn.Identity)
    assert isinstance(block.shortcut, nn.Sequential)
    assert parameters(SqueezeExcitation(64)) == 2 * 64 * 4
    assert kinds(model.embed) == ["Linear", "BatchNorm1d", "ReLU", "Dropout"] * 2
    assert model.embed[3].p == model.embed[7].p == 0.3


def test_pooling_is_the_weighted_mean_and_deviation() -> None:
    torch.manual_seed(0)
    pooling, features = AttentiveStatistics(8), torch.randn(2, 8, 5)
    weights = pooling.attention(features).softmax(2)
    mean = (weights * features).sum(2)
    deviation = (weights * (features - mean[:, :, None]) ** 2).sum(2).sqrt()
    torch.testing.assert_close(pooling(features), torch.cat([mean, deviation], 1))


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float16])
def test_pooling_has_finite_gradients_where_nothing_varies(kind: torch.dtype) -> None:
    pooling, features = AttentiveStatistics(8).to(kind), torch.ones(2, 8, 5, dtype=kind, requires_grad=True)
    pooled = pooling(features)
    assert pooled.dtype == torch.float32
    pooled.sum().backward()
    assert features.grad is not None
    assert torch.isfinite(features.grad).all()


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_every_activation_follows_the_memory_format_of_the_weights(memory_format: torch.memory_format) -> None:
    model = SEResNet().to(memory_format=memory_format).eval()
    pictures: list[torch.Tensor] = []
    model.stem.register_forward_pre_hook(lambda _module, inputs: pictures.append(inputs[0]))
    for layer in (*model.stem, *model.stages):
        layer.register_forward_hook(lambda _module, _inputs, output: pictures.append(output))
    model(torch.randn(2, 128, 40))
    is_last = memory_format == torch.channels_last
    assert [picture.stride(1) == 1 for picture in pictures] == [is_last] * len(pictures)


def test_channels_last_gives_the_same_logits() -> None:
    torch.manual_seed(0)
    model, mels = SEResNet().eval(), torch.randn(2, 128, 40)
    expected = model(mels)[1]
    torch.testing.assert_close(model.to(memory_format=torch.channels_last)(mels)[1], expected, rtol=1e-3, atol=1e-4)


def test_loss_weighs_bona_fide_speech_nine_times() -> None:
    logits = torch.tensor([[2.0, 0.0], [1.0, 0.0]])
    spoof, bonafide = math.log(1 + math.exp(-2)), math.log(1 + math.exp(1))
    found = WeightedCrossEntropy()((torch.zeros(2, 256), logits), torch.tensor([0, 1]))
    assert found.item() == pytest.approx(0.1 * spoof + 0.9 * bonafide, rel=1e-5)
    half = WeightedCrossEntropy()((torch.zeros(2, 256), logits.half()), torch.tensor([0, 1]))
    assert half.dtype == torch.float32


def test_optimizer_is_adam_and_passes_its_kernel_on() -> None:
    optimizer = WORKLOAD.parts().optimizer(list(nn.Linear(2, 2).parameters()), {"foreach": True})
    assert isinstance(optimizer, torch.optim.Adam)
    group = optimizer.param_groups[0]
    assert (group["lr"], group["weight_decay"], group["betas"]) == (3e-4, 1e-4, (0.9, 0.999))
    assert group["foreach"] is True
