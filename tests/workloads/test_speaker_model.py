"""The models of the speaker workload."""

import math
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch import nn

from harness.core.recipe import Recipe
from workloads.speaker import WORKLOAD
from workloads.speaker.front_end import FrontEnd, LoopedFrontEnd, emphasised
from workloads.speaker.layers import Block, Bottleneck
from workloads.speaker.model import ResNetSE, build_model, resnetse34l, resnetse34v2
from workloads.speaker.pooling import FramePooling, SpectrumPooling

torch.set_num_threads(1)


def parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_facts_need_no_heavy_import() -> None:
    code = "import sys, workloads.speaker; print({'torch', 'numpy', 'soundfile'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout == "set()\n"


SIZE = WORKLOAD.sizes["smoke"]


def recipe(architecture: str = "resnetse34l", front_end: str = "batched", *, checkpointing: bool = False) -> Recipe:
    own = {**WORKLOAD.own, "architecture": architecture, "front_end": front_end}
    return Recipe(own=tuple(sorted(own.items())), checkpointing=checkpointing)


@pytest.mark.parametrize(
    ("model", "count"),
    [
        (resnetse34l(), 1_437_078),
        (resnetse34l(256), 1_404_054),
        (resnetse34l(statistics="asp"), 1_502_614),
        (resnetse34v2(), 8_028_492),
        (resnetse34v2(statistics="sap"), 6_979_916),
    ],
    ids=str,
)
def test_parameter_count_is_the_published_one(model: nn.Module, count: int) -> None:
    assert parameters(model) == count


@pytest.fixture(scope="module")
def largest() -> ResNetSE:
    return build_model(SIZE, recipe("resnetse152")).to("meta")


def test_the_recipe_names_the_model_and_the_workload_states_its_parameters(largest: ResNetSE) -> None:
    assert parameters(build_model(SIZE, recipe("resnetse34l"))) == 1_437_078
    assert parameters(build_model(SIZE, recipe("resnetse34v2"))) == 8_028_492
    assert parameters(largest) == 76_595_232
    assert WORKLOAD.parameters == 1_437_078
    assert WORKLOAD.variants == {"ResNetSE34V2": 8_028_492, "ResNetSE152": 76_595_232}


def test_optimizer_is_adam_and_passes_its_kernel_on() -> None:
    optimizer = WORKLOAD.parts().optimizer(list(nn.Linear(2, 2).parameters()), {"foreach": True})
    assert isinstance(optimizer, torch.optim.Adam)
    group = optimizer.param_groups[0]
    assert (group["lr"], group["weight_decay"], group["foreach"]) == (1e-3, 0, True)


def test_front_end_gives_202_normalised_frames_without_gradient_and_in_float32() -> None:
    front_end = resnetse34l().front_end
    with torch.autocast("cpu", torch.bfloat16):
        mels = front_end(torch.randn(2, 32_240))
    assert mels.shape == (2, 64, 202)
    assert mels.dtype == torch.float32
    assert not mels.requires_grad
    assert torch.allclose(mels.mean(dim=2), torch.zeros(2, 64), atol=1e-5)


def test_log_input_and_pre_emphasis_change_the_front_end() -> None:
    wave = torch.randn(1, 32_240)
    seen = [FrontEnd(log_input=log, pre_emphasis=emphasis)(wave) for log in (0, 1) for emphasis in (0, 1)]
    assert all(not torch.allclose(one, other) for i, one in enumerate(seen) for other in seen[:i])


def test_pre_emphasis_subtracts_most_of_the_sample_before() -> None:
    found = emphasised(torch.tensor([[1.0, 2.0, 4.0]]))
    torch.testing.assert_close(found, torch.tensor([[1 - 0.97 * 2, 2 - 0.97 * 1, 4 - 0.97 * 2]]))


def shapes(model: ResNetSE) -> list[tuple[int, ...]]:
    """Channels, mels and frames behind the stem and behind every block, for a crop of two seconds."""
    seen: list[tuple[int, ...]] = []
    for layer in (model.stem, *(block for stage in model.stages for block in stage)):
        layer.register_forward_hook(lambda _module, _inputs, output: seen.append(tuple(output.shape[1:])))
    with torch.no_grad():
        assert model.eval()(torch.randn(1, 32_240)).shape == (1, 512)
    return seen


def test_stages_of_34l_have_their_blocks_widths_and_strides() -> None:
    expected = [(16, 32, 202)] * 4 + [(32, 16, 101)] * 4 + [(64, 8, 51)] * 6 + [(128, 8, 51)] * 3
    assert shapes(resnetse34l()) == expected


def test_stages_of_34v2_have_their_blocks_widths_and_strides() -> None:
    expected = [(32, 64, 202)] * 4 + [(64, 32, 101)] * 4 + [(128, 16, 51)] * 6 + [(256, 8, 26)] * 3
    assert shapes(resnetse34v2()) == expected


def test_stages_of_152_have_their_blocks_widths_and_strides(largest: ResNetSE) -> None:
    picture = largest.stem(torch.empty(1, 1, 64, 202, device="meta"))
    seen = [tuple(picture.shape[1:])]
    for stage in largest.stages:
        picture = stage(picture)
        seen.append(tuple(picture.shape[1:]))
    assert [len(stage) for stage in largest.stages] == [3, 8, 36, 3]
    assert seen == [(64, 32, 202), (256, 32, 202), (512, 16, 101), (1024, 8, 51), (2048, 8, 51)]


def kinds(layers: nn.Module) -> list[str]:
    return [type(layer).__name__ for layer in layers.children()]


def test_layers_come_in_the_order_of_the_original() -> None:
    assert kinds(resnetse34l().stem) == ["Conv2d", "BatchNorm2d", "ReLU"]
    assert kinds(resnetse34v2().stem) == ["Conv2d", "ReLU", "BatchNorm2d"]
    assert resnetse34v2().stem[0].bias is not None
    block = ["Conv2d", "ReLU", "BatchNorm2d", "Conv2d", "BatchNorm2d", "SqueezeExcitation"]
    assert kinds(Block(16, 32, (2, 2)).residual) == block
    three = ["Conv2d", "BatchNorm2d", "ReLU"] * 2 + ["Conv2d", "BatchNorm2d", "SqueezeExcitation"]
    assert kinds(Bottleneck(64, 64, (1, 1)).residual) == three
    assert isinstance(Block(16, 16, (1, 1)).shortcut, nn.Identity)
    assert kinds(Block(16, 32, (2, 2)).shortcut) == ["Conv2d", "BatchNorm2d"]


def test_convolutions_begin_with_the_spread_that_relu_keeps() -> None:
    weight = resnetse34v2().stages[3][1].residual[0].weight
    assert weight.std().item() == pytest.approx((2 / (256 * 9)) ** 0.5, rel=0.01)


def test_pooling_of_a_still_picture_gives_its_value_and_no_deviation() -> None:
    picture = torch.randn(2, 8, 4, 1).expand(2, 8, 4, 9)
    frames, bands = FramePooling(8, "asp").eval(), SpectrumPooling(8, 4, "asp").eval()
    mean, deviation = frames(picture).split(8, dim=1)
    torch.testing.assert_close(mean, picture.mean(dim=(2, 3)))
    assert deviation.max() < 5e-3
    mean, deviation = bands(picture).split(32, dim=1)
    torch.testing.assert_close(mean, picture[..., 0].flatten(1))
    assert deviation.max() < 5e-3


def test_pooling_weighs_frames_by_their_attention() -> None:
    pooling = FramePooling(2, "asp")
    with torch.no_grad():
        pooling.project.weight.copy_(torch.eye(2) * 100)
        pooling.project.bias.zero_()
        pooling.attention.copy_(torch.tensor([[math.log(3) / 2], [0.0]]))
    picture = torch.tensor([[[1.0, -1.0]], [[5.0, 7.0]]])[None]  # attention 1/2 log 3 and -1/2 log 3: 3/4 and 1/4
    torch.testing.assert_close(
        pooling(picture), torch.tensor([[0.5, 5.5, math.sqrt(0.75), math.sqrt(0.75)]]), rtol=1e-4, atol=1e-4
    )


def test_checkpointing_keeps_losses_and_gradients_and_runs_every_stage_again() -> None:
    wave, gradients, outputs, calls = torch.randn(2, 32_240), [], [], []
    for checkpointing in (False, True):
        torch.manual_seed(0)
        model = build_model(SIZE, recipe(checkpointing=checkpointing)).train()
        count: list[int] = []
        for stage in model.stages:
            stage[0].register_forward_hook(lambda *_, count=count: count.append(1))
        embeddings = model(wave)
        embeddings.square().sum().backward()
        outputs.append(embeddings.detach())
        gradients.append([one.grad for one in model.parameters()])
        calls.append(len(count))
    assert calls == [4, 8]
    assert torch.equal(*outputs)
    assert all(torch.equal(one, other) for one, other in zip(*gradients, strict=True))


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_every_activation_follows_the_memory_format_of_the_weights(memory_format: torch.memory_format) -> None:
    model = resnetse34l().to(memory_format=memory_format)
    pictures: list[torch.Tensor] = []
    model.stem.register_forward_pre_hook(lambda _module, inputs: pictures.append(inputs[0]))
    for layer in (*model.stem, *model.stages):
        layer.register_forward_hook(lambda _module, _inputs, output: pictures.append(output))
    model(torch.randn(2, 32_240))
    is_last = memory_format == torch.channels_last
    assert [picture.stride(1) == 1 for picture in pictures] == [is_last] * len(pictures)


def test_channels_last_gives_the_same_embeddings() -> None:
    model, wave = resnetse34l().eval(), torch.randn(2, 32_240)
    expected = model(wave)
    torch.testing.assert_close(model.to(memory_format=torch.channels_last)(wave), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("build", [resnetse34l, resnetse34v2])
def test_a_looped_front_end_gives_the_same_spectrograms_one_by_one(build: Callable[[], ResNetSE]) -> None:
    front_end, waves = build().front_end, torch.randn(3, 32_240)
    looped = LoopedFrontEnd(front_end)
    seen: list[int] = []
    front_end.register_forward_hook(lambda _module, inputs, _output: seen.append(len(inputs[0])))
    torch.testing.assert_close(looped(waves), front_end(waves), rtol=1e-5, atol=1e-5)
    assert seen == [1, 1, 1, 3]


def test_the_recipe_chooses_the_looped_front_end() -> None:
    model = build_model(SIZE, recipe("resnetse34l", front_end="looped"))
    assert isinstance(model.front_end, LoopedFrontEnd)
    assert parameters(model) == 1_437_078
