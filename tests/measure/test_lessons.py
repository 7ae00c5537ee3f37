"""Lessons: learning rates that move as they should, and range tests of trainings whose greatest rate is known."""

import math
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from queue import Queue
from threading import Thread

import pytest
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.utils.data import Dataset

from harness.analyze.rates import agreed, found_in, smoothed
from harness.catalogue import read_catalogue
from harness.core.mistake import Mistake
from harness.core.protocol import Protocol
from harness.core.recipe import Recipe
from harness.core.records import Bounds
from harness.core.workload import Evaluation, Goal, Parts, Ranged, Size, Trained
from harness.measure.devices import device_named
from harness.measure.lessons import _steps, learn, range_test, train_again, train_until
from harness.measure.session import Task, open_session
from harness.report.rates import figure, sentences

STEPS, INPUTS = 120, 8
EVALUATED = Evaluation(items=1, score=0.5)


class Line(Dataset[tuple[Tensor, Tensor]]):
    """Inputs of a given size in independent directions, and what a line makes of them: a loss of known curvature."""

    def __init__(self, scale: float) -> None:
        drawn = torch.Generator().manual_seed(1)
        self.inputs = scale * torch.randn(256, INPUTS, generator=drawn)
        self.targets = self.inputs @ torch.ones(INPUTS, 1)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.inputs[index], self.targets[index]


def task_with(scale: float = 1.0, rates: list[float] | None = None, **choices: object) -> Task:
    """Gradient descent on a squared error, whose curvature in every direction is 2 scale²: beyond 1/scale² it grows."""

    def optimizer(parameters: list[nn.Parameter], _kernel: object) -> torch.optim.Optimizer:
        made = torch.optim.SGD(parameters, lr=1e-3)
        if rates is not None:
            made.register_step_pre_hook(lambda one, *_: rates.append(one.param_groups[0]["lr"]))
        return made

    parts = Parts(
        model=lambda *_: nn.Linear(INPUTS, 1, bias=False),
        loss=lambda *_: nn.MSELoss(),
        optimizer=optimizer,
        dataset=lambda *_: Line(scale),
        schedule=CosineAnnealingLR,
    )
    size = Size(batch=64, epoch_steps=4, evaluation_items=1, data_bytes=1, shape={}, original_epoch_steps=4)
    recipe = replace(Recipe(), **choices)  # type: ignore[arg-type]
    return Task(parts=parts, size=size, recipe=recipe, data=Path(), device=device_named("cpu"), seed=0, endless=True)


def quiet(_step: int, _loss: float) -> None:
    """Shows nothing."""


@pytest.mark.parametrize("scale", [0.3, 1.0, 3.0])
def test_a_range_test_loses_a_line_just_beyond_the_rate_at_which_it_must_be_lost(scale: float) -> None:
    greatest = 1 / scale**2
    test = range_test(task_with(scale), {}, STEPS, (1e-4 * greatest, 100 * greatest), quiet)
    found = found_in(test)
    assert found.least
    assert found.limit
    assert found.steepest
    assert found.steepest < found.least < 1.3 * greatest
    assert 0.8 * greatest < found.limit < 5 * greatest, "it has to grow beyond where it began first"
    assert test.points[-1][0] < 10 * greatest, "it ends when all is lost"
    assert test.own == 1e-3


def test_rates_grow_by_the_same_factor_from_the_least_to_the_greatest() -> None:
    rates: list[float] = []
    test = range_test(task_with(0.01, rates), {}, STEPS, (1e-5, 1e-1), quiet)
    assert [rate for rate, _ in test.points] == pytest.approx(rates[-STEPS:])
    assert (test.points[0][0], test.points[-1][0]) == pytest.approx((1e-5, 1e-1))
    assert found_in(test).limit is None


def test_the_loss_of_a_point_is_the_one_before_its_update() -> None:
    """A rate so great that one update ruins the model: its own loss is fine and the next is not."""
    test = range_test(task_with(1.0), {}, 20, (1e3, 1e5), quiet)
    assert len(test.points) == 2
    assert test.points[1][1] > 4 * test.points[0][1]


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_no_number_before_any_update_tells_nothing_of_rates(loss: float) -> None:
    task = task_with()
    spoilt = replace(task.parts, dataset=lambda *_: Line(loss))
    with pytest.raises(Mistake, match="before any update"):
        range_test(replace(task, parts=spoilt), {}, STEPS, (1e-5, 1e-1), quiet)


@pytest.mark.parametrize("choices", [{"update_in_backward": True}, {"cuda_graph": True}])
def test_a_rate_that_cannot_move_is_refused(choices: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    task = task_with()
    monkeypatch.setattr("harness.measure.lessons._begun", begun_with(choices))
    with pytest.raises(Mistake, match=f"{next(iter(choices))} keeps the learning rate"):
        range_test(task, {}, STEPS, (1e-5, 1e-1), quiet)


def begun_with(choices: dict[str, object]) -> object:
    from harness.measure import lessons

    begin = lessons._begun

    def begun(task: Task, proof: dict[str, object]) -> object:
        session, inactive = begin(task, {})
        session.task = replace(task, recipe=replace(task.recipe, **choices))  # type: ignore[arg-type]
        return session, inactive

    return begun


# Schedules: what the real systems' are known for, at their beginning, their height and their end.


def rates_of(workload: str, steps: int) -> list[float]:
    weight = nn.Parameter(torch.zeros(1))
    parts = read_catalogue(None).workload(workload).parts()
    assert parts.schedule
    own = {"imagenet": 0.005, "leak": 1e-3, "patches3d": 3e-4, "speaker": 1e-3, "spoof": 3e-4}[workload]
    kind = torch.optim.SGD if workload == "imagenet" else torch.optim.Adam
    optimizer = kind([weight], lr=own)
    schedule = parts.schedule(optimizer, steps)
    told = []
    for _ in range(steps):
        told.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return told


@pytest.mark.parametrize("workload", ["imagenet", "leak", "patches3d", "speaker", "spoof"])
def test_a_schedule_may_be_over_at_once(workload: str) -> None:
    assert len(rates_of(workload, 1)) == 1


@pytest.mark.parametrize("steps", [40, 101, 400])
def test_each_system_has_its_own_schedule(steps: int) -> None:
    leak, spoof, imagenet = rates_of("leak", steps), rates_of("spoof", steps), rates_of("imagenet", steps)
    assert leak[0] == 1e-3
    assert leak[steps // 2] == pytest.approx(5e-4, rel=0.05)
    assert leak[-1] < 2e-5
    assert spoof[0] == 3e-4
    assert spoof[-1] == pytest.approx(1e-5, rel=0.1)
    assert imagenet[0] == pytest.approx(5e-5)
    assert max(imagenet) == pytest.approx(0.005)
    assert imagenet.index(max(imagenet)) == steps // 20
    assert imagenet[-1] < 1e-4
    patches3d, speaker = rates_of("patches3d", steps), rates_of("speaker", steps)
    assert patches3d[0] == pytest.approx(6e-4 / 25)
    assert max(patches3d) == pytest.approx(6e-4, rel=0.01)
    assert patches3d.index(max(patches3d)) == pytest.approx(0.3 * steps, abs=2)
    assert patches3d[-1] < 6e-6
    assert speaker[0] == 1e-3
    assert speaker == sorted(speaker, reverse=True)
    assert speaker[-1] == pytest.approx(1e-3 * 0.95 ** (100 * (steps - 1) // steps))


def test_a_lesson_follows_the_schedule_where_that_is_asked_for() -> None:
    for scheduled in (False, True):
        rates: list[float] = []
        task = task_with(1.0, rates)
        task = replace(task, parts=replace(task.parts, evaluate=lambda *_: EVALUATED))
        learn(task, task.recipe, {}, 10, quiet, scheduled=scheduled)
        cosine = [0.5e-3 * (1 + math.cos(math.pi * step / 10)) for step in range(10)]
        assert rates[-10:] == pytest.approx(cosine if scheduled else [1e-3] * 10)
    with pytest.raises(Mistake, match="states no schedule"):
        learn(replace(task, parts=replace(task.parts, schedule=None)), task.recipe, {}, 10, quiet, scheduled=True)


@pytest.mark.parametrize(
    "choices",
    [{}, {"workers": 2, "prefetch_factor": 4, "persistent_workers": True}, {"micro_batches": 2}, {"workers": 1}],
)
def test_a_lesson_begins_at_the_first_weights_whatever_proved_its_settings(choices: dict[str, object]) -> None:
    """The losses of a loop by hand over the same batches, from the first one on."""
    task = task_with(1.0, **choices)
    task = replace(task, parts=replace(task.parts, evaluate=lambda *_: EVALUATED))
    losses = learn(task, task.recipe, {}, 6, quiet, scheduled=False).losses
    session = open_session(replace(task, recipe=Recipe(micro_batches=task.recipe.micro_batches)))
    step = session.step()
    by_hand = [float(step()) for _ in range(6)]
    session.feed.close()
    assert losses == pytest.approx(by_hand, rel=1e-6)


def test_the_first_step_counts_as_the_second_and_workers_wait_for_it() -> None:
    """It takes two seconds here, as if it compiled: no part of a training's speed, and no time to load ahead."""
    task = task_with(1.0, workers=1, prefetch_factor=8)
    slow: list[int] = []

    def model(*_: object) -> nn.Module:
        made = nn.Linear(INPUTS, 1, bias=False)
        made.register_forward_pre_hook(lambda *_: time.sleep(2.0) if not slow.append(1) and len(slow) == 1 else None)
        return made

    session = open_session(replace(task, parts=replace(task.parts, model=model)))
    before = session.feed.taken
    steps = list(_steps(session, 4, lambda: None))
    session.feed.close()
    assert before == 0
    assert len(steps) == 4
    assert sum(spent_s for _, spent_s in steps) < 1.5


def test_a_training_tells_what_comes_before_its_usual_steps() -> None:
    """Data that take 0.3 s to open, and a model that computes 0.5 s in its first step, as if it compiled."""

    class Slow(nn.Linear):
        begun = False

        def forward(self, inputs: Tensor) -> Tensor:
            time.sleep(0.0 if self.begun else 0.5)
            self.begun = True
            return super().forward(inputs)

    def opened(*_: object) -> Line:
        time.sleep(0.3)
        return Line(1.0)

    task = task_with(1.0)
    parts = replace(
        task.parts, dataset=opened, model=lambda *_: Slow(INPUTS, 1, bias=False), evaluate=lambda *_: EVALUATED
    )
    goal = Goal(score=0.5, better="more", every=3)
    trained = train_until(replace(task, parts=parts), {}, 9, goal, quiet, scheduled=False)
    ((steps, seconds, score),) = trained.scores
    assert (steps, score, trained.reached) == (3, 0.5, True)
    assert seconds < 0.7
    assert trained.start_s is not None
    assert 0.8 - seconds < trained.start_s < 5.0


def test_losses_are_read_as_often_as_is_asked() -> None:
    def losses(every: int) -> list[float]:
        session = open_session(task_with(1.0))
        told = [loss for loss, _ in _steps(session, 7, lambda: None, read_every=every)]
        session.feed.close()
        return told

    each = losses(1)
    assert losses(3) == [each[0], each[1], each[2], each[2], each[2], each[5], each[5]]


class SlowLine(Line):
    """A batch of 64 takes a fifth of a second."""

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        time.sleep(0.2 / 64)
        return super().__getitem__(index)


def test_what_workers_load_before_the_first_step_is_paid_for() -> None:
    """Four batches of two workers take as long as two of them: those of the first wait are no gift."""
    task = task_with(1.0, workers=2)
    session = open_session(replace(task, parts=replace(task.parts, dataset=lambda *_: SlowLine(1.0))))
    spent_s = sum(spent_s for _, spent_s in _steps(session, 4, lambda: None))
    session.feed.close()
    assert spent_s > 0.38


class Requested(Line):
    """A batch is one request that takes a fifth of a second, which no pause of the asking worker delays."""

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        time.sleep(0.2 if index % 64 == 0 else 0.0)
        return super().__getitem__(index)


def test_requests_that_end_while_a_model_is_evaluated_make_no_training_faster() -> None:
    def evaluate(*_: object) -> Evaluation:
        time.sleep(0.3)
        return EVALUATED

    task = task_with(1.0, workers=2)
    task = replace(task, parts=replace(task.parts, dataset=lambda *_: Requested(1.0), evaluate=evaluate))
    goal = Goal(score=2.0, better="more", every=1)
    trained = train_until(task, {}, 8, goal, quiet, scheduled=False)
    assert [number for number, *_ in trained.scores] == [*range(1, 9)]
    assert trained.again
    shown: list[int] = []
    again = train_again(task, 8, trained, lambda step, _: shown.append(step), scheduled=False)
    assert [number for number, *_ in again.scores] == [*range(1, 9)]
    assert again.scores[-1][1] > 0.7, "eight requests of a fifth of a second, by two workers"
    assert shown == [*range(1, 9)]


class Prefetched(Line):
    """A thread keeps up to sixteen batches ready, each of which takes it 50 ms."""

    collated = True

    def __init__(self) -> None:
        super().__init__(1.0)
        self.ready = Queue[None](16)
        Thread(target=self._load, daemon=True).start()

    def _load(self) -> None:
        while True:
            time.sleep(0.05)
            self.ready.put(None)

    def __getitems__(self, indices: list[int]) -> tuple[Tensor, Tensor]:
        self.ready.get()
        return self.inputs[indices], self.targets[indices]


def test_a_thread_that_loads_while_a_model_is_evaluated_is_found_out() -> None:
    """Each pause lasts for ten batches and four steps follow it: they find all of them ready."""

    def evaluate(*_: object) -> Evaluation:
        time.sleep(0.5)
        return EVALUATED

    task = task_with(1.0)
    task = replace(task, parts=replace(task.parts, dataset=lambda *_: Prefetched(), evaluate=evaluate))
    goal = Goal(score=2.0, better="more", every=4)
    trained = train_until(task, {}, 16, goal, quiet, scheduled=False)
    assert trained.scores[-1][1] < 0.7, "sixteen batches of 50 ms, twelve of which cost nothing"
    assert trained.again
    again = train_again(task, 16, trained, quiet, scheduled=False)
    assert again.scores[-1][1] > 0.45


class Loading(Line):
    """A batch of sixteen takes 20 ms, and what it keeps none."""

    def __init__(self, *, keeps: bool) -> None:
        super().__init__(1.0)
        self.keeps, self.kept = keeps, set[int]()

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if index not in self.kept:
            time.sleep(0.02 / 16)
        if self.keeps:
            self.kept.add(index)
        return super().__getitem__(index)


@pytest.mark.parametrize(
    ("keeps", "known"),
    [pytest.param(False, False, marks=pytest.mark.alone), (True, False), (False, True)],  # others' load looks like help
    ids=["nothing", "seen", "known before"],
)
def test_a_training_is_taken_again_where_its_data_set_keeps_what_the_proof_read(*, keeps: bool, known: bool) -> None:
    """And not where nobody loads ahead, and each batch is read again."""

    def model(*_: object) -> nn.Module:
        made = nn.Linear(INPUTS, 1, bias=False)
        made.register_forward_pre_hook(lambda *_: time.sleep(0.06))
        return made

    task, data = task_with(1.0), Loading(keeps=keeps)
    task = replace(
        task,
        parts=replace(task.parts, model=model, dataset=lambda *_: data, evaluate=lambda *_: EVALUATED),
        size=replace(task.size, batch=16, epoch_steps=16, keeps_items=known),
    )
    trained = train_until(task, {}, 8, Goal(score=2.0, better="more", every=4), quiet, scheduled=False)
    assert trained.again == (keeps or known)
    assert [number for number, *_ in trained.scores] == [4, 8]


def test_what_is_trained_again_reads_nothing_before_its_first_step() -> None:
    read: list[int] = []

    class Noted(Line):
        def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
            read.append(index)
            return super().__getitem__(index)

    rates: list[float] = []
    task = task_with(1.0, rates)
    task = replace(task, parts=replace(task.parts, dataset=lambda *_: Noted(1.0)))
    before = Trained(scores=((2, 70.0, 0.1), (4, 90.0, 0.2)), reached=True, inactive=(), start_s=0.5, again=True)
    found = train_again(task, 10, before, quiet, scheduled=True)
    assert sorted(read) == [*range(256)]
    assert [(number, score) for number, _, score in found.scores] == [(2, 0.1), (4, 0.2)]
    assert 0 < found.scores[0][1] < found.scores[1][1] < 60
    assert replace(found, scores=before.scores) == before
    assert rates == pytest.approx([0.5e-3 * (1 + math.cos(math.pi * step / 10)) for step in range(4)])


def test_what_is_compiled_is_compiled_before_it_is_trained_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a session that reads a few batches and no whole epoch, since what it reads may be kept."""
    asked: list[object] = []

    def begun(task: Task, proof: dict[str, object], protocol: Protocol, **how: object) -> object:
        asked.append((proof, protocol.whole_s, how))
        return open_session(replace(task, recipe=Recipe())), {}

    monkeypatch.setattr("harness.measure.lessons._begun", begun)
    before = Trained(scores=((2, 70.0, 0.1),), reached=True, inactive=(), start_s=0.5, again=True)
    train_again(task_with(1.0, compile="default"), 2, before, quiet, scheduled=False)
    assert asked == [({}, 0.0, {"observed": True, "bounds": Bounds(loader_rate=None, compute_rate=None)})]


# What losses under a growing rate say.


def made(losses: Iterator[float] | list[float], low: float = 1e-4, growth: float = 1.1) -> Ranged:
    points = tuple((low * growth**number, loss) for number, loss in enumerate(losses))
    return Ranged(points=points, steps=len(points), own=1e-3, inactive=())


def sigmoid(at: float, middle: float, width: float) -> float:
    return 1 / (1 + math.exp((at - middle) / width))


def test_the_steepest_fall_is_seen_where_it_is_and_not_later() -> None:
    test = made([1.0 + sigmoid(step, 40, 3) + max(0.0, 0.2 * (step - 80)) for step in range(100)])
    found = found_in(test)
    assert found.steepest == pytest.approx(test.points[40][0], rel=0.15)
    assert found.limit == pytest.approx(test.points[85][0], rel=0.3)


def test_what_learns_nothing_has_no_best_rate() -> None:
    found = found_in(made([1.0] * 100))
    assert (found.steepest, found.least, found.limit) == (None, None, None)
    assert "does not fall by more than chance for every seed" in " ".join(sentences([made([1.0] * 100)]))


def test_a_loss_that_is_no_number_ends_what_can_be_borne() -> None:
    test = made([2.0 - 0.02 * step for step in range(50)] + [math.nan])
    assert found_in(test).limit == test.points[50][0]


def test_seeds_are_told_apart_and_nothing_is_said_for_one_that_is_silent() -> None:
    between = agreed([1e-3, 1e-1])
    assert between
    assert (between.rate, between.low, between.high) == pytest.approx((1e-2, 1e-3, 1e-1))
    assert agreed([1e-3, None]) is None
    assert agreed([]) is None


def test_words_and_figure_name_the_rates_and_where_the_systems_own_lies() -> None:
    falling = [1.0 + sigmoid(step, 40, 3) + max(0.0, 0.2 * (step - 80)) for step in range(100)]
    tests = [made(falling), made(falling, growth=1.11)]
    words = " ".join(sentences(tests))
    assert "by seed" in words
    assert "The system's own rate is 0.001" in words
    drawn = figure("leak: rates", tests)
    assert drawn.startswith("<!-- Written by `./speedmatrix learn`. -->")
    assert "falls fastest" in drawn
    lost = replace(tests[0], own=10.0)
    assert "at which this test had lost what it had learned" in " ".join(sentences([lost]))


def test_smoothing_keeps_a_straight_line() -> None:
    losses = [float(step) for step in range(100)]
    assert smoothed(losses, 5)[10:90] == pytest.approx(losses[10:90])


def test_chance_alone_neither_learns_nor_loses() -> None:
    """Of 200 tests of nothing but noise at most five say that something rose or fell."""
    draw = random.Random(4)
    found = [found_in(made([2.0 + draw.gauss(0, 0.3) for _ in range(100)])) for _ in range(200)]
    assert sum(one.limit is not None or one.steepest is not None for one in found) <= 5


def test_a_test_that_ends_early_is_averaged_over_as_many_steps_as_a_whole_one() -> None:
    draw = random.Random(5)
    losses = [1.0 + sigmoid(step, 20, 2) + draw.gauss(0, 0.2) for step in range(40)]
    whole = made([*losses, *[math.nan] * 60])
    early = replace(whole, points=(*whole.points[:40], (1.0, math.nan)))
    found = found_in(early)
    assert found.steepest
    assert found.steepest == found_in(whole).steepest
    assert found.steepest == pytest.approx(whole.points[20][0], rel=0.5)
