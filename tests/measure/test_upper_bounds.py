"""The step alone, beside loader workers that want every core."""

import multiprocessing
import time
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from harness.core.optimization import Timing
from harness.measure import opening
from harness.measure.lessons import UNTIMED
from harness.measure.session import Task
from harness.measure.trial import begin
from harness.run.processes import state_of
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


def task() -> Task:
    made = task_with(workers=WORKERS, prefetch_factor=AHEAD)
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
