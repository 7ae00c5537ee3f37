"""Habits of a step: each is there when it was asked for, is seen when it is not, and moves no loss."""

import gc
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from harness.core.configuration import compose, expected, parse_option
from harness.core.optimization import Timing
from harness.core.protocol import BRIEF, UNTIMED
from harness.core.recipe import Recipe
from harness.core.workload import Evaluation
from harness.measure import observed_process as evidence
from harness.measure import session, trial
from harness.measure.devices import Device, settle_backend
from harness.measure.loop import (
    Call,
    Diverged,
    GrowingHistory,
    Monitor,
    PreallocatedHistory,
    examined,
    habits_of,
    recording,
)
from harness.measure.session import Task, open_session
from harness.measure.step import PARTS, Bound, marked, marking, plain_step
from harness.measure.update import EagerMetrics, plain_backward
from tests.measure.tasks import CATALOGUE, task_of

CPU, DEVICE = torch.device("cpu"), Device("cpu")
ON_ANY_DEVICE = [
    "monitoring=10",
    "monitoring=50",
    "collect_garbage",
    "garbage_collector_off",
    "anomaly_detection",
    "finite_check",
    "growing_loss_history",
    "preallocated_loss_history",
]


@pytest.fixture(autouse=True)
def _plain_backend_afterwards() -> Iterator[None]:
    """An arm's options belong to its process; these tests share one."""
    yield
    settle_backend(Recipe())


def proof_of(name: str) -> dict[str, Any]:
    option = parse_option(name)
    return expected(CATALOGUE.optimizations[option.name], option.level)


def inactive(task: Task, proof: dict[str, Any], timing: Timing = Timing.STEP) -> tuple[str, ...]:
    begun, ready = trial.begin(task, timing, replace(UNTIMED, loss_steps=3), proof, other_seeds=False)
    begun.session.feed.close()
    found: tuple[str, ...] = ready["inactive"]
    return found


@pytest.mark.parametrize("name", ON_ANY_DEVICE)
def test_a_habit_engages_and_plain_has_none_of_it(name: str, smoke_data: dict[str, Path]) -> None:
    folder, proof = smoke_data["leak"], proof_of(name)
    assert inactive(task_of("leak", folder, (name,)), proof) == ()
    assert len(inactive(task_of("leak", folder, ()), proof)) == len(proof)


def no_habits(_recipe: Recipe, _device: Device) -> tuple[()]:
    return ()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("monitoring=10", "monitoring_steps is None, not 10"),
        ("collect_garbage", "collection_each_step is False, not True"),
        ("growing_loss_history", "loss_history is None, not growing"),
        ("preallocated_loss_history", "loss_history is None, not preallocated"),
    ],
)
def test_a_habit_that_reaches_no_step_is_seen(
    name: str, words: str, smoke_data: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "habits_of", no_habits)
    assert inactive(task_of("leak", smoke_data["leak"], (name,)), proof_of(name)) == (words,)


def test_habits_that_are_held_but_never_called_are_seen(
    smoke_data: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "recording", lambda metrics, _habits: metrics.record)
    for name in ("monitoring=10", "growing_loss_history", "preallocated_loss_history"):
        assert len(inactive(task_of("leak", smoke_data["leak"], (name,)), proof_of(name))) == 1, name


def meddled(task: Task, meddle: Callable[[], object]) -> Task:
    """The same task with a model whose code changes options of the whole process while it is built."""
    build = task.parts.model

    def model(*given: Any) -> nn.Module:
        meddle()
        return build(*given)

    return replace(task, parts=replace(task.parts, model=model))


@pytest.mark.parametrize(
    ("name", "meddle", "words"),
    [
        ("garbage_collector_off", gc.enable, "automatic_collection is True, not False"),
        ("garbage_collector_off", gc.unfreeze, "frozen_objects is False, not True"),
    ],
)
def test_a_switch_that_the_model_s_own_code_turns_back_is_seen(
    name: str, meddle: Callable[[], object], words: str, smoke_data: dict[str, Path]
) -> None:
    task = meddled(task_of("leak", smoke_data["leak"], (name,)), meddle)
    assert inactive(task, proof_of(name)) == (words,)


@pytest.mark.parametrize("meddle", [{"mode": False}, {"mode": True, "check_nan": False}])
def test_what_a_model_s_own_code_sets_of_torch_is_taken_back(
    meddle: dict[str, bool], smoke_data: dict[str, Path]
) -> None:
    task = task_of("leak", smoke_data["leak"], ("anomaly_detection",))
    task = meddled(task, lambda: torch.autograd.set_detect_anomaly(**meddle))
    assert inactive(task, proof_of("anomaly_detection")) == ()


def test_a_check_that_is_left_out_or_does_not_read_the_loss_back_is_seen(
    smoke_data: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "examined", lambda backward, _recipe: backward)
    task = task_of("leak", smoke_data["leak"], ("finite_check",))
    assert inactive(task, proof_of("finite_check")) == ("finite_check is False, not True",)

    def deaf(value: Tensor) -> None:
        torch.isnan(value)  # asked, and the answer left where it lies
        plain_backward(value)

    assert evidence.of_backward(deaf, CPU) == {"finite_check": False}
    assert evidence.of_backward(examined(plain_backward, Recipe(finite_check=True)), CPU) == {"finite_check": True}


def test_a_loss_that_is_no_number_ends_the_step_before_its_gradients_are_made() -> None:
    weight = torch.ones(1, requires_grad=True)
    with pytest.raises(Diverged, match="no longer a number"):
        examined(plain_backward, Recipe(finite_check=True))(weight.sum() * float("nan"))
    assert weight.grad is None
    assert examined(plain_backward, Recipe()) is plain_backward


def test_a_step_without_habits_calls_the_metrics_alone() -> None:
    metrics = EagerMetrics()
    assert recording(metrics, habits_of(Recipe(), DEVICE)) == metrics.record


def test_readings_are_taken_in_the_first_of_every_so_many_steps() -> None:
    taken = []
    monitor = Monitor(3, lambda: taken.append(1) or 1)
    for steps, readings in ((1, 1), (3, 1), (4, 2), (7, 3)):
        while monitor.steps < steps:
            monitor.record(torch.zeros(()))
        assert len(taken) == monitor.readings == readings


def test_a_monitor_that_reads_too_often_or_reads_nothing_is_not_engaged() -> None:
    tally = evidence.tally(DEVICE)

    def seen(monitor: Monitor, steps: int) -> Any:
        return evidence.of_habits((monitor,), tally, tally, steps)["monitoring_steps"]

    assert seen(Monitor(10, lambda: 1, steps=21, readings=3, latest=1), 21) == 10
    assert seen(Monitor(10, lambda: 1, steps=21, readings=21, latest=1), 21) is None
    assert seen(Monitor(10, lambda: 1, steps=20, readings=2, latest=1), 21) is None
    assert seen(Monitor(10, lambda: 0, steps=21, readings=3, latest=0), 21) is None


def test_a_reading_on_a_cpu_tells_of_the_process() -> None:
    (monitor,) = habits_of(Recipe(monitoring_steps=1), DEVICE)
    assert isinstance(monitor, Monitor)
    monitor.record(torch.zeros(()))
    assert monitor.latest > 50 << 20  # torch alone is larger


def test_both_histories_keep_all_losses_and_no_graph() -> None:
    growing, ahead = GrowingHistory(torch.zeros(0)), PreallocatedHistory(torch.zeros(4))
    losses = [float(number) for number in range(11)]
    for loss in losses:
        value = torch.tensor(loss, requires_grad=True) * 1
        growing.record(value)
        ahead.record(value)
    assert growing.losses.tolist() == ahead.losses[: ahead.count].tolist() == losses
    assert len(ahead.losses) == 16
    assert not growing.losses.requires_grad
    assert not ahead.losses.requires_grad


def test_one_history_is_not_taken_for_the_other() -> None:
    tally = evidence.tally(DEVICE)
    for history, kind in (
        (GrowingHistory(torch.zeros(0)), "growing"),
        (PreallocatedHistory(torch.zeros(8)), "preallocated"),
    ):
        for _ in range(3):
            history.record(torch.zeros(()))
        assert evidence.of_habits((history,), tally, tally, 3)["loss_history"] == kind
        assert evidence.of_habits((history,), tally, tally, 4)["loss_history"] is None
    view = GrowingHistory(torch.zeros(8)[:3])  # as long as a grown one, in memory for more
    assert evidence.of_habits((view,), tally, tally, 3)["loss_history"] is None


def test_collections_are_counted_a_step() -> None:
    collect, before = Call(gc.collect), evidence.tally(DEVICE)
    for _ in range(2):
        collect.record(torch.zeros(()))
    after = evidence.tally(DEVICE)
    assert evidence.of_habits((), before, after, 2)["collection_each_step"] is True
    assert evidence.of_habits((), before, after, 3)["collection_each_step"] is False


class Timeline:
    """Ranges as a profiler would draw them."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.open: list[str] = []

    def pop(self) -> None:
        self.lines.append(f"-{self.open.pop()}")


def marked_step(timeline: Timeline, push: Callable[[str], Any], update: Callable[[], None]) -> Callable[[], Tensor]:
    bound = Bound(
        fetch=lambda: (torch.ones(1, 1), torch.zeros(1, 1)),
        transfer=lambda batch: batch,
        model=nn.Linear(1, 1),
        loss=nn.functional.mse_loss,
        autocast=nullcontext,
        backward=plain_backward,
        update=update,
        record=lambda _: None,
    )
    return plain_step(marked(bound, push, timeline.pop))


def test_marks_stand_around_the_parts_of_a_step_and_are_seen() -> None:
    timeline = Timeline()

    def push(name: str) -> None:
        timeline.open.append(name)
        timeline.lines.append(f"+{name}")

    step = marked_step(timeline, push, lambda: None)
    assert evidence.of_marks(step, push) == {"marked_parts": ", ".join(PARTS)}
    assert timeline.lines == [f"{sign}{name}" for name in PARTS for sign in "+-"]


def test_a_range_is_closed_when_its_part_fails() -> None:
    timeline = Timeline()

    def fail() -> None:
        raise RuntimeError("no update")

    with pytest.raises(RuntimeError, match="no update"):
        marked_step(timeline, timeline.open.append, fail)()
    assert timeline.open == []


def test_marks_that_reach_no_step_are_seen() -> None:
    def push(name: str) -> None:
        raise AssertionError(name)

    assert evidence.of_marks(lambda: None, push) == {"marked_parts": ""}
    assert proof_of("nvtx_marks") == {"marked_parts": ", ".join(PARTS)}
    bound = Bound(**dict.fromkeys(("fetch", "transfer", "model", "loss", "autocast", "backward", "update", "record")))
    assert marking(Recipe(), DEVICE)(bound) is bound


def losses_of(name: str, folder: Path, *names: str) -> list[float]:
    task = task_of(name, folder, names)
    settle_backend(task.recipe)
    opened = open_session(task)
    step = opened.step()
    losses = [float(step()) for _ in range(4)]
    opened.feed.close()
    return losses


@pytest.mark.parametrize("name", ["leak", "speaker"])
def test_all_habits_together_keep_every_bit(name: str, smoke_data: dict[str, Path]) -> None:
    habits = ("monitoring=10", "collect_garbage", "anomaly_detection", "finite_check", "growing_loss_history")
    plain = losses_of(name, smoke_data[name])
    assert losses_of(name, smoke_data[name], *habits) == plain
    assert losses_of(name, smoke_data[name], "garbage_collector_off", "preallocated_loss_history") == plain
    assert len(set(plain)) == 4


def by_epochs(name: str, folder: Path, *names: str) -> Task:
    return replace(task_of(name, folder, names), endless=False)


def test_an_evaluation_comes_between_epochs_and_is_counted(smoke_data: dict[str, Path]) -> None:
    task = by_epochs("leak", smoke_data["leak"], "evaluation_interval=3")
    passes = []
    evaluate = task.parts.evaluate

    def counted(model: nn.Module, *given: Any) -> Evaluation:
        passes.append((begun.session.feed.taken if begun else None, model.training))
        return evaluate(model, *given)

    begun = None
    task = replace(task, parts=replace(task.parts, evaluate=counted))
    begun, ready = trial.begin(task, Timing.EPOCH, UNTIMED, proof_of("evaluation_interval=3"), other_seeds=False)
    assert ready["inactive"] == ()
    assert len(passes) == 1
    assert begun.session.feed.taken % task.size.epoch_steps == 0
    window = begun.window(lead=1, steps=1)
    assert len(passes) == 2, "wherever it begins, a window of whole intervals holds one evaluation for each"
    assert passes[1] == (begun.session.feed.taken - 1, False)
    assert window["steps"] == 3 * task.size.epoch_steps
    assert window["samples"] == window["steps"] * task.size.batch
    assert begun.session.trainee.model.training
    assert begun.cycle_steps == 3 * task.size.epoch_steps
    begun.session.feed.close()


def test_an_evaluation_between_epochs_scores_once_where_the_last_one_scores_twice(smoke_data: dict[str, Path]) -> None:
    task = by_epochs("spoof", smoke_data["spoof"], "evaluation_interval=1")
    begun, ready = trial.begin(task, Timing.EPOCH, UNTIMED, proof_of("evaluation_interval=1"), other_seeds=False)
    assert ready["inactive"] == ()
    assert ready["effective"]["scored_times"] == 1
    assert begun.session.evaluate().effective["scored_times"] == 2
    begun.session.feed.close()


def without_items(*_given: Any) -> Evaluation:
    return Evaluation(items=0, score=0.0)


def test_evaluations_that_never_come_or_see_nothing_are_not_engaged(
    smoke_data: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    task, proof = by_epochs("leak", smoke_data["leak"], "evaluation_interval=1"), proof_of("evaluation_interval=1")
    words = ("evaluation_epochs is None, not 1",)
    empty = replace(task, parts=replace(task.parts, evaluate=without_items))
    assert inactive(empty, proof, Timing.EPOCH) == words
    plain = replace(task, recipe=compose(CATALOGUE.workloads["leak"], (), CATALOGUE.optimizations))
    assert inactive(plain, proof, Timing.EPOCH) == words
    monkeypatch.setattr(trial.Interlude, "after", lambda _self, step: step)
    assert inactive(task, proof, Timing.EPOCH) == words


def test_an_evaluation_in_every_epoch_is_not_one_in_every_third(
    smoke_data: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    task, proof = by_epochs("leak", smoke_data["leak"], "evaluation_interval=3"), proof_of("evaluation_interval=3")
    eager = trial.Interlude

    def too_often(*, session: Any, batches: int) -> Any:
        return eager(session=session, batches=batches // 3)

    monkeypatch.setattr(trial, "Interlude", too_often)
    assert inactive(task, proof, Timing.EPOCH) == ("evaluation_epochs is 1, not 3",)


@pytest.mark.parametrize("name", sorted(CATALOGUE.workloads))
def test_an_evaluation_between_two_steps_changes_no_loss(name: str, smoke_data: dict[str, Path]) -> None:
    found = []
    for evaluating in (False, True):
        opened = open_session(by_epochs(name, smoke_data[name]))
        step = opened.step()
        losses = [float(step())]
        if evaluating:
            opened.evaluate()
        losses.append(float(step()))
        opened.feed.close()
        found.append(losses)
    assert found[0] == found[1]


@pytest.mark.parametrize("name", sorted(CATALOGUE.workloads))
def test_an_evaluation_leaves_the_global_generator_alone(name: str, smoke_data: dict[str, Path]) -> None:
    opened = open_session(by_epochs(name, smoke_data[name]))
    before = torch.get_rng_state()
    opened.evaluate()
    assert torch.equal(torch.get_rng_state(), before)


def test_bursts_of_an_arm_that_evaluates_are_as_long_as_they_seem(smoke_data: dict[str, Path]) -> None:
    task = by_epochs("leak", smoke_data["leak"], "evaluation_interval=1")
    plain = by_epochs("leak", smoke_data["leak"])
    step_s: dict[bool, list[float]] = {True: [], False: []}
    for one in (task, plain) * 2:  # the faster of two: something else may have a core for a moment
        begun, ready = trial.begin(one, Timing.EPOCH, BRIEF, {}, other_seeds=False)
        step_s[one is task].append(ready["step_s"])
        begun.session.feed.close()
    assert min(step_s[True]) > min(step_s[False])  # its share of the evaluation is in it
