"""Ranks as one of two sees them: weights that are averaged or sharded; real ones are in tests/run/test_ranks.py."""

import sys
from types import SimpleNamespace
from typing import cast

import pytest
import torch
from torch import Tensor, nn

from harness.core.recipe import AVERAGED_EVERY, Recipe
from harness.measure import ranks, update
from harness.measure.ranks import averager_of, shard_weights
from harness.measure.session import repeated_blocks
from harness.measure.update import WeightAverage, update_of

RECIPE = Recipe(ranks=2, communication_hook="post_local_sgd", set_to_none=True)


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another rank whose weights are all 4."""

    def reduce(flat: Tensor) -> None:
        flat += 4.0 / 2

    monkeypatch.setattr(ranks, "_count", lambda: 2)
    monkeypatch.setattr(ranks.dist, "all_reduce", reduce)


@pytest.mark.usefixtures("two")
def test_weights_are_averaged_in_their_place_and_without_gradients() -> None:
    layer, frozen = nn.Conv2d(2, 3, 2).to(memory_format=torch.channels_last), nn.Parameter(torch.ones(2), False)
    before, place = layer.weight.detach().clone(), layer.weight.data_ptr()
    average = averager_of([*layer.parameters(), frozen], RECIPE)
    assert average is not None
    average()
    assert layer.weight.grad is None
    torch.testing.assert_close(layer.weight, before / 2 + 2)
    assert layer.weight.data_ptr() == place
    assert layer.weight.is_contiguous(memory_format=torch.channels_last)
    assert frozen.tolist() == [1.0, 1.0]


@pytest.mark.usefixtures("two")
def test_every_fourth_update_averages_beginning_with_the_first() -> None:
    weight = nn.Parameter(torch.zeros(1))
    average = averager_of([weight], RECIPE)
    assert average is not None
    found = []
    for _ in range(2 * AVERAGED_EVERY):
        average()
        found.append(weight.item())
    assert found == [2.0] * AVERAGED_EVERY + [3.0] * AVERAGED_EVERY


@pytest.mark.usefixtures("two")
def test_a_moving_average_follows_what_the_ranks_have_in_common(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[WeightAverage] = []

    class Kept(WeightAverage):
        def follow(self) -> None:
            made.append(self)
            super().follow()

    monkeypatch.setattr(update, "WeightAverage", Kept)
    weight = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    step = update_of(optimizer, RECIPE, average_decay=0.5, average_ranks=averager_of([weight], RECIPE))
    weight.grad = torch.full((1,), -2.0)
    step()
    assert (weight.item(), weight.grad) == (3.0, None)
    assert made[0].averages[0].item() == 1.5
    assert made[0].weights[0].data_ptr() == weight.data_ptr()


def test_where_gradients_are_reduced_nothing_is_averaged() -> None:
    assert averager_of([nn.Parameter(torch.zeros(1))], Recipe(ranks=2)) is None


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        return cast("torch.Tensor", self.layer(given))


def test_weights_are_gathered_by_block_then_by_child_then_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    parts: list[nn.Module] = []
    fsdp = SimpleNamespace(fully_shard=lambda part, **_: parts.append(part), MixedPrecisionPolicy=lambda *_: None)
    monkeypatch.setitem(sys.modules, "torch.distributed.fsdp", fsdp)
    recipe = Recipe(ranks=2, sharded_weights="kept")
    stages = nn.ModuleList([nn.Sequential(Block(), Block()), nn.Sequential(Block(), Block())])
    model = nn.Sequential(nn.Linear(2, 2), stages, nn.ReLU())
    shard_weights(model, repeated_blocks(model), recipe, mixed=True)
    assert parts == [*stages[0], *stages[1], model[0], model], "neither a list nor what has no weights"
    parts.clear()
    row = nn.Sequential(Block(), Block())
    shard_weights(row, repeated_blocks(row), recipe, mixed=True)
    assert parts == [*row, row], "each of them once"
