"""The step alone beside loader workers that want every core: its rate must be that of a step with nothing beside it."""

import time
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from harness.core.optimization import Timing
from harness.measure.session import Task
from harness.measure.trial import UNTIMED, begin
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


def test_a_step_alone_is_not_slowed_by_workers_that_refill_their_queue() -> None:
    """96 batches of 32 ms keep two cores busy for more than a second after the loader was probed."""
    trial, ready = begin(task(), Timing.STEP, replace(UNTIMED, upper_bound_s=0.3), {}, other_seeds=False)
    trial.session.feed.close()
    assert STEP_S < BATCH / ready["compute_rate"] < 2.5 * STEP_S  # the machine may have other work
    assert BATCH / ready["loader_rate"] < BATCH * ITEM_S  # several workers at once, and none of them left behind
