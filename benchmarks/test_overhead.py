"""What the harness itself costs: its step against the same step written by hand, on a model that does almost nothing.

    ./speedmatrix test benchmarks/test_overhead.py                     # holds the limit
    ./speedmatrix test benchmarks/test_overhead.py --benchmark-only    # shows the times

The harness's cost of a step is what the two differ by. It is looked at twice: in the plain step, and in one that does
all that can be switched on in a step on this machine, so that the loop by hand has the same work to do. The limit is
held by pairs: both loops in one process, in turns, the harness's with a stamp for each step, as windows have them.
For the times pytest-benchmark is the clock; torch is imported when a step is built, so that nobody waits for a list.
"""

import sys
from collections.abc import Callable, Sequence
from itertools import repeat
from math import sqrt
from os import getloadavg
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import psutil
import pytest

from harness.core.recipe import Recipe
from harness.core.workload import Parts, Size
from harness.measure.surroundings import usable_cores

LIMIT_S = 5e-6
STEPS_A_TURN, PAIRS, MOST_PAIRS = 20, 500, 4000  # more pairs where fewer do not decide
PLAIN = Recipe()
FULL = Recipe(
    autocast="bfloat16",
    set_to_none=True,
    clip_kernel="foreach",
    deferred_metrics=True,
    finite_check=True,
    loss_history="preallocated",
    monitoring_steps=50,
)
Step = Callable[[], Any]


def plain_by_hand() -> Step:
    """Five lines, as in any tutorial."""
    import torch
    from torch import nn

    model, criterion, total = nn.Linear(1, 1), nn.MSELoss(), [0.0]
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, foreach=False, fused=False)
    batches = repeat((torch.ones(1, 1), torch.ones(1, 1)))

    def step() -> None:
        inputs, targets = next(batches)
        inputs, targets = inputs.to("cpu"), targets.to("cpu")
        loss = criterion(model(inputs), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        total[0] += loss.item()

    return step


def full_by_hand() -> Step:
    """The same with everything that `FULL` asks for, in one function."""
    import torch
    from torch import nn

    model, criterion, total = nn.Linear(1, 1), nn.MSELoss(), [torch.zeros(())]
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, foreach=False, fused=False)
    parameters = list(model.parameters())
    batches, process = repeat((torch.ones(1, 1), torch.ones(1, 1))), psutil.Process()
    history, count = [torch.zeros(1024)], [0]

    def step() -> None:
        inputs, targets = next(batches)
        inputs, targets = inputs.to("cpu"), targets.to("cpu")
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = criterion(model(inputs), targets)
        if torch.isnan(loss):
            raise RuntimeError("the loss is NaN")
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1e9, foreach=True)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        total[0] = total[0] + loss.detach()
        if count[0] == len(history[0]):
            history[0] = torch.cat([history[0], torch.zeros_like(history[0])])
        history[0][count[0]] = loss.detach()
        if count[0] % 50 == 0:
            process.memory_info()
            process.cpu_percent()
        count[0] += 1

    return step


def by_harness(recipe: Recipe) -> Step:
    """The step that an arm with this recipe runs, with its phases."""
    import torch
    from torch import nn

    from harness.measure.phases import CpuPhases
    from harness.measure.session import Task, open_trainee, step_of

    phases = CpuPhases()
    size = Size(batch=1, epoch_steps=1, evaluation_items=1, data_bytes=0, shape={}, original_epoch_steps=1)
    parts = Parts(
        model=lambda _size, _recipe: nn.Linear(1, 1),
        loss=lambda _size, _recipe: nn.MSELoss(),
        optimizer=lambda parameters, kernel: torch.optim.SGD(parameters, lr=1e-6, **kernel),
        dataset=lambda *_: [],  # type: ignore[arg-type,return-value]
        clip_norm=1e9 if recipe == FULL else None,
    )
    task = Task(parts=parts, size=size, recipe=recipe, data=Path(), device=torch.device("cpu"), seed=0, endless=True)
    batches = repeat((torch.ones(1, 1), torch.ones(1, 1)))
    return step_of(open_trainee(task, phases), phases.waiting(batches.__next__))


STEPS = {
    "plain by hand": plain_by_hand,
    "plain by harness": lambda: by_harness(PLAIN),
    "full by hand": full_by_hand,
    "full by harness": lambda: by_harness(FULL),
}


@pytest.mark.parametrize("name", STEPS)
def test_step(benchmark: Any, name: str) -> None:
    """One step, timed as pytest-benchmark times."""
    import torch

    torch.set_num_threads(1)
    benchmark.group = f"{name.partition(' ')[0]} step of a model that does almost nothing"
    benchmark.pedantic(STEPS[name](), rounds=2000, iterations=5, warmup_rounds=200)


@pytest.mark.alone
@pytest.mark.parametrize("kind", ["plain", "full"])
def test_the_harness_costs_a_few_microseconds_a_step(kind: str) -> None:
    """The median of paired differences lies below the limit, with its whole 95 % interval."""
    import torch

    torch.set_num_threads(1)
    ours, theirs = STEPS[f"{kind} by harness"](), STEPS[f"{kind} by hand"]()
    by_hand_s(theirs), by_harness_s(ours)
    costs_s: list[float] = []
    while True:
        costs_s += [cost_of_a_step(ours, theirs, harness_first=pair % 2 == 0) for pair in range(PAIRS)]
        low_s, middle_s, high_s = median_of(costs_s)
        if high_s < LIMIT_S or low_s > LIMIT_S or len(costs_s) >= MOST_PAIRS:
            break
    said = f"{1e6 * middle_s:.2f} us [{1e6 * low_s:.2f}, {1e6 * high_s:.2f}] in {len(costs_s)} pairs"
    sys.stdout.write(f"{kind} step: {said}\n")
    if high_s >= LIMIT_S and getloadavg()[0] > usable_cores():
        pytest.skip(f"the machine is busy; would check that the harness adds less than 5 us to a step: {said}")
    assert high_s < LIMIT_S, said


def cost_of_a_step(ours: Step, theirs: Step, *, harness_first: bool) -> float:
    """What a pair of turns differs by, for one step."""
    if harness_first:
        return by_harness_s(ours) - by_hand_s(theirs)
    return -by_hand_s(theirs) + by_harness_s(ours)


def by_hand_s(step: Step) -> float:
    """The mean of a few steps in a loop of one's own."""
    began = perf_counter()
    for _ in range(STEPS_A_TURN):
        step()
    return (perf_counter() - began) / STEPS_A_TURN


def by_harness_s(step: Step) -> float:
    """The mean of as many steps as a window times them."""
    import torch

    from harness.measure.clock import stamped

    stamps = stamped(step, STEPS_A_TURN, torch.device("cpu"))
    return (stamps[-1] - stamps[0]) / STEPS_A_TURN


def median_of(values: Sequence[float]) -> tuple[float, float, float]:
    """The median between the ends of its 95 % interval, by the signs of the values alone."""
    found, half = sorted(values), len(values) / 2
    reach = 0.98 * sqrt(len(found))
    return found[int(half - reach)], median(found), found[int(half + reach) + 1]
