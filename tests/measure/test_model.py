"""What a recipe makes of a model, and that layers which do not follow are seen."""

from copy import deepcopy

import pytest
import torch
from torch import Tensor, nn

from harness.core.configuration import inactive
from harness.core.recipe import Recipe
from harness.measure import observed_step as evidence
from harness.measure.session import repeated_blocks, shaped

VOLUMES = torch.rand(2, 4, 6, 6, 6)


def seen(model: nn.Module, inputs: Tensor) -> dict[str, object]:
    with evidence.watching(model) as watch, torch.no_grad():
        model(inputs)
    return dict(evidence.of_step(watch))


def volumetric() -> nn.Sequential:
    return nn.Sequential(nn.Conv3d(4, 8, 3), nn.InstanceNorm3d(8), nn.ReLU(), nn.Conv3d(8, 8, 3))


def test_convolutions_of_volumes_compute_channels_last_whatever_the_norms_between_do() -> None:
    plain = volumetric()
    assert seen(plain, VOLUMES)["memory_format_3d"] == "contiguous"
    model = shaped(deepcopy(plain), Recipe(channels_last_3d=True))
    inputs = VOLUMES.to(memory_format=torch.channels_last_3d)
    assert seen(model, inputs)["memory_format_3d"] == "channels_last_3d"
    torch.testing.assert_close(model(inputs), plain(VOLUMES))


def test_a_model_whose_weights_go_back_is_not_channels_last() -> None:
    model = shaped(volumetric(), Recipe(channels_last_3d=True))
    for layer in (model[0], model[3]):
        layer.weight.data = layer.weight.data.contiguous()
    found = inactive({"memory_format_3d": "channels_last_3d"}, seen(model, VOLUMES))
    assert found == ("memory_format_3d is contiguous, not channels_last_3d",)


def test_one_convolution_in_the_old_layout_is_enough() -> None:
    model = shaped(volumetric(), Recipe(channels_last_3d=True))
    model[3].weight.data = model[3].weight.data.contiguous()
    assert seen(model, VOLUMES.to(memory_format=torch.channels_last_3d))["memory_format_3d"] == "contiguous"


@pytest.mark.parametrize("name", ["channels_last", "channels_last_3d"])
def test_a_model_with_images_and_volumes_changes_only_those_it_is_asked_to(name: str) -> None:
    model = shaped(nn.ModuleList([nn.Conv2d(3, 4, 3), nn.Conv3d(3, 4, 3)]), Recipe(**{name: True}))
    changed = [not layer.weight.is_contiguous() for layer in model]
    assert changed == [name == "channels_last", name == "channels_last_3d"]


@pytest.mark.parametrize("activation", [nn.ReLU, nn.ReLU6, nn.LeakyReLU])
def test_activations_overwrite_their_input_and_give_the_same_bits(activation: type[nn.Module]) -> None:
    gradients, plain = [], nn.Sequential(nn.Linear(4, 4), activation(), nn.Linear(4, 1))
    inputs = torch.randn(8, 4)
    for asked in (False, True):
        model = shaped(plain, Recipe(in_place_activations=asked))
        assert seen(model, inputs)["in_place_activations"] is asked
        plain.zero_grad()
        model(inputs).sum().backward()
        gradients.append(model[0].weight.grad.clone())
    assert torch.equal(gradients[0], gradients[1])


class Deaf(nn.ReLU):
    """Takes the flag and does not look at it."""

    def forward(self, inputs: Tensor) -> Tensor:
        return nn.functional.relu(inputs)


@pytest.mark.parametrize("model", [nn.Sequential(nn.Linear(4, 4), Deaf()), nn.Sequential(nn.Linear(4, 4), nn.Mish())])
def test_activations_that_ignore_the_flag_or_cannot_overwrite_are_not_engaged(model: nn.Sequential) -> None:
    shown = seen(shaped(model, Recipe(in_place_activations=True)), torch.rand(2, 4))
    assert inactive({"in_place_activations": True}, shown) == ("in_place_activations is False, not True",)


def test_one_activation_that_does_not_overwrite_is_enough() -> None:
    model = shaped(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), Deaf()), Recipe(in_place_activations=True))
    assert seen(model, torch.rand(2, 4))["in_place_activations"] is False


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.layer(inputs).relu()


class Bare(nn.Sequential):
    """A name of its own, and the code of any Sequential."""


class Pair(nn.Sequential):
    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs) + inputs


def test_repeated_blocks_are_the_outermost_and_neither_layers_nor_bare_containers() -> None:
    stage = [nn.Sequential(Block(), Block()) for _ in range(2)]
    last = nn.ModuleList([Pair(Block(), Block()), Pair()])
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), *stage, last, Block())
    assert list(repeated_blocks(model)) == [*stage[0], *stage[1], *last[0]]
    twice = nn.ModuleList([Pair(Block(), Block()), Pair(Block())])
    assert list(repeated_blocks(nn.Sequential(twice))) == list(twice)
    assert list(repeated_blocks(nn.Sequential(nn.Linear(4, 4), Block()))) == []
    bare = nn.Sequential(Bare(Block(), Block()), Bare(Block()))
    assert list(repeated_blocks(bare)) == list(bare[0])
