"""Evidence is observed: a setting that was asked for and did not take effect is seen not to have."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from harness.core.configuration import inactive
from harness.core.recipe import Recipe
from harness.core.workload import Size
from harness.measure import observed_step as evidence
from harness.measure.devices import effective_backend, settle_backend
from harness.measure.feed import open_feed
from harness.measure.observed_process import of_feed
from harness.measure.session import autocast_for

CPU = torch.device("cpu")
SIZE = Size(batch=4, epoch_steps=3, evaluation_items=1, data_bytes=0, shape={}, original_epoch_steps=3)
Numbers = TensorDataset(torch.arange(12.0).reshape(12, 1), torch.arange(12))


def network() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3))


def seen(model: nn.Module, recipe: Recipe, images: Tensor) -> dict[str, Any]:
    with evidence.watching(model) as watch, torch.no_grad(), autocast_for(CPU, recipe)():
        model(images)
    return evidence.of_step(watch)


def test_channels_last_is_seen_in_the_outputs_of_every_layer() -> None:
    model = network().to(memory_format=torch.channels_last)
    images = torch.rand(2, 3, 8, 8).to(memory_format=torch.channels_last)
    assert seen(model, Recipe(), images)["memory_format"] == "channels_last"
    assert seen(network(), Recipe(), torch.rand(2, 3, 8, 8))["memory_format"] == "contiguous"


def test_a_model_that_never_becomes_channels_last_is_not_engaged() -> None:
    class Back(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, inputs: Tensor) -> Tensor:
            return self.layer(inputs.contiguous())

    model = Back().to(memory_format=torch.channels_last)
    images = torch.rand(2, 3, 8, 8).to(memory_format=torch.channels_last)
    shown = seen(model, Recipe(channels_last=True), images)
    assert inactive({"memory_format": "channels_last"}, shown) == ("memory_format is contiguous, not channels_last",)


def test_pixels_that_pass_through_linear_layers_leave_convolutions_channels_last() -> None:
    """As in ConvNeXt: a linear layer over the last of four dimensions has no layout of pictures."""

    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convolution, self.linear = nn.Conv2d(3, 4, 3), nn.Linear(4, 4)

        def forward(self, inputs: Tensor) -> Tensor:
            return self.linear(self.convolution(inputs).permute(0, 2, 3, 1).contiguous())

    model = Mixed().to(memory_format=torch.channels_last)
    images = torch.rand(2, 3, 8, 8).to(memory_format=torch.channels_last)
    assert seen(model, Recipe(), images)["memory_format"] == "channels_last"


def test_layers_that_give_several_tensors_are_passed_over() -> None:
    class Two(nn.Linear):
        def forward(self, inputs: Tensor) -> Any:
            return super().forward(inputs), inputs

    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = Two(4, 4)

        def forward(self, inputs: Tensor) -> Tensor:
            return self.layer(inputs)[0]  # type: ignore[no-any-return]

    assert seen(Masked(), Recipe(), torch.rand(2, 4))["layer_dtypes"] == ""


def test_autocast_is_seen_in_the_types_that_layers_give() -> None:
    recipe = Recipe(autocast="bfloat16")
    images = torch.rand(2, 3, 8, 8)
    assert seen(network(), recipe, images)["bfloat16_layers"] is True
    assert seen(network(), Recipe(), images)["bfloat16_layers"] is False


def test_autocast_on_a_model_that_switches_it_off_is_not_engaged() -> None:
    class Float32(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, inputs: Tensor) -> Tensor:
            with torch.autocast("cpu", enabled=False):
                return self.layer(inputs.float())

    shown = seen(Float32(), Recipe(autocast="bfloat16"), torch.rand(2, 4))
    assert inactive({"bfloat16_layers": True}, shown)


@pytest.mark.parametrize("kernel", ["loop", "foreach", "fused"])
def test_the_optimizer_s_kernel_is_read_from_the_optimizer(kernel: str) -> None:
    parameter = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.AdamW([parameter], foreach=kernel == "foreach", fused=kernel == "fused")
    assert evidence.of_optimizer(optimizer)["optimizer_kernel"] == kernel


@pytest.mark.parametrize("to_none", [True, False])
def test_gradients_tell_how_they_were_cleared(to_none: bool) -> None:
    parameter = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    parameter.sum().backward()
    optimizer.zero_grad(set_to_none=to_none)
    assert evidence.of_optimizer(optimizer)["set_to_none"] is to_none


def test_workers_forced_back_to_zero_are_not_engaged() -> None:
    feed = open_feed(Numbers, SIZE, Recipe(workers=0), seed=0, endless=True)
    feed.fetch()
    shown = of_feed(feed, pinned=False, non_blocking=False)
    assert inactive({"workers": 4}, shown) == ("workers is 0, not 4",)


def test_dead_workers_are_not_counted() -> None:
    feed = open_feed(Numbers, SIZE, Recipe(workers=2), seed=0, endless=True)
    feed.fetch()
    assert of_feed(feed, pinned=False, non_blocking=False)["workers"] == 2
    feed.iterator._workers[0].terminate()
    feed.iterator._workers[0].join()
    assert of_feed(feed, pinned=False, non_blocking=False)["workers"] == 1
    feed.close()


def test_a_pinned_flag_without_pinned_source_does_not_overlap_copies() -> None:
    feed = open_feed(Numbers, SIZE, Recipe(), seed=0, endless=True)
    feed.fetch()
    assert of_feed(feed, pinned=False, non_blocking=True)["overlapping_copies"] is False
    assert of_feed(feed, pinned=True, non_blocking=True)["overlapping_copies"] is True


def test_an_evaluation_item_by_item_is_not_batched() -> None:
    model = nn.Linear(2, 2)
    for count, batched in ((6, False), (2, True)):
        with evidence.watching(model) as watch, torch.inference_mode():
            for _ in range(count):
                model(torch.rand(6 // count, 2))
        assert evidence.of_evaluation(watch, items=6) == {
                "inference_mode": True, "batched_evaluation": batched, "evaluation_autocast": None,
            }  # fmt: skip


def test_no_grad_is_not_inference_mode() -> None:
    model = nn.Linear(2, 2)
    with evidence.watching(model) as watch, torch.no_grad():
        model(torch.rand(1, 2))
    assert evidence.of_evaluation(watch, items=1)["inference_mode"] is False


def test_the_backend_is_set_and_read_back() -> None:
    options = {"matmul_precision": "high", "tf32_convolutions": True, "cudnn_benchmark": True}
    settle_backend(Recipe(threads=1, **options))
    assert effective_backend().items() >= {"threads": 1, "cudnn_deterministic": False, **options}.items()
    settle_backend(Recipe(threads=1))
    assert effective_backend()["matmul_precision"] == "highest"
    assert not any(effective_backend()[name] for name in ("tf32_convolutions", "cudnn_benchmark"))


def test_an_effect_that_nobody_reports_is_not_engaged() -> None:
    assert inactive({"novelty": True}, {}) == ("novelty is not reported, not True",)
