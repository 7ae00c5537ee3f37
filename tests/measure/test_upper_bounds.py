"""The step alone, beside loader workers that want every core; the loader alone, where something loads ahead."""

import multiprocessing
import time
from collections.abc import Callable
from dataclasses import replace
from queue import Queue
from random import Random
from threading import Thread
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from harness.core.optimization import Timing
from harness.core.protocol import UNTIMED
from harness.measure import opening
from harness.measure.session import Task
from harness.measure.trial import begin
from harness.run.processes import state_of
from tests.devices.counted import Counted
from tests.measure.test_windows import BATCH, task_with

STEP_S, ITEM_S, WORKERS, AHEAD = 0.010, 0.008, 4, 24


def burn(seconds: float) -> None:
    """Keeps a core busy for so much of its own time: longer on the clock where others want the core too."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


class Burning(Dataset[tuple[Tensor, Tensor]]):
    """Items that take a core."""

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        burn(ITEM_S)
        return torch.tensor([float(index)]), torch.tensor([0.0])


class Step(nn.Module):
    """A model that takes a core."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(1, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        burn(STEP_S)
        result: Tensor = self.line(inputs * 0)
        return result


def task(ahead: int = AHEAD) -> Task:
    made = task_with(workers=WORKERS, prefetch_factor=ahead)
    return replace(made, parts=replace(made.parts, model=lambda *_: Step(), dataset=lambda *_: Burning()))


def test_workers_that_would_refill_their_queue_stand_still_while_the_step_alone_is_probed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """96 batches of 32 ms are still to be loaded then, on the cores of the step: 10 ms of it took 56 on two cores."""
    seen: list[set[str]] = []
    probe = opening._calls_per_s

    def watched(*given: Any) -> float:
        rate = probe(*given)
        seen.append({state_of(worker.pid) for worker in multiprocessing.active_children()})
        return rate

    monkeypatch.setattr(opening, "_calls_per_s", watched)
    trial, ready = begin(task(), Timing.STEP, replace(UNTIMED, upper_bound_s=0.3), {}, other_seeds=False)
    trial.session.feed.close()
    assert seen == [{"T"}]
    assert ready["compute_rate"] < BATCH / STEP_S


@pytest.mark.parametrize(("seconds", "rounds"), [(0.0, 1), (0.010, 1), (0.050, 5)])
def test_a_device_that_works_on_its_own_is_given_whole_rounds(
    seconds: float, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of four steps that are not alike, as of a loss that measures distances in every fourth."""
    taken: list[int] = []
    monkeypatch.setattr(opening, "timed", lambda _call, times, _device: (taken.append(times), 0.003 * times)[1])
    assert opening._calls_per_s(lambda: None, 4, seconds, Counted()) == pytest.approx(1 / 0.003)
    assert taken == [4, 4 * rounds]


LOADING_S, COMPUTING_S = 0.012, 0.010  # of a batch; a helper that never stops is the slower of the two


class Costly(Dataset[tuple[Tensor, Tensor]]):
    """Items that take their time, each its own."""

    def __init__(self, seconds: Callable[[int], float]) -> None:
        self.seconds = seconds

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        self.spend(index)
        return torch.tensor([float(index)]), torch.tensor([0.0])

    def spend(self, index: int) -> None:
        time.sleep(self.seconds(index))


class Helped(Costly):
    """Items that a thread of its own has made ready, four batches of them at most."""

    def __init__(self, seconds: Callable[[int], float]) -> None:
        super().__init__(seconds)
        self.ready: Queue[None] = Queue(4 * BATCH)
        Thread(target=self.go_on, daemon=True).start()

    def go_on(self) -> None:
        while True:
            time.sleep(self.seconds(0))
            self.ready.put(None)

    def spend(self, index: int) -> None:  # noqa: ARG002  whichever is asked for
        self.ready.get()


class Resting(Step):
    """A model that leaves its core to others."""

    def forward(self, inputs: Tensor) -> Tensor:
        time.sleep(COMPUTING_S)
        result: Tensor = self.line(inputs * 0)
        return result


def asked(dataset: Callable[..., Dataset[Any]]) -> float | None:
    """What an arm without workers says of batches that are asked for one after another."""
    made = task_with()
    made = replace(made, parts=replace(made.parts, model=lambda *_: Resting(), dataset=dataset))
    trial, ready = begin(made, Timing.STEP, replace(UNTIMED, upper_bound_s=0.3), {}, other_seeds=False)
    assert trial.session.feed.order._next == trial.session.feed.taken, "its place in the epoch is as it was"
    assert ready["loader_rate"] is None, "windows tell it"
    return None if ready["asked_rate"] is None else float(ready["asked_rate"])


def test_a_loader_that_goes_on_by_itself_is_found_out() -> None:
    rate = asked(lambda *_: Helped(lambda _: LOADING_S / BATCH))
    assert rate is not None
    assert 0.3 < rate / (BATCH / LOADING_S) < 1.05  # sleeps end late on a busy host, and never early


@pytest.mark.parametrize("ready", [0, 1, 4, 16])
def test_batches_that_lie_ready_do_not_count(ready: int) -> None:
    assert opening.late_of([*ready * [0.0001], 0.02, *6 * [0.03]]) == pytest.approx(0.03)
    assert opening.late_of([*ready * [0.0001], *7 * [0.03], 3.0]) == pytest.approx(0.03), "a stall"
    assert opening.late_of([*ready * [0.0001], 0.4, 0.5]) == pytest.approx(0.4)
    if ready != 1:  # then nobody knows which of two is usual
        assert opening.late_of([*ready * [0.0001], 0.4][:1]) is None


def test_a_mixture_of_dear_and_cheap_batches_seldom_seems_twice_as_dear_as_its_mean() -> None:
    """What forbids a ratio must be so in every replicate, two at least."""
    random, told = Random(0), 0
    for _ in range(1000):
        costs = [random.choice((0.001, 0.01, 0.05)) for _ in range(random.randrange(6, 40))]
        told += (opening.late_of(costs) or 0.0) > 2 * sum(costs) / len(costs)
    assert told < 50


@pytest.mark.parametrize(
    ("seconds", "mean_s"),
    [
        (lambda _: LOADING_S / BATCH, LOADING_S / BATCH),
        (lambda index: 0.0005 if index % 2 else 0.006, 0.00325),  # dear and cheap
        (lambda index: 0.2 if index == 9 else 0.001, 0.0074),  # a rare stall
        (lambda _: 0.1, 0.1),  # two of them are waited for
        (lambda _: 0.4, None),  # too slow to be asked twice
    ],
    ids=["even", "uneven", "stalling", "slow", "slower"],
)
def test_no_batch_seems_dearer_than_it_is_on_average(seconds: Callable[[int], float], mean_s: float | None) -> None:
    rate = asked(lambda *_: Costly(seconds))
    if mean_s is None:
        assert rate is None
    else:
        assert rate is not None
        assert rate > 0.6 / mean_s  # sleeps end late


def test_workers_do_not_load_beside_steps_that_take_nothing_from_them() -> None:
    begun, _ = begin(task(5 * AHEAD), Timing.COMPUTE, UNTIMED, {}, other_seeds=False)
    feed = begun.session.feed
    try:
        assert feed.live_workers == WORKERS
        begun.window(lead=2, steps=2)
        before = feed.produced
        windows = [begun.window(lead=2, steps=20) for _ in range(2)]
        assert before is not None
        assert feed.produced is not None
        assert feed.produced - before <= 2 * WORKERS, "what each had nearly finished when it was stopped"
    finally:
        feed.close()
    assert all(one["batches"] is None for one in windows)
