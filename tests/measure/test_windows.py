"""Windows of an arm: what leads into them, which samples they hold, and loader workers that stand still beside them."""

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from harness.core.optimization import Timing
from harness.core.protocol import UNTIMED
from harness.core.recipe import Recipe
from harness.core.workload import Parts, Size
from harness.measure.devices import Device, device_named
from harness.measure.session import Task
from harness.measure.trial import Trial, begin
from harness.measure.warm_up import transient
from harness.run.processes import state_of

EPOCH, BATCH, ITEM_S = 8, 4, 0.004


class Numbered(Dataset[tuple[Tensor, Tensor]]):
    """Items that are their own number and take their time."""

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        time.sleep(ITEM_S)
        return torch.tensor([float(index)]), torch.tensor([0.0])


class Remembering(nn.Module):
    """Keeps the numbers that it was trained on."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(1, 1)
        self.seen: list[list[int]] = []

    def forward(self, inputs: Tensor) -> Tensor:
        self.seen.append([int(one) for one in inputs.flatten()])
        result: Tensor = self.line(inputs * 0)
        return result


def task_with(**choices: object) -> Task:
    parts = Parts(
        model=lambda *_: Remembering(),
        loss=lambda *_: nn.MSELoss(),
        optimizer=lambda parameters, kernel: torch.optim.SGD(parameters, lr=1e-6, **kernel),
        dataset=lambda *_: Numbered(),
    )
    size = Size(batch=BATCH, epoch_steps=EPOCH, evaluation_items=1, data_bytes=1, shape={}, original_epoch_steps=EPOCH)
    recipe = replace(Recipe(), **choices)  # type: ignore[arg-type]
    return Task(parts=parts, size=size, recipe=recipe, data=Path(), device=device_named("cpu"), seed=0, endless=True)


@pytest.fixture
def arm(request: pytest.FixtureRequest) -> Iterator[Trial]:
    trial, _ = begin(task_with(**request.param), Timing.STEP, UNTIMED, {}, other_seeds=False)
    yield trial
    trial.session.feed.close()


def trained_on(trial: Trial) -> list[list[int]]:
    model = trial.session.trainee.model
    assert isinstance(model, Remembering)
    return model.seen


def states(trial: Trial) -> set[str]:
    return {state_of(worker.pid) for worker in trial.session.feed.iterator._workers}


WITHOUT, ONE, TWO = {"workers": 0}, {"workers": 1}, {"workers": 2, "prefetch_factor": 3}
IN_PARTS = {"workers": 1, "micro_batches": 2}


@pytest.mark.parametrize("arm", [WITHOUT, ONE, TWO, IN_PARTS], indirect=True)
@pytest.mark.parametrize("steps", [4, 9])
def test_the_first_window_begins_with_the_same_sample_in_every_arm(arm: Trial, steps: int) -> None:
    parts = arm.session.task.recipe.micro_batches
    order = list(range(EPOCH * BATCH))
    first = next(iter(arm.session.feed.order))
    lead = arm.settle(steps, offset=5)
    window = arm.window(lead=max(1, lead, 2), steps=3, start=5 + 2)
    in_window = trained_on(arm)[-3 * parts :]
    batches = arm.session.feed.order._batches
    assert sorted(one for batch in batches for one in batch) == order
    assert first in batches
    lead_in = max(1, lead, 2)
    wanted = 5 + lead_in if arm.session.task.recipe.workers else 7
    assert window["first_step"] == wanted % EPOCH
    expected = [batches[(wanted * parts + number) % len(batches)] for number in range(3 * parts)]
    for number in range(0, 3 * parts, parts):  # parts of a step change places
        assert sorted(in_window[number : number + parts]) == sorted(expected[number : number + parts])


@pytest.mark.parametrize("arm", [WITHOUT], indirect=True)
def test_windows_without_workers_go_where_they_are_told(arm: Trial) -> None:
    batches = arm.session.feed.order._batches
    for start in (0, 6, 3, 3 + EPOCH):
        window = arm.window(lead=2, steps=4, start=start)
        assert trained_on(arm)[-4:] == [batches[(start + number) % EPOCH] for number in range(4)]
        assert (window["samples"], window["lead_steps"], window["batches"], window["slipped"]) == (
            4 * BATCH,
            2,
            None,
            None,
        )
        assert window["first_step"] == start % EPOCH
    assert arm.window(lead=2, steps=2 * EPOCH, start=3)["first_step"] == 0  # whole epochs are all alike


def stand_still(arm: Trial) -> bool:
    """Whether all workers come to stand; one that waits for a core stops when it gets it."""
    until = time.monotonic() + 20.0
    while states(arm) != {"T"} and time.monotonic() < until:
        time.sleep(0.01)
    return states(arm) == {"T"}


@pytest.mark.parametrize("arm", [ONE, TWO], indirect=True)
def test_workers_stand_still_whenever_no_step_is_taken(arm: Trial) -> None:
    arm.settle(4, 0)
    assert stand_still(arm)
    arm.window(lead=2, steps=6)
    assert stand_still(arm)
    made = arm.session.feed.produced
    time.sleep(10 * BATCH * ITEM_S)
    assert arm.session.feed.produced == made
    window = arm.window(lead=2, steps=6)
    # What was in work when the stop was sent, and one more where a busy machine delivers it late.
    assert window["slipped"] <= 2 * arm.session.task.recipe.workers
    assert window["batches"] == 6
    assert abs(window["produced"] - window["batches"]) <= 2 * arm.session.task.recipe.workers


@pytest.mark.parametrize("arm", [ONE], indirect=True)
def test_a_queue_that_filled_beside_the_clock_is_emptied_before_windows_begin(arm: Trial) -> None:
    """Loading takes 16 ms a batch and a step nothing, so a window that waits for no batch lives on the queue."""
    time.sleep(10 * BATCH * ITEM_S)
    arm.settle(4, 0)
    window = arm.window(lead=1, steps=8)
    assert window["wall_s"] > 7 * BATCH * ITEM_S
    assert window["wait_s"] > 0.3 * window["wall_s"]


@pytest.mark.parametrize("arm", [WITHOUT], indirect=True)
def test_a_window_tells_of_its_halves_and_its_slowest_steps(arm: Trial) -> None:
    window = arm.window(lead=1, steps=60)
    assert len(window["slowest_s"]) == 1 + 60 // 50
    assert list(window["slowest_s"]) == sorted(window["slowest_s"], reverse=True)
    assert window["slowest_s"][0] >= window["wall_s"] / 60
    assert 0 < window["first_half_s"] < window["wall_s"]
    assert len(window["quantiles_s"]) == 21
    assert list(window["quantiles_s"]) == sorted(window["quantiles_s"])
    assert window["quantiles_s"][-1] == window["slowest_s"][0]


class Eventless(Device):
    """Works on its own and has no events."""

    asynchronous = True


@pytest.mark.parametrize("choices", [WITHOUT, ONE])
def test_the_host_s_clock_times_a_loader_alone(choices: dict[str, object]) -> None:
    """Events of a device that has nothing to do would cost each batch some microseconds."""
    trial, _ = begin(task_with(**choices), Timing.LOADER, UNTIMED, {}, other_seeds=False)
    trial.session.task = replace(trial.session.task, device=Eventless("cpu"))
    trial.settle(4, 0)
    window = trial.window(lead=2, steps=8)
    trial.session.feed.close()
    assert window["wait_s"] <= window["wall_s"]
    assert window["wall_s"] > 6 * BATCH * ITEM_S


@pytest.mark.parametrize(
    ("times", "lead"),
    [
        ([1.0, 1.0, 1.0, 1.0], 0),
        ([2.3, 0.7, 1.1, 0.7], 1),  # samples of two costs, and a first step that is unlike both
        ([1.1, 0.7, 1.1, 0.7], 0),
        ([0.5, 1.0, 1.0, 1.0], 1),  # too fast is as wrong
        ([3.0, 2.0, 1.0, 1.0], None),  # not over yet
        ([3.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], 2),
        ([1.5] * 12 + [1.0] * 8, None),  # nor here, though some of the second half are as slow
        ([1.5] * 12 + [1.0] * 28, 12),
        ([0.5] * 12 + [1.0] * 8, None),
        ([1.0], None),
        ([], None),
    ],
)
def test_how_long_a_resumption_tells_is_read_from_steps(times: list[float], lead: int | None) -> None:
    assert transient(times) == lead


def test_nobody_is_left_frozen_when_an_arm_ends() -> None:
    trial, _ = begin(task_with(**TWO), Timing.STEP, UNTIMED, {}, other_seeds=False)
    pids = [worker.pid for worker in trial.session.feed.iterator._workers]
    trial.settle(4, 0)
    began = time.perf_counter()
    trial.session.feed.close()
    assert time.perf_counter() - began < 60.0
    assert {state_of(pid) for pid in pids} <= {"", "Z"}
    assert os.getpid() not in pids
