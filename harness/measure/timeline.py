"""Over time: how busy the device is while a training runs, and when the training waits for a batch."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from time import perf_counter
from typing import Any

from harness.core.optimization import Timing
from harness.core.recipe import Value
from harness.core.workload import Timeline
from harness.measure.gpu import Driver
from harness.measure.session import Task
from harness.measure.trial import UNTIMED, begin

PERIOD_S = (
    1 / 6
)  # the shortest over which a driver tells how busy its device is, and so the finest that nvidia-smi shows
LEAD_S = 1.0  # of steps before, until the loader's queue is what it is in a long training

Spans = Sequence[tuple[float, float]]  # when each of several things began and ended


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

    asking = Thread(target=ask, daemon=True)
    if driver.ask("nvmlDeviceGetUtilizationRates") is not None:
        asking.start()
    yield told
    if asking.ident:
        asking.join(2 * PERIOD_S)
        over.set()
