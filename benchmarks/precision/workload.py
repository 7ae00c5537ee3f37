"""The same work as a workload of speedmatrix: the step is the last of the passes, the device stage takes the others.

What the harness's own step costs beside a pass, such as its loader, moves the true ratio by less than 0.05 %: half a
pass more in both arms would make 21/20 into 21.5/20.5, which is 1.0488.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from benchmarks.precision.passes import BATCH, ITEMS, network, one_pass, optimizer_of, pictures
from harness.core.recipe import Recipe, Value
from harness.core.workload import Built, Parts, Size, Workload

SIZE = Size(
    batch=BATCH, epoch_steps=ITEMS // BATCH, evaluation_items=0, data_bytes=0, shape={},
    original_epoch_steps=ITEMS // BATCH, step_s=0.02,
)  # fmt: skip


class Pictures(Dataset[tuple[Tensor, Tensor]]):
    """The pictures in memory, one at a time."""

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        values, classes = pictures()
        return values[index], classes[index]


class PassesBefore:
    """All passes of a step but the harness's own; `taken` counts those of the last step."""

    def __init__(self, count: int) -> None:
        self.count, self.taken, self.train = count, 0, one_pass()

    def __call__(self, batch: Any) -> tuple[Tensor, Tensor]:
        """Trains, then hands the batch on as it is."""
        self.taken = 0
        with torch.enable_grad():  # the harness looks at a model without gradients before it times anything
            for _ in range(self.count - 1):
                self.train()
                self.taken += 1
        inputs, targets = batch
        return inputs, targets


def device_stage(_folder: Path, _size: Size, recipe: Recipe, _device: torch.device) -> PassesBefore:
    """The passes that the recipe asks for."""
    return PassesBefore(int(recipe.choice("passes") or 0))


def effective(built: Built) -> Mapping[str, Value]:
    """How many passes the last step took, the harness's own among them."""
    stage = built.device_stage
    return {"passes": stage.taken + 1} if isinstance(stage, PassesBefore) else {}


PARTS = Parts(
    model=lambda *_: network(),
    loss=lambda *_: nn.CrossEntropyLoss(),
    optimizer=lambda parameters, _kernel: optimizer_of(parameters),
    dataset=lambda *_: Pictures(),
    device_stage=device_stage,
    effective=effective,
)
WORKLOAD = Workload(
    name="passes",
    title="Steps of so many passes",
    origin="invented",
    parameters=19_434,
    traits=frozenset({"convolutions"}),
    sizes={"quick": SIZE},
    parts=lambda: PARTS,
    own={"passes": 21},
)
