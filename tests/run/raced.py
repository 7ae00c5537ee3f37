"""A race whose truth is known: requests, steps and evaluations take what they are told to, and the score counts steps.

A batch takes `first_s` when it is read for the first time and `again_s` later: what one process has read, all find that
share its memory. A worker's request goes on while the worker is stopped, as one over the network does. With `helper` a
thread of the data set loads up to sixteen batches ahead, in evaluations too.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from harness.core.optimization import Numerics, Optimization, Stage
from harness.core.recipe import Recipe, Value
from harness.core.workload import Built, Evaluation, Lesson, Parts, Size, Workload

VARIABLE = "RACED"
EPOCH_STEPS, BATCH, LOOK_EVERY, EVALUATION_S, AHEAD = 15, 4, 4, 0.5, 16
TOLD = json.loads(os.environ.get(VARIABLE, '{"first_s": 0, "again_s": 0, "step_s": 0}'))
READ = torch.zeros(EPOCH_STEPS * BATCH, dtype=torch.uint8).share_memory_()  # by the first sample of a batch


class Helper:
    """A thread that begins with the first batch that is taken, and that nobody pauses."""

    def __init__(self) -> None:
        self.ready, self.begun = Queue[None](AHEAD), False

    def take(self) -> None:
        if not self.begun:
            self.begun = True
            Thread(target=self._load, daemon=True).start()
        self.ready.get()

    def _load(self) -> None:
        while True:
            time.sleep(TOLD["first_s"])
            self.ready.put(None)


class Batches(Dataset[tuple[Tensor, Tensor]]):
    """Whole batches of ones, each a request."""

    collated = True

    def __init__(self, helper: Helper | None) -> None:
        self.helper = helper

    def __len__(self) -> int:
        return EPOCH_STEPS * BATCH

    def __getitems__(self, indices: list[int]) -> tuple[Tensor, Tensor]:
        if self.helper:
            self.helper.take()
        else:
            time.sleep(TOLD["again_s"] if READ[indices[0]] else TOLD["first_s"])
            READ[indices[0]] = 1
        return torch.ones(len(indices), 1), torch.zeros(len(indices), 1)


class Counting(nn.Module):
    """A weight that is zero at first, to which every step adds one."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(1, 1, bias=False)
        nn.init.zeros_(self.line.weight)

    def forward(self, inputs: Tensor) -> Tensor:
        time.sleep(TOLD["step_s"])
        result: Tensor = self.line(inputs)
        return result


class Falling(nn.Module):
    """A loss whose gradient for the weight is minus one."""

    def forward(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (targets - outputs).mean()


def prepare(folder: Path, _size: Size) -> Iterator[float]:
    (folder / "ones.txt").write_text("the batches are computed\n")
    yield 1.0


def evaluate(model: nn.Module, *_: object) -> Evaluation:
    time.sleep(EVALUATION_S)
    return Evaluation(items=1, score=cast("Counting", model).line.weight.item())


def optimizer(parameters: list[nn.Parameter], keywords: Mapping[str, Any]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=1.0, **keywords)


def dataset(_folder: Path, _size: Size, recipe: Recipe) -> Batches:
    return Batches(Helper() if recipe.choice("helper") else None)


def effective(built: Built) -> Mapping[str, Value]:
    return {"helper": cast("Batches", built.dataset).helper is not None}


HELPER = Optimization(
    name="helper",
    title="A thread that loads ahead",
    stage=Stage.INPUT,
    numerics=Numerics.EXACT,
    sets={"helper": True},
    proof={"helper": True},
    workload="raced",
)
WORKLOAD = Workload(
    name="raced",
    title="Known races",
    origin="invented",
    parameters=1,
    traits=frozenset({"evaluation"}),
    score="steps",
    own={"helper": False},
    optimizations=(HELPER,),
    sizes={
        "quick": Size(
            batch=BATCH, epoch_steps=EPOCH_STEPS, evaluation_items=1, data_bytes=100, shape={},
            original_epoch_steps=EPOCH_STEPS,
        )
    },
    parts=lambda: Parts(
        prepare=prepare,
        model=lambda *_: Counting(),
        loss=lambda *_: Falling(),
        optimizer=optimizer,
        dataset=dataset,
        evaluate=evaluate,
        effective=effective,
    ),
    lesson=Lesson(steps=50 * LOOK_EVERY, chance=0.0, clear=1.0, better="more"),
)  # fmt: skip
