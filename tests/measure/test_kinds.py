"""Memory by kind, of a network whose every tensor is known."""

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from harness.core.workload import Parts
from harness.measure.kinds import memory_by_kind
from harness.measure.session import open_session
from tests.measure.test_windows import BATCH, task_with

WIDTH = 16


class Pairs(Dataset[tuple[Tensor, Tensor]]):
    """Four numbers and two."""

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return torch.full((4,), float(index)), torch.zeros(2)


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(4, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2))


def measured(**choices: object) -> dict[str, int]:
    task = task_with(**choices)
    parts = Parts(
        model=lambda *_: network(), loss=lambda *_: nn.MSELoss(), dataset=lambda *_: Pairs(),
        optimizer=lambda parameters, kernel: torch.optim.Adam(parameters, lr=1e-3, **kernel),
    )  # fmt: skip
    session = open_session(replace(task, parts=parts))
    session.step()()
    found = memory_by_kind(session.trainee, session.feed.fetch())
    session.feed.close()
    return found


def test_every_byte_of_a_small_step_is_told_by_its_kind() -> None:
    numbers = 4 * WIDTH + WIDTH + 2 * WIDTH + 2
    tensors = 4
    assert measured() == {
        "weights": 4 * numbers,
        "gradients": 4 * numbers,
        "optimizer": 4 * (2 * numbers + tensors),  # both moments, and a step count for each tensor
        # What ReLU gave, which the second layer takes too, and what the loss was given.
        "kept for the backward pass": 4 * BATCH * (WIDTH + 2),
        "batch": 4 * BATCH * (4 + 2),
    }


def test_lower_precision_keeps_smaller_activations_and_copies_of_weights() -> None:
    """What ReLU gave, the second layer's weights and the input in 2 bytes; what the loss was given in 4."""
    lower = measured(autocast="bfloat16")
    assert lower["weights"] == measured()["weights"]
    assert lower["kept for the backward pass"] == 2 * (BATCH * WIDTH + 2 * WIDTH + BATCH * 4) + 4 * BATCH * 2
