"""The loop by hand is the plain session's twin: the same losses to the last bit, on every workload."""

from pathlib import Path

import pytest

from benchmarks.overhead.by_hand import step_by_hand
from harness.measure.devices import settle_backend
from harness.measure.session import open_session
from tests.measure.tasks import CATALOGUE, task_of

SLOW_STEPS = {"patches3d": 2, "imagenet": 3, "spoof": 3}
USUAL_STEPS = 9  # across an epoch's end


@pytest.mark.parametrize("name", sorted(CATALOGUE.workloads))
def test_the_loop_by_hand_gives_the_losses_of_the_session(name: str, smoke_data: dict[str, Path]) -> None:
    task = task_of(name, smoke_data[name], ())
    settle_backend(task.recipe)
    steps = SLOW_STEPS.get(name, USUAL_STEPS)
    by_hand = step_by_hand(task)
    expected = [by_hand() for _ in range(steps)]
    step = open_session(task).step()
    assert [float(step()) for _ in range(steps)] == expected
    assert len(set(expected)) == steps
