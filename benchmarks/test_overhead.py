"""What the harness itself costs: its step against the same step written by hand, on a model that does almost nothing.

    ./speedmatrix test benchmarks/test_overhead.py --benchmark-only

The difference of the two means is the harness's cost for each step; it should stay below 5 microseconds.
"""

from collections.abc import Callable
from itertools import repeat
from typing import Any

import pytest
import torch
from torch import nn

from harness.core.recipe import Recipe
from harness.measure.phases import CpuPhases
from harness.measure.session import autocast_for, transfer_to
from harness.measure.step import Bound, plain_step
from harness.measure.update import EagerMetrics, plain_backward, plain_update

BATCH = (torch.ones(1, 1), torch.ones(1, 1))


def by_hand() -> Callable[[], Any]:
    """Five lines, as in any tutorial."""
    model, criterion, total = nn.Linear(1, 1), nn.MSELoss(), [0.0]
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, foreach=False, fused=False)
    batches = repeat(BATCH)

    def step() -> None:
        inputs, targets = next(batches)
        inputs, targets = inputs.to("cpu"), targets.to("cpu")
        loss = criterion(model(inputs), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        total[0] += loss.item()

    return step


def by_harness() -> Callable[[], Any]:
    """The step that every arm runs, with its phases."""
    model, phases, recipe, device = nn.Linear(1, 1), CpuPhases(), Recipe(), torch.device("cpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, foreach=False, fused=False)
    return plain_step(
        Bound(
            fetch=phases.waiting(repeat(BATCH).__next__),
            transfer=phases.copying(transfer_to(device, recipe)),
            model=model,
            loss=nn.MSELoss(),
            autocast=autocast_for(device, recipe),
            backward=plain_backward,
            update=phases.finishing(plain_update(optimizer, set_to_none=False)),
            record=EagerMetrics().record,
        )
    )


@pytest.mark.parametrize("step", [by_hand, by_harness])
def test_step(benchmark: Any, step: Callable[[], Callable[[], Any]]) -> None:
    """One step, timed as pytest-benchmark times."""
    torch.set_num_threads(1)
    benchmark.pedantic(step(), rounds=2000, iterations=5, warmup_rounds=200)
