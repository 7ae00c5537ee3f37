"""Settings that quietly do nothing are seen on the running arm, and the setting is named."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from harness.core.optimization import Timing
from harness.core.recipe import patched
from harness.core.workload import Size
from harness.measure import session, trial
from harness.measure.feed import Feed, open_feed
from harness.measure.learning import UNTIMED
from harness.measure.session import Task
from tests.measure.tasks import task_of


def unengaged(task: Task, proof: dict[str, Any]) -> tuple[str, ...]:
    begun, ready = trial.begin(task, Timing.STEP, UNTIMED, proof, is_reference=False)
    begun.session.feed.close()
    found: tuple[str, ...] = ready["unengaged"]
    return found


class Stubborn(nn.Module):
    """Computes in float32 whatever it is told, as a system did whose precision flag reached no autocast."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Tensor) -> Any:
        with torch.autocast("cpu", enabled=False):
            return self.model(inputs)


def test_a_precision_flag_that_does_nothing_is_not_engaged(smoke_data: dict[str, Path]) -> None:
    task = task_of("leak", smoke_data["leak"], ("amp_bfloat16",))
    assert unengaged(task, {"bfloat16_layers": True}) == ()
    build = task.parts.model
    stubborn = replace(task, parts=replace(task.parts, model=lambda size, recipe: Stubborn(build(size, recipe))))
    assert unengaged(stubborn, {"bfloat16_layers": True}) == ("bfloat16_layers is False, not True",)


def test_a_scaler_without_half_precision_is_seen_for_what_it_is(smoke_data: dict[str, Path]) -> None:
    task = task_of("leak", smoke_data["leak"], ("gradient_scaling",))
    proof = {"gradient_scaling": True, "float16_layers": True}
    assert unengaged(task, proof) == ("float16_layers is False, not True",)


def test_workers_that_silently_fall_back_to_none_are_seen(
    smoke_data: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    task = task_of("leak", smoke_data["leak"], ("workers=2",))
    assert unengaged(task, {"workers": 2}) == ()

    def without(dataset: Any, size: Size, recipe: Any, seed: int, *, endless: bool) -> Feed:
        return open_feed(dataset, size, patched(recipe, {"workers": 0}), seed, endless=endless)

    fallen_back: Callable[..., Feed] = without
    monkeypatch.setattr(session, "open_feed", fallen_back)
    assert unengaged(task, {"workers": 2}) == ("workers is 0, not 2",)


@pytest.mark.parametrize("way", ["spawn", "forkserver"])
def test_the_start_method_is_seen(way: str, smoke_data: dict[str, Path]) -> None:
    task = task_of("leak", smoke_data["leak"], ("workers=1", f"start_method={way}"))
    assert unengaged(task, {"start_method": way, "workers": 1}) == ()
