"""What a training does beside being timed: operator by operator, in memory, and over time."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, profiler
from torch.utils._pytree import tree_leaves

from harness.core.optimization import Timing
from harness.core.protocol import UNTIMED
from harness.core.recipe import Value
from harness.core.workload import Timeline, Traced
from harness.measure.devices import Device
from harness.measure.gpu import Driver
from harness.measure.session import Task, Trainee
from harness.measure.trial import begin

# `trace`: a few steps under a profiler.

UNTRACED, MOST_OPERATORS = 3, 15  # steps that the profiler warms up with, and operators that are told


def trace(task: Task, proof: dict[str, Value], steps: int, path: str) -> Traced:
    """Profiles so many steps after a warm-up, and writes what the profiler saw to a file of Chrome's format."""
    trial, ready = begin(task, Timing.STEP, UNTIMED, proof, other_seeds=False)
    session, device = trial.session, task.device
    waited_s = 0.0

    def fetched() -> Any:
        nonlocal waited_s
        began = perf_counter()
        with profiler.record_function("wait for the next batch"):
            batch = session.feed.fetch()
        waited_s += perf_counter() - began
        return batch

    step = session.step_from(fetched)
    seen = profiler.profile(
        activities=profiler.supported_activities(), record_shapes=True, profile_memory=True,
        schedule=profiler.schedule(wait=0, warmup=UNTRACED, active=steps, repeat=1),
    )  # fmt: skip
    began = perf_counter()
    with seen:
        for number in range(UNTRACED + steps):
            if number == UNTRACED:
                device.synchronize()
                began, waited_s = perf_counter(), 0.0
            step()
            if number == UNTRACED + steps - 1:
                device.synchronize()
                step_s = (perf_counter() - began) / steps
            seen.step()
    memory = memory_by_kind(session.trainee, session.feed.fetch())
    session.feed.close()
    seen.export_chrome_trace(path)
    return Traced(
        step_s=step_s, waited=waited_s / steps / step_s, operators=tuple(_operators(seen, steps, device)),
        memory=memory, inactive=ready["inactive"],
    )  # fmt: skip


def _operators(seen: profiler.profile, steps: int, device: Device) -> Iterator[tuple[str, int, float]]:
    """Those that take longest by themselves, on the device where it is one of its own."""
    clock = "self_device_time_total" if device.asynchronous else "self_cpu_time_total"
    named = [one for one in seen.key_averages() if not one.key.startswith("ProfilerStep")]
    for one in sorted(named, key=lambda one: -getattr(one, clock))[:MOST_OPERATORS]:
        yield one.key, round(one.count / steps), getattr(one, clock) / 1e6 / steps


# Memory by kind: what a step keeps, and what for.


def memory_by_kind(trainee: Trainee, batch: Any) -> dict[str, int]:
    """Bytes of weights, gradients, the optimizer's state, a batch, and what a forward pass keeps for the backward one.

    Call it after an update, which leaves gradients and state. What is kept is counted by storage, once each, without
    weights and batch: on any device, and whatever an allocator rounds it up to.
    """
    bound, modules = trainee.bound, (trainee.model, trainee.loss)
    weights = [one for module in modules for one in (*module.parameters(), *module.buffers())]
    moved = bound.transfer(batch)
    kept: dict[int, int] = {}
    known = {_place(one) for one in (*weights, *_tensors(moved))}

    def keep(tensor: Tensor) -> Tensor:
        if _place(tensor) not in known:
            kept[_place(tensor)] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor), bound.autocast():
        value = bound.loss(bound.model(moved[0]), moved[1])
    del value
    return {
        "weights": _bytes(weights),
        "gradients": _bytes(one.grad for one in weights if one.grad is not None),
        "optimizer": _bytes(_tensors([one for state in trainee.optimizer.state.values() for one in state.values()])),
        "kept for the backward pass": sum(kept.values()),
        "batch": _bytes(_tensors(moved)),
    }


def _tensors(values: Any) -> Iterator[Tensor]:
    return (one for one in tree_leaves(values) if isinstance(one, Tensor))


def _place(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _bytes(tensors: Iterable[Tensor]) -> int:
    """Of all storages, each once."""
    return sum({_place(one): one.untyped_storage().nbytes() for one in tensors}.values())


# `timeline`: how busy the device is while a training runs, and when the training waits for a batch.

# The shortest over which a driver tells how busy its device is, and so the finest that nvidia-smi shows.
PERIOD_S = 1 / 6
LEAD_S = 1.0  # of steps before, until the loader's queue is what it is in a long training


def timeline(task: Task, proof: dict[str, Value], seconds: float) -> Timeline:
    """Trains for so long after a lead-in and notes what the device and the loader do meanwhile; no step is held up.

    A device whose driver tells is asked as nvidia-smi asks it. An emulated one notes its own work. A CPU is the device
    of whoever does not wait.
    """
    trial, ready = begin(task, Timing.STEP, UNTIMED, proof, other_seeds=False)
    session, device, waits = trial.session, task.device, list[tuple[float, float]]()

    def fetched() -> Any:
        began = perf_counter()
        batch = session.feed.fetch()
        waits.append((began, perf_counter()))
        return batch

    step = session.step_from(fetched)
    _steps_for(step, LEAD_S, least=session.feed.in_flight)
    device.synchronize()
    count, work, driver = round(seconds / PERIOD_S), device.work_log(), device.driver()
    began = perf_counter()
    with _asked(driver, count) as told:
        steps = _steps_for(step, count * PERIOD_S)
    session.feed.close()
    waiting = shares(waits, began, count)
    busy = tuple(told) or (tuple(1 - one for one in waiting) if work is None else shares(work, began, count))
    return Timeline(period_s=PERIOD_S, busy=busy, waiting=waiting, steps=steps, inactive=ready["inactive"])


def _steps_for(step: Callable[[], object], seconds: float, least: int = 0) -> int:
    ends, count = perf_counter() + seconds, 0
    while perf_counter() < ends or count < least:
        step()
        count += 1
    return count


def shares(spans: Iterable[tuple[float, float]], began: float, count: int) -> tuple[float, ...]:
    """The share of each of so many periods that spans cover, which do not overlap."""
    covered = [0.0] * count
    for start, end in spans:
        first, last = (max(0.0, (moment - began) / PERIOD_S) for moment in (start, end))
        for place in range(int(first), min(count, int(last) + 1)):
            covered[place] += max(0.0, min(last, place + 1) - max(first, place))
    return tuple(min(1.0, one) for one in covered)


@contextmanager
def _asked(driver: Driver, count: int) -> Iterator[list[float]]:
    """A list that a thread fills with what the driver tells at the end of each period; empty where none does."""
    told: list[float] = []
    over, began = Event(), perf_counter()

    def ask() -> None:
        while len(told) < count and not over.wait(began + (len(told) + 1) * PERIOD_S - perf_counter()):
            used = driver.ask("nvmlDeviceGetUtilizationRates")
            told.append(0.0 if used is None else used.gpu / 100)

    if driver.ask("nvmlDeviceGetUtilizationRates") is None:
        yield told
        return
    asking = Thread(target=ask, daemon=True)
    asking.start()
    try:
        yield told
        asking.join(2 * PERIOD_S)
    finally:
        over.set()
