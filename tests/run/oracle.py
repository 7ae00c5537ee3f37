"""A workload whose truth is known: items and steps take the time that they are told to take.

Loading takes 10 ms an item, the forward pass 60 ms, so a plain step of 4 items takes 40 + 60 = 100 ms.
"""

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from harness.core.recipe import Recipe, Value
from harness.core.workload import Built, Evaluation, Parts, Size, Workload

ITEM_S, STEP_S, BATCH, EPOCH_STEPS = 0.010, 0.060, 4, 3
FAULTY = "ORACLE_FAULTS" in os.environ  # every optimized forward pass then fails in its own way


class Items(Dataset[tuple[Tensor, Tensor]]):
    """Points of a line that take their time."""

    def __init__(self, recipe: Recipe) -> None:
        self.item_s = 0.0 if recipe.in_memory_data else ITEM_S

    def __len__(self) -> int:
        return BATCH * EPOCH_STEPS

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        time.sleep(self.item_s)
        return torch.tensor([index / 10]), torch.tensor([index / 5])


class Slow(nn.Module):
    """A line that takes its time."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(1, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        time.sleep(STEP_S)
        result: Tensor = self.line(inputs)
        return result * self._fault(len(inputs)) if FAULTY else result

    def _fault(self, samples: int) -> float:
        if torch.is_autocast_enabled("cpu"):
            return float("nan")
        if samples == BATCH // 2:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
        if samples == BATCH // 4:
            os._exit(7)
        return 1.0


def prepare(folder: Path, size: Size) -> Iterator[float]:
    (folder / "points.txt").write_text("the points are computed\n")
    yield 1.0


def optimizer(parameters: list[nn.Parameter], keywords: Mapping[str, Any]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=1e-3, **keywords)


def evaluate(model: nn.Module, folder: Path, size: Size, recipe: Recipe, device: torch.device) -> Evaluation:
    with torch.inference_mode() if recipe.inference_mode else torch.no_grad():
        for _ in range(size.evaluation_items):
            model(torch.zeros(1, 1))
    return Evaluation(items=size.evaluation_items, score=1.0)


def effective(built: Built) -> Mapping[str, Value]:
    return {"in_memory_data": cast("Items", built.dataset).item_s == 0.0, "layout": "line"}


WORKLOAD = Workload(
    name="oracle",
    title="Known sleeps",
    origin="invented",
    parameters=2,
    traits=frozenset({"in_memory_data", "evaluation"}),
    sizes={
        "quick": Size(
            batch=BATCH, epoch_steps=EPOCH_STEPS, evaluation_items=2, data_bytes=100, shape={}, original_epoch_steps=3
        )
    },
    parts=lambda: Parts(
        prepare=prepare,
        model=lambda _size, _recipe: Slow(),
        loss=lambda _size, _recipe: nn.MSELoss(),
        optimizer=optimizer,
        dataset=lambda _folder, _size, recipe: Items(recipe),
        evaluate=evaluate,
        effective=effective,
    ),
    original=("workers=1",),
)
