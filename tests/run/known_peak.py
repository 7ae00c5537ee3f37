"""A workload whose memory is known: each step and each item allocate, touch and free so many MiB."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from harness.core.workload import Parts, Size, Workload

STEP_MIB, ITEM_MIB = (int(one) for one in os.environ.get("KNOWN_PEAK", "0,0").split(","))


def touch(mebibytes: int) -> None:
    """Holds so much memory for a moment."""
    torch.ones(mebibytes << 18)


class Items(Dataset[tuple[Tensor, Tensor]]):
    """Points of a line, each with memory of its own while it is read."""

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        touch(ITEM_MIB)
        return torch.tensor([index / 10]), torch.tensor([index / 5])


class Large(nn.Module):
    """A line whose forward pass needs memory for a moment."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(1, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        touch(STEP_MIB)
        result: Tensor = self.line(inputs)
        return result


def optimizer(parameters: list[nn.Parameter], keywords: Mapping[str, Any]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=1e-6, **keywords)


def dataset(_folder: Path, *_: object) -> Dataset[tuple[Tensor, Tensor]]:
    return Items()


SIZE = Size(batch=1, epoch_steps=1000, evaluation_items=1, data_bytes=0, shape={}, original_epoch_steps=1000)
PARTS = Parts(
    model=lambda *_: Large(), loss=lambda *_: nn.MSELoss(), optimizer=optimizer, dataset=dataset,
)  # fmt: skip
WORKLOAD = Workload(
    name="known_peak", title="Known memory", origin="invented", parameters=2, traits=frozenset(),
    sizes={"quick": SIZE}, parts=lambda: PARTS,
)  # fmt: skip
