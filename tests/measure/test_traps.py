"""Settings that quietly do nothing are seen on the running arm, and the setting is named."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from harness.core.configuration import Configuration, Option
from harness.core.optimization import Timing
from harness.core.protocol import UNTIMED
from harness.core.recipe import Value, patched
from harness.core.workload import Evaluation, Size
from harness.measure import session, trial
from harness.measure.feed import Feed, open_feed
from harness.measure.session import Task
from tests.measure.tasks import task_at, task_of


def inactive(task: Task, proof: dict[str, Any]) -> tuple[str, ...]:
    begun, ready = trial.begin(task, Timing.STEP, UNTIMED, proof, other_seeds=False)
    begun.session.feed.close()
    found: tuple[str, ...] = ready["inactive"]
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
    assert inactive(task, {"bfloat16_layers": True}) == ()
    build = task.parts.model
    stubborn = replace(task, parts=replace(task.parts, model=lambda size, recipe: Stubborn(build(size, recipe))))
    assert inactive(stubborn, {"bfloat16_layers": True}) == ("bfloat16_layers is False, not True",)


def test_a_scaler_without_half_precision_is_seen_for_what_it_is(smoke_data: dict[str, Path]) -> None:
    task = task_of("leak", smoke_data["leak"], ("gradient_scaling",))
    proof = {"gradient_scaling": True, "float16_layers": True}
    assert inactive(task, proof) == ("float16_layers is False, not True",)


def test_workers_that_silently_fall_back_to_none_are_seen(
    smoke_data: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    task = task_of("leak", smoke_data["leak"], ("workers=2",))
    assert inactive(task, {"workers": 2}) == ()

    def without(dataset: Any, size: Size, recipe: Any, seed: int, **keywords: Any) -> Feed:
        return open_feed(dataset, size, patched(recipe, {"workers": 0}), seed, **keywords)

    fallen_back: Callable[..., Feed] = without
    monkeypatch.setattr(session, "open_feed", fallen_back)
    assert inactive(task, {"workers": 2}) == ("workers is 0, not 2",)


@pytest.mark.parametrize("way", [pytest.param("spawn", marks=pytest.mark.thorough), "forkserver"])
def test_the_start_method_is_seen(way: str, smoke_data: dict[str, Path]) -> None:
    task = task_of("leak", smoke_data["leak"], ("workers=1", f"start_method={way}"))
    assert inactive(task, {"start_method": way, "workers": 1}) == ()


def test_workers_of_an_evaluation_that_do_not_start_or_do_not_stay_are_seen(
    smoke_data: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("evaluation_workers=2", "evaluation_persistent_workers")
    task = task_of("leak", smoke_data["leak"], names)
    proof: dict[str, Value] = {"evaluation_workers": 2, "evaluation_persistent_workers": True}

    def missing() -> tuple[str, ...]:
        begun, ready = trial.begin(task, Timing.EVALUATION, UNTIMED, proof, other_seeds=False)
        begun.session.feed.close()
        found: tuple[str, ...] = ready["inactive"]
        return found

    assert missing() == ()
    honest = DataLoader.__init__

    def forgetful(loader: Any, *given: Any, **keywords: Any) -> None:
        honest(
            loader, *given, **{**keywords, "num_workers": min(1, keywords["num_workers"]), "persistent_workers": False}
        )

    monkeypatch.setattr("workloads._evaluation_reading.DataLoader.__init__", forgetful)
    assert missing() == (
        "evaluation_workers is 1, not 2", "evaluation_persistent_workers is False, not True",
    )  # fmt: skip


@pytest.mark.parametrize("stays", [True, False])
def test_workers_that_stay_begin_before_read_backs_are_counted(smoke_data: dict[str, Path], *, stays: bool) -> None:
    task = task_of("leak", smoke_data["leak"], ("evaluation_workers=1", *["evaluation_persistent_workers"] * stays))
    evaluate, counted = task.parts.evaluate, list[bool]()

    def noted(*given: Any) -> Evaluation:
        counted.append(torch.overrides._get_current_function_mode() is not None)
        return evaluate(*given)

    task = replace(task, parts=replace(task.parts, evaluate=noted))
    begun, _ = trial.begin(task, Timing.EVALUATION, UNTIMED, {}, other_seeds=False)
    begun.session.feed.close()
    assert counted.index(True) == int(stays)
    assert sum(counted) == 1


LARGER = Configuration(workload="leak", size="smoke", batch=128, options=(Option(name="batch_scale", level=2),))


def test_a_larger_batch_that_comes_in_parts_is_seen(
    smoke_data: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    task, proof = task_at(LARGER, smoke_data["leak"]), {"micro_batches": 1, "whole_batches": True}
    assert inactive(task, proof) == ()

    def halved(dataset: Any, size: Size, recipe: Any, seed: int, *, endless: bool, pin: Any) -> Feed:
        return open_feed(dataset, replace(size, batch=size.batch // 2), recipe, seed, endless=endless, pin=pin)

    monkeypatch.setattr(session, "open_feed", halved)
    assert inactive(task, proof) == ("whole_batches is False, not True",)
    in_parts = replace(task, recipe=patched(task.recipe, {"micro_batches": 2}))
    assert inactive(in_parts, {"micro_batches": 1}) == ("micro_batches is 2, not 1",)


@pytest.mark.parametrize(("parts", "each"), [(1, 128), (2, 64)])
def test_another_batch_is_seen_in_one_piece_and_in_parts_that_add_up(
    parts: int, each: int, smoke_data: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = (Option(name="gradient_accumulation", level=parts),) if parts > 1 else ()
    task = task_at(replace(LARGER, options=options), smoke_data["leak"])
    proof: dict[str, Value] = {"update_samples": 128, "micro_batches": parts}
    assert inactive(task, proof) == ()

    def usual(dataset: Any, size: Size, recipe: Any, seed: int, *, endless: bool, pin: Any) -> Feed:
        return open_feed(dataset, replace(size, batch=size.batch // 2), recipe, seed, endless=endless, pin=pin)

    monkeypatch.setattr(session, "open_feed", usual)
    assert inactive(task, proof) == (f"update_samples is {parts * each // 2}, not 128",)


def test_batches_that_add_up_leave_the_gradients_of_one_large_batch(smoke_data: dict[str, Path]) -> None:
    """Without batch normalisation, and with a loss that weighs all samples alike, the sum of parts is the whole."""
    gradients = []
    for options in ((), (Option(name="gradient_accumulation", level=4),)):
        task = task_at(replace(LARGER, batch=256, options=options), smoke_data["leak"])
        parts = replace(
            task.parts, model=lambda *_: Flat(), loss=lambda *_: nn.CrossEntropyLoss(), clip_norm=None,
            optimizer=lambda parameters, kernel: torch.optim.SGD(parameters, lr=1.0, **kernel),
        )  # fmt: skip
        opened = session.open_session(replace(task, parts=parts))
        before = [one.detach().clone() for one in opened.trainee.model.parameters()]
        opened.step()()
        moved = [one.detach() - old for one, old in zip(opened.trainee.model.parameters(), before, strict=True)]
        gradients.append(torch.cat([one.flatten() for one in moved]))
        opened.feed.close()
    assert gradients[0].abs().max() > 0
    torch.testing.assert_close(gradients[1], gradients[0])


class Flat(nn.Module):
    """A linear classifier of the workload's five classes."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.LazyLinear(5)
        self.linear(torch.zeros(1, 64))

    def forward(self, inputs: Tensor) -> Tensor:
        found: Tensor = self.linear(inputs.flatten(1))
        return found


def test_a_learning_rate_that_does_not_follow_the_batch_is_seen(
    smoke_data: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    linear = replace(LARGER, options=(*LARGER.options, Option(name="linear_learning_rate")))
    task, proof = task_at(linear, smoke_data["leak"]), {"learning_rate_rule": "linear"}
    assert inactive(task, proof) == ()
    for factor, rule in ((1, "fixed"), (3, "another")):

        def deaf(parts: Any, parameters: Any, recipe: Any, factor: int = factor) -> torch.optim.Optimizer:
            optimizer: torch.optim.Optimizer = parts.optimizer(parameters, {"foreach": False})
            optimizer.param_groups[0]["lr"] *= factor
            return optimizer

        monkeypatch.setattr(session, "optimizer_of", deaf)
        assert inactive(task, proof) == (f"learning_rate_rule is {rule}, not linear",)


def test_a_fused_optimizer_that_falls_back_is_seen(smoke_data: dict[str, Path]) -> None:
    task, proof = task_of("leak", smoke_data["leak"], ("fused_optimizer",)), {"optimizer_kernel": "fused"}
    assert inactive(task, proof) == ()
    build = task.parts.optimizer
    fallen_back = replace(task.parts, optimizer=lambda ones, kernel: build(ones, {**kernel, "fused": False}))
    assert inactive(replace(task, parts=fallen_back), proof) == ("optimizer_kernel is loop, not fused",)


def test_activations_that_are_told_nothing_are_seen(
    smoke_data: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    task, proof = task_of("leak", smoke_data["leak"], ("in_place_activations",)), {"in_place_activations": True}
    assert inactive(task, proof) == ()
    monkeypatch.setattr(session, "overwrite_inputs", lambda _: None)
    assert inactive(task, proof) == ("in_place_activations is False, not True",)
