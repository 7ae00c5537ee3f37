"""Weights updated during the backward pass: the same bits, no gradients left, and refused where it cannot be."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from harness.core.configuration import inactive
from harness.core.recipe import ImpossibleRecipe, Recipe, Value, patched
from harness.measure import update
from harness.measure.observed_step import of_training
from harness.measure.phases import HostPhases
from harness.measure.session import open_session, open_trainee
from harness.measure.update import update_of
from tests.measure.tasks import task_of

PROOF = {"update_in_backward": True}
REFUSED = pytest.raises(ImpossibleRecipe, match="needs a system without clipping and without averaged weights")

optimizers = pytest.mark.parametrize(
    "build",
    [
        lambda groups: torch.optim.SGD(groups, lr=0.1, momentum=0.9),
        lambda groups: torch.optim.AdamW(groups, lr=0.1, foreach=False),
        lambda groups: torch.optim.Adam(groups, lr=0.1, fused=True),
    ],
)


def trained(build: Callable[..., torch.optim.Optimizer], recipe: Recipe, steps: int = 4) -> list[torch.Tensor]:
    """The weights after a few steps of a network whose biases have settings of their own."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))
    weights, biases = ([one for one in model.parameters() if one.dim() == dimensions] for dimensions in (2, 1))
    optimizer = build([{"params": weights, "weight_decay": 0.5}, {"params": biases, "lr": 0.01, "weight_decay": 0.0}])
    finish = update_of(optimizer, recipe)
    for _ in range(steps):
        torch.autograd.backward(model(torch.rand(8, 3)).square().mean())
        if recipe.update_in_backward:
            assert all(one.grad is None for one in model.parameters())
        finish()
    return [one.detach() for one in model.parameters()]


@optimizers
def test_the_weights_are_the_same_to_the_last_bit(build: Callable[..., torch.optim.Optimizer]) -> None:
    plain, early = trained(build, Recipe()), trained(build, Recipe(update_in_backward=True))
    assert all(torch.equal(one, other) for one, other in zip(plain, early, strict=True))
    assert not any(torch.equal(one, other) for one, other in zip(plain, trained(build, Recipe(), steps=3), strict=True))


@pytest.mark.parametrize(("clip_norm", "average_decay"), [(1.0, None), (None, 0.9)])
def test_gradients_that_are_wanted_together_refuse_it(clip_norm: float | None, average_decay: float | None) -> None:
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1)
    with REFUSED:
        update_of(optimizer, Recipe(update_in_backward=True), None, clip_norm, average_decay)


@pytest.mark.parametrize(("workload", "found"), [("speaker", nullcontext()), ("leak", REFUSED), ("patches3d", REFUSED)])
def test_a_system_that_clips_or_averages_refuses_it(
    workload: str, found: AbstractContextManager[object], smoke_data: dict[str, Path]
) -> None:
    task = task_of(workload, smoke_data[workload], ())
    with found:
        open_trainee(replace(task, recipe=patched(task.recipe, {"update_in_backward": True})), HostPhases())


def shown(folder: Path, *names: str) -> dict[str, Value]:
    session = open_session(task_of("speaker", folder, names))
    return of_training(session.trainee, session.feed.fetch())


def test_it_is_seen_on_the_weights_and_their_gradients(smoke_data: dict[str, Path]) -> None:
    assert inactive(PROOF, shown(smoke_data["speaker"], "update_in_backward")) == ()
    assert inactive(PROOF, shown(smoke_data["speaker"], "set_to_none")) == ("update_in_backward is False, not True",)


def test_hooks_that_never_run_are_not_engaged(smoke_data: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(update, "updated_in_backward", lambda _: update.nothing_left)
    found = shown(smoke_data["speaker"], "update_in_backward")
    assert inactive(PROOF, found) == ("update_in_backward is False, not True",)


def test_weights_that_are_not_trained_are_left_alone() -> None:
    model = nn.Linear(3, 1)
    model.bias.requires_grad_(requires_grad=False)
    weight, bias = (one.detach().clone() for one in model.parameters())
    finish = update_of(torch.optim.SGD(model.parameters(), lr=0.1), Recipe(update_in_backward=True))
    torch.autograd.backward(model(torch.ones(2, 3)).square().mean())
    finish()
    assert torch.equal(model.bias, bias)
    assert not torch.equal(model.weight, weight)
