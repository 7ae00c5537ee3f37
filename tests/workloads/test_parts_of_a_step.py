"""An option that is timed on the loader alone leaves the step as it is, and one that is timed on the step the batches.

With real data and real models: the same batches give the same losses to the last bit, or the same batches come.
"""

from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.core.configuration import Comparison, Option
from harness.core.optimization import Optimization, Timing
from harness.measure.feed import open_feed
from harness.measure.phases import phases_for
from harness.measure.session import Task, open_trainee, step_of
from harness.plan.designs import stages
from harness.plan.feasibility import hindrance
from tests.measure.tasks import CATALOGUE, ENVIRONMENT, scope_of, task_of

torch.set_num_threads(1)
PARTS = [
    (name, one.name)
    for name, workload in sorted(CATALOGUE.workloads.items())
    for one in CATALOGUE.of(workload)
    if one.alone_on and one.start_s < 10 and not one.requires and hindrance(scope_of(workload), one) is None
]


def option_of(optimization: Optimization) -> Option:
    return Option(name=optimization.name, level=optimization.usual_level(ENVIRONMENT))


def batches_of(task: Task) -> list[Any]:
    feed = open_feed(task.parts.dataset(task.data, task.size, task.recipe), task.size, task.recipe, 0, endless=True)
    found = [feed.fetch() for _ in range(2)]
    feed.close()
    return found


def losses_on(task: Task, batches: list[Any]) -> list[float]:
    trainee = open_trainee(task, phases_for(task.device))
    step = step_of(trainee, cycle(batches).__next__)
    return [float(step()) for _ in batches]


@pytest.mark.parametrize(("name", "option"), PARTS)
def test_a_part_is_all_that_an_option_changes(name: str, option: str, smoke_data: dict[str, Path]) -> None:
    optimization = CATALOGUE.optimizations[option]
    ours = task_of(name, smoke_data[name], (str(option_of(optimization)),))
    usual = task_of(name, smoke_data[name], ())
    expected, found = batches_of(usual), batches_of(ours)
    shapes = [[(part.shape, part.dtype) for part in batch] for batch in expected]
    assert [[(part.shape, part.dtype) for part in batch] for batch in found] == shapes
    if optimization.alone_on is Timing.LOADER:
        assert losses_on(ours, expected) == losses_on(usual, expected)
    else:
        pairs = (
            (one, other)
            for got, want in zip(found, expected, strict=True)
            for one, other in zip(got, want, strict=True)
        )
        assert all(torch.equal(one, other) for one, other in pairs)


def test_parts_are_told_apart_on_every_workload() -> None:
    told = {(name, CATALOGUE.optimizations[option].alone_on) for name, option in PARTS}
    assert told == {(name, part) for name in CATALOGUE.workloads for part in (Timing.LOADER, Timing.COMPUTE)}


@pytest.mark.parametrize("name", sorted(CATALOGUE.workloads))
def test_everything_and_the_cause_come_first(name: str) -> None:
    workload = CATALOGUE.workloads[name]
    found = [one for one in stages(scope_of(workload)) if isinstance(one, Comparison)]
    assert [one.label.partition("=")[0] for one in found[:2]] == ["all", *workload.first_look[:1]]
    assert [one.timing for one in found[:3]] == [Timing.STEP, Timing.STEP, Timing.LOADER]
    loading = [one.label for one in found if one.timing is Timing.LOADER]
    assert loading[-1] == found[1].label not in loading[:-1], "it has a ratio of steps already"


@pytest.mark.parametrize("name", sorted(CATALOGUE.workloads))
def test_a_loader_that_takes_nearly_all_of_a_step_is_not_timed_alone(name: str) -> None:
    """At the real systems' sizes whole steps of four take no longer, and need no composing."""
    scope = scope_of(CATALOGUE.workloads[name])
    large = replace(scope, reference=replace(scope.reference, size="standard"))
    timings = {one.timing for one in stages(large) if isinstance(one, Comparison)}
    assert (Timing.LOADER in timings) == (name == "leak"), "whose step takes an H200 a while"
    assert (Timing.COMPUTE in timings) == (name != "patches3d")


@pytest.mark.parametrize("varying", [False, True])
def test_no_step_is_timed_alone_where_items_have_shapes_of_their_own(*, varying: bool) -> None:
    workload = CATALOGUE.workloads["leak"]
    told = replace(workload, traits=workload.traits | ({"varying_shapes"} if varying else set()))
    timings = {one.timing for one in stages(scope_of(told)) if isinstance(one, Comparison)}
    assert Timing.LOADER in timings
    assert (Timing.COMPUTE in timings) is not varying
