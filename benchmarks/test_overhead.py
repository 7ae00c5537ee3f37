"""What the harness itself costs: its step against the same step written by hand, on a model that does almost nothing.

    ./speedmatrix test benchmarks/test_overhead.py                     # holds the limit
    ./speedmatrix test benchmarks/test_overhead.py --benchmark-only    # shows the times
    ./speedmatrix test benchmarks/test_overhead.py -m gpu              # beside a GPU: what the events of a step cost

The harness's cost of a step is what the two differ by. It is looked at twice: in the baseline step, and in one that
does all that can be switched on in a step on this machine, so that the loop by hand has the same work to do. Here
pytest-benchmark itself is the clock; torch is imported when a step is built, so that nobody waits for it to see a list.
"""

from collections.abc import Callable
from itertools import repeat
from os import getloadavg
from pathlib import Path
from time import perf_counter
from typing import Any

import psutil
import pytest

from harness.core.parallel import usable_cores
from harness.core.recipe import Recipe
from harness.core.workload import Parts, Size

LIMIT_S = 10e-6  # for slow cores; half of it on one that is fast and left alone
EVENTS_LIMIT_S = 50e-6  # of a step's four events and what is done around them: a guess until a GPU was measured
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


def plain_by_hand(device: str = "cpu") -> Step:
    """Five lines, as in any tutorial."""
    import torch
    from torch import nn

    model, criterion, total = nn.Linear(1, 1).to(device), nn.MSELoss(), [0.0]
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, foreach=False, fused=False)
    batches = repeat((torch.ones(1, 1), torch.ones(1, 1)))

    def step() -> None:
        inputs, targets = next(batches)
        inputs, targets = inputs.to(device), targets.to(device)
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


def by_harness(recipe: Recipe, device: str = "cpu") -> tuple[Step, Any]:
    """The step that an arm with this recipe runs, and its phases."""
    import torch
    from torch import nn

    from harness.measure.devices import device_named
    from harness.measure.phases import phases_for
    from harness.measure.session import Task, open_trainee, step_of

    there = device_named(device)
    phases = phases_for(there)
    size = Size(batch=1, epoch_steps=1, evaluation_items=1, data_bytes=0, shape={}, original_epoch_steps=1)
    parts = Parts(
        model=lambda _size, _recipe: nn.Linear(1, 1),
        loss=lambda _size, _recipe: nn.MSELoss(),
        optimizer=lambda parameters, kernel: torch.optim.SGD(parameters, lr=1e-6, **kernel),
        dataset=lambda *_: [],  # type: ignore[arg-type,return-value]
        clip_norm=1e9 if recipe == FULL else None,
    )
    task = Task(parts=parts, size=size, recipe=recipe, data=Path(), device=there, seed=0, endless=True)
    batches = repeat((torch.ones(1, 1), torch.ones(1, 1)))
    return step_of(open_trainee(task, phases), phases.waiting(batches.__next__)), phases


STEPS = {
    "plain by hand": plain_by_hand,
    "plain by harness": lambda: by_harness(PLAIN)[0],
    "full by hand": full_by_hand,
    "full by harness": lambda: by_harness(FULL)[0],
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
    """The two in turns, each at its best, which is when nobody else disturbs it."""
    if getloadavg()[0] > usable_cores():
        pytest.skip("the machine is busy; would check that a step of the harness costs little more than one by hand")
    import torch

    torch.set_num_threads(1)
    ours, theirs = STEPS[f"{kind} by harness"](), STEPS[f"{kind} by hand"]()
    rounds = [(seconds_of(ours), seconds_of(theirs)) for _ in range(300)]
    cost_s = min(one for one, _ in rounds) - min(other for _, other in rounds)
    assert cost_s < LIMIT_S, f"{1e6 * cost_s:.1f} us"


@pytest.mark.alone
@pytest.mark.gpu
def test_the_events_of_a_step_cost_a_few_microseconds(capsys: pytest.CaptureFixture[str]) -> None:
    """Beside a GPU a step has four: around the copy, behind the update, and the mark by which windows are timed."""
    import torch

    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device; would check that a step with its events takes little more than one by hand")
    from harness.measure.devices import device_named, marked, timed

    torch.set_num_threads(1)
    device, times, theirs = device_named("cuda"), 20, plain_by_hand("cuda")
    ours, phases = by_harness(PLAIN, "cuda")

    def with_events() -> float:
        phases.forget()
        return timed(lambda: marked(ours, times, device), 1, device) / times

    rounds = [(with_events(), timed(theirs, times, device) / times) for _ in range(300)]
    least_s, least_by_hand_s = min(one for one, _ in rounds), min(other for _, other in rounds)
    cost_s = least_s - least_by_hand_s
    with capsys.disabled():
        print(f"\nThe events of a step cost {1e6 * cost_s:.1f} us beside {1e6 * least_by_hand_s:.0f} us by hand")
    assert cost_s < EVENTS_LIMIT_S, f"{1e6 * cost_s:.1f} us"


def seconds_of(step: Step, times: int = 20) -> float:
    """The mean of a few steps."""
    began = perf_counter()
    for _ in range(times):
        step()
    return (perf_counter() - began) / times
