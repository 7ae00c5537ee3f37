"""Arms of one process: each takes its turn as if it had the process to itself, and leaves nothing behind."""

import gc
import os
import time
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from harness.core.optimization import Timing
from harness.core.protocol import BRIEF
from harness.measure.devices import effective_backend
from harness.measure.residents import Residents
from harness.measure.session import Task
from harness.measure.warm_up import Unsettled
from harness.run.processes import SUSPENDED, state_of
from tests.measure.settings import put_back
from tests.measure.tasks import task_of

QUICKLY = replace(BRIEF, loss_steps=2, floor_s=0.0, upper_bound_s=0.01)
# What a process has once, and two of its arms have otherwise; the deterministic switch needs no GPU to be set.
SETTINGS = ("medium_matmul_precision", "cudnn_deterministic", "anomaly_detection", "garbage_collector_off")


@pytest.fixture
def residents() -> Iterator[Residents]:
    with put_back():
        found = Residents()
        yield found
        for number in [*found.arms]:
            found.free(number)


def begun(residents: Residents, number: int, task: Task) -> dict[str, Any]:
    residents.admit(number, replace(task, shared=True))
    return residents.begin(number, Timing.STEP, QUICKLY, {}, other_seeds=False, observed=True)


def test_every_setting_of_a_process_is_the_arms_own_whenever_it_takes_its_turn(
    residents: Residents, smoke_data: Mapping[str, Path]
) -> None:
    alone = begun(residents, 0, task_of("leak", smoke_data["leak"], SETTINGS))
    begun(residents, 1, task_of("leak", smoke_data["leak"], ()))
    seen = {}
    for number in (0, 1, 0, 1):
        residents.window(number, 1, 2, 0)
        seen[number] = effective_backend()
    changed = {name for name in seen[0] if seen[0][name] != seen[1][name]}
    assert changed == {
        "matmul_precision", "cudnn_deterministic", "anomaly_detection", "automatic_collection", "frozen_objects",
    }  # fmt: skip
    assert {name: alone["effective"][name] for name in changed} == {name: seen[0][name] for name in changed}


def test_a_setting_that_does_not_come_back_ends_the_arm_with_words(
    residents: Residents, smoke_data: Mapping[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(residents, 0, task_of("leak", smoke_data["leak"], ("medium_matmul_precision",)))
    begun(residents, 1, task_of("leak", smoke_data["leak"], ()))
    monkeypatch.setattr(torch, "set_float32_matmul_precision", lambda _: None)
    with pytest.raises(Unsettled, match="matmul_precision is highest, not medium"):
        residents.window(0, 1, 2, 0)


def test_random_numbers_go_on_where_the_arm_had_left_them(residents: Residents, smoke_data: Mapping[str, Path]) -> None:
    """Dropout draws from the process: what neighbours draw meanwhile must not change what an arm learns."""
    drawn = []
    for neighbour in (False, True):
        task = task_of("leak", smoke_data["leak"], ())
        begun(residents, 0, task)
        if neighbour:
            begun(residents, 1, replace(task, seed=99))
        residents.window(0, 1, 2, 0)
        if neighbour:
            residents.window(1, 1, 2, 0)
            residents.window(1, 1, 2, 0)
            residents._turn(0)
        drawn.append(torch.rand(4).tolist())
        for number in [*residents.arms]:
            residents.free(number)
    assert drawn[0] == drawn[1]


def test_an_arm_that_ends_leaves_neither_its_model_nor_its_workers(
    residents: Residents, smoke_data: Mapping[str, Path]
) -> None:
    begun(residents, 0, task_of("leak", smoke_data["leak"], ("garbage_collector_off",)))
    begun(residents, 1, task_of("leak", smoke_data["leak"], ("workers=1", "persistent_workers")))
    residents.window(1, 1, 2, 0)
    residents.window(0, 1, 2, 0)  # freezes what there is from the collector
    trial = residents.arms[1].trial
    assert trial is not None
    model, workers = weakref.ref(trial.session.trainee.model), list(trial.session.feed.worker_pids[-1])
    assert workers
    del trial
    residents.free(1)
    assert model() is None
    assert not any(map(psutil.pid_exists, workers))
    residents.window(0, 1, 2, 0)  # and the other goes on
    residents.free(0)
    assert gc.get_freeze_count() == 0


def test_workers_of_others_stay_paused_while_an_arm_takes_its_steps(
    residents: Residents, smoke_data: Mapping[str, Path]
) -> None:
    for number in (0, 1):
        begun(residents, number, task_of("leak", smoke_data["leak"], ("workers=1",)))
    feeds = [residents.arms[number].trial.session.feed for number in (0, 1)]  # type: ignore[union-attr]
    residents.window(0, 1, 2, 0)
    residents.window(1, 1, 2, 0)  # both are frozen from here on
    feeds[1].thaw()
    ends_s = time.monotonic() + 10.0  # until signals are delivered
    while state_of(feeds[0]._live_pids()[0]) != SUSPENDED and time.monotonic() < ends_s:
        time.sleep(0.01)
    states = [[state_of(pid) for pid in feed._live_pids()] for feed in feeds]
    feeds[1].freeze()
    assert states[0] == [SUSPENDED]
    assert SUSPENDED not in states[1]
    before = feeds[0].produced
    residents.window(1, 2, 8, 0)
    assert feeds[0].produced == before
    assert os.getpid() not in states


def test_of_the_memory_of_a_shared_process_nothing_is_told(
    residents: Residents, smoke_data: Mapping[str, Path]
) -> None:
    begun(residents, 0, task_of("leak", smoke_data["leak"], ()))
    told = residents.window(0, 1, 2, 0)
    assert (told["device_bytes"], told["process_bytes"]) == (None, None)
