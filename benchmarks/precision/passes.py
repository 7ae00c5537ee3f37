"""The work that every tool times: a step of so many passes, each a whole training step of a small model.

A step of 21 passes does the work of one of 20 passes 21/20 times. So the true ratio of the two is 1.05 whatever the
machine does, and nothing has to be calibrated.
"""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import cycle

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.precision.told import counts

ITEMS, BATCH, CLASSES = 512, 8, 10
LEARNING_RATE = 1e-4  # small: whatever is learned, no number becomes so small that arithmetic slows down


def network() -> nn.Module:
    """About a millisecond's work for each pass on one core."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 5), nn.ReLU(), nn.Flatten(),
        nn.Linear(1600, CLASSES),
    )  # fmt: skip


@cache
def pictures() -> tuple[Tensor, Tensor]:
    """All pictures (512, 1, 32, 32) and their classes: noise with random labels, the same every time."""
    random = np.random.default_rng(0)
    values = random.normal(size=(ITEMS, 1, 32, 32)).astype(np.float32)
    return torch.from_numpy(values), torch.from_numpy(random.integers(0, CLASSES, size=ITEMS))


def optimizer_of(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    """The same update in every tool."""
    return torch.optim.SGD(parameters, lr=LEARNING_RATE, foreach=False)


def one_pass() -> Callable[[], None]:
    """A training step: a batch out of memory, forward, backward, update."""
    model, criterion, order = network(), nn.CrossEntropyLoss(), _order()
    optimizer = optimizer_of(list(model.parameters()))
    values, classes = pictures()

    def train() -> None:
        index = next(order)
        loss = criterion(model(values[index]), classes[index])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)

    return train


def _order() -> Iterator[Tensor]:
    """Batches of one shuffled order, again and again."""
    return cycle(torch.randperm(ITEMS, generator=torch.Generator().manual_seed(0)).split(BATCH))


@cache
def step(variant: int) -> Callable[[], None]:
    """The step of the reference (0) or of the treatment (1), built when it is first asked for."""
    train, count = one_pass(), counts()[variant]

    def whole() -> None:
        for _ in range(count):
            train()

    return whole
