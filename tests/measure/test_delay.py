"""Added delays: as long as they say, in the place that they name, and absent where nobody asked for one."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest
import torch
from torch import Tensor

from harness.core.configuration import CONTROLS, DELAY_S
from harness.core.optimization import Timing
from harness.core.protocol import UNTIMED
from harness.core.recipe import Recipe
from harness.measure import delay as delays
from harness.measure import trial
from harness.measure.cuda import Cuda
from harness.measure.delay import Delay, begun, delay_of, spin
from harness.measure.devices import Device, settle_backend, timed
from harness.measure.session import Session, Task, open_session
from tests.measure.tasks import task_of
from tests.measure.test_gpu import gpu

CPU = Device("cpu")


@pytest.fixture(autouse=True)
def _plain_backend_afterwards() -> Iterator[None]:
    """An arm's options belong to its process; these tests share one."""
    yield
    settle_backend(Recipe())


def host_delay(share: float = 0.1) -> Delay:
    return Delay(place="host", share=share, device=CPU)


def begin(task: Task, place: str | None) -> dict[str, Any]:
    proof = {"added_delay": place} if place else {}
    begun_trial, ready = trial.begin(task, Timing.STEP, replace(UNTIMED, loss_steps=3), proof, other_seeds=False)
    begun_trial.session.feed.close()
    return ready


def pauses_spun(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds of every pause that the host is asked for from now on."""
    spun: list[float] = []

    def spin_and_tell(seconds: float) -> None:
        spun.append(seconds)
        spin(seconds)

    monkeypatch.setattr(delays, "spin", spin_and_tell)
    return spun


def test_a_spin_takes_as_long_as_it_was_told() -> None:
    took = []
    for _ in range(20):
        began = perf_counter()
        spin(0.002)
        took.append(perf_counter() - began)
    assert min(took) >= 0.002
    assert min(took) < 0.0021  # others may take the core, but not every time


@pytest.fixture
def _steps_of_ten_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """As timed: whatever else this machine does meanwhile."""
    monkeypatch.setattr(delays, "timed", lambda _step, steps, _device: 0.01 * steps)


@pytest.mark.usefixtures("_steps_of_ten_milliseconds")
def test_a_delay_has_no_length_before_it_begins_and_a_share_of_a_step_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    delay, spun = host_delay(), pauses_spun(monkeypatch)
    delay.record(torch.zeros(()))
    assert spun == []
    shown = begun(delay, lambda: delay.record(torch.zeros(())), 10)
    assert spun == [pytest.approx(0.001)] * 10
    assert shown["added_delay"] == "host"
    assert shown[DELAY_S] >= delay.seconds  # and longer where a neighbour took the core in most of them


def test_a_delay_that_a_step_does_not_take_is_not_seen() -> None:
    shown = begun(host_delay(), lambda: spin(0.005), 4)
    assert shown == {"added_delay": None, DELAY_S: 0.0}


@pytest.mark.usefixtures("_steps_of_ten_milliseconds")
def test_a_delay_of_another_length_is_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    delay = host_delay()
    monkeypatch.setattr(delays, "spin", lambda seconds: spin(1.2 * seconds))
    shown = begun(delay, lambda: delay.record(torch.zeros(())), 10)
    assert shown["added_delay"] is None
    assert shown[DELAY_S] >= 0.0012


@pytest.mark.usefixtures("_steps_of_ten_milliseconds")
def test_a_delay_of_the_device_keeps_its_length_at_the_clock_of_a_device_at_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    idle, at_work, slept = 2e9, 1.7e9, list[int]()  # cycles a second

    def between(_device: Device, pause: Callable[[], object]) -> Callable[[], float]:
        pause()
        seconds = slept[-1] / at_work
        return lambda: seconds

    monkeypatch.setattr(torch.cuda, "_sleep", slept.append)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _device: None)
    monkeypatch.setattr(delays, "cycles_per_s", lambda _device: idle)
    monkeypatch.setattr(delays, "_between_events", between)
    delay = Delay(place="device", share=0.1, device=Cuda("cpu"))
    shown = begun(delay, delay.after(lambda: None), 10)
    assert shown == {"added_delay": "device", DELAY_S: pytest.approx(0.001, rel=1e-3)}


def test_fetch_and_update_do_what_they_did_and_pause_once() -> None:
    delay, paused = host_delay(), []
    delay.pause = lambda: paused.append(1)

    def update(number: int, *, more: int) -> int:
        return number + more

    assert delay.before(lambda: "batch")() == "batch"
    assert delay.after(update)(1, more=2) == 3
    assert len(paused) == 2


def delayed(place: str, folder: Path) -> Task:
    """A task of the control, which the catalogue's composition knows by name."""
    task = task_of("leak", folder, ())
    return replace(task, recipe=replace(task.recipe, added_delay=place, delay_percent=30))


@pytest.mark.parametrize("place", ["loader", "host"])
def test_an_arm_shows_its_delay_and_learns_the_same_bits(place: str, smoke_data: dict[str, Path]) -> None:
    plain = begin(task_of("leak", smoke_data["leak"], ()), None)
    for _ in range(3):  # neighbours that take the core lengthen most pauses of a try
        ready = begin(delayed(place, smoke_data["leak"]), place)
        assert ready["losses"] == plain["losses"]
        if not ready["inactive"]:
            break
    assert ready["inactive"] == ()
    assert ready["effective"][DELAY_S] > 0
    assert DELAY_S not in plain["effective"]


def test_an_arm_whose_delay_is_lost_is_not_engaged(
    smoke_data: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Delay, "begin", lambda delay, step_s: setattr(delay, "seconds", delay.share * step_s))
    ready = begin(delayed("host", smoke_data["leak"]), "host")
    assert ready["inactive"] == ("added_delay is None, not host",)


@pytest.mark.parametrize("place", ["loader", "host"])
def test_every_step_pauses_once_and_for_the_whole_delay(
    place: str, smoke_data: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted, and bounded from below only: what a busy machine adds to a step says nothing of the delay."""
    session = open_session(delayed(place, smoke_data["leak"]))
    step, delay = session.step(), session.trainee.delay
    assert delay is not None
    step()
    spun = pauses_spun(monkeypatch)
    delay.begin(1.0)
    assert timed(step, 5, CPU) >= 5 * 0.3
    assert spun == [pytest.approx(0.3)] * 5
    session.feed.close()


def test_a_loaders_delay_counts_as_waiting_and_a_hosts_does_not(smoke_data: dict[str, Path]) -> None:
    waits = {}
    for place in ("loader", "host"):
        session = open_session(delayed(place, smoke_data["leak"]))
        step, delay = session.step(), session.trainee.delay
        assert delay is not None
        step()
        delay.begin(1.0)
        session.phases.split()
        waits[place] = min(_waited(session, step) for _ in range(3))  # a busy machine waits, but not every time
        session.feed.close()
    assert waits["loader"] > 0.3 > waits["host"]


def _waited(session: Session, step: Callable[[], object]) -> float:
    step()
    return session.phases.split().wait_s


def test_nothing_is_bound_where_no_delay_is_asked_for(smoke_data: dict[str, Path]) -> None:
    session = open_session(task_of("leak", smoke_data["leak"], ()))
    assert delay_of(session.task.recipe, CPU) is None
    assert session.trainee.delay is None
    assert session.fetch == session.feed.fetch
    assert session.trainee.bound.record == session.trainee.metrics.record


def test_every_place_of_a_control_is_one_that_a_session_binds() -> None:
    assert {one.sets["added_delay"] for one in CONTROLS.values()} == {"loader", "host", "device"}


@pytest.mark.gpu
def test_a_device_sleeps_as_long_as_it_was_told() -> None:
    gpu("a delay of the device lasts as long as it was told, within 5 %")
    device = Cuda("cuda")
    delay = Delay(place="device", share=0.5, device=device)
    work = torch.zeros(1, device=device.torch)

    def step() -> Tensor:
        value = work + 1
        delay.pause()
        return value

    delay.begin(0.02)
    lengths = delay.lengths(step, 10)
    assert len(lengths) == 10
    assert sorted(lengths)[5] == pytest.approx(0.01, rel=0.05)
    assert timed(step, 10, device) == pytest.approx(0.1, rel=0.1)
