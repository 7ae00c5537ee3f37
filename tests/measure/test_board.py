"""The board: read around a window and never in it, and silent wherever the driver is."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import torch

from harness.core.codec import decode, encode
from harness.core.environment import LAUNCHER
from harness.core.optimization import Timing
from harness.core.protocol import UNTIMED
from harness.core.records import Arm, Window, reasons
from harness.measure.cuda import Cuda
from harness.measure.devices import Device
from harness.measure.gpu import MEMORY_CLOCK, SM_CLOCK, Board, Driver, board_of, driver_of
from harness.measure.loop import gauge_for
from harness.measure.trial import begin
from tests.measure.planted import Mismatched, Nvml, Refused, Running
from tests.measure.tasks import task_of

CLOCKS = {SM_CLOCK: 1980, MEMORY_CLOCK: 3201}
WHOLE: dict[str, Any] = {
    "nvmlDeviceGetTotalEnergyConsumption": 12_500,
    "nvmlDeviceGetClockInfo": lambda _handle, kind: CLOCKS[kind],
    "nvmlDeviceGetCurrentClocksEventReasons": 0x05,
    "nvmlDeviceGetPowerUsage": 698_500,
    "nvmlDeviceGetTemperature": 61,
    "nvmlDeviceGetComputeRunningProcesses": [Running(os.getpid(), 3 << 30)],
}
NOTHING = {
    "energy_j": None,
    "clock_mhz": None,
    "memory_clock_mhz": None,
    "throttled": None,
    "watts": None,
    "temperature_c": None,
    "strangers": None,
    "process_bytes": None,
}


def board(launcher: int = 0, **answers: Any) -> Board:
    return Board(driver=Driver(Nvml(**answers), "handle"), launcher=launcher or os.getpid())


def beside(*pids: int) -> Board:
    """A device on which these processes compute, and this one."""
    return board(nvmlDeviceGetComputeRunningProcesses=[Running(one) for one in (os.getpid(), *pids)])


def test_arms_of_other_fork_servers_are_no_strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    """An arm's parent is the server that it was forked from, and its neighbour's is another one below the launcher."""
    monkeypatch.setenv(LAUNCHER, str(os.getpid()))
    sleeper = [sys.executable, "-c", "import time; time.sleep(60)"]
    server = [sys.executable, "-c", f"import subprocess; subprocess.Popen({sleeper!r}).wait()"]
    with subprocess.Popen(server) as one:
        while not (arms := psutil.Process(one.pid).children()):
            pass
        company = [Running(each) for each in (os.getpid(), one.pid, arms[0].pid)]
        driver = Driver(Nvml(nvmlDeviceGetComputeRunningProcesses=company), "handle")
        monkeypatch.setattr(Cuda, "driver", lambda _: driver)
        monkeypatch.setattr(os, "getppid", lambda: arms[0].pid)
        try:
            found = board_of(Cuda.__new__(Cuda))
            assert found.launcher == os.getpid()
            assert found.after(None, None, 1.0)["strangers"] == 0
        finally:
            arms[0].kill()


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as one:
        yield one
        one.kill()


@pytest.fixture
def adopted() -> Iterator[int]:
    """A process that nobody here has started: whoever did so has ended."""
    started = subprocess.run(
        ["/bin/sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!"], capture_output=True, text=True, check=True
    )  # no pipe is left open, or all 600 seconds would be waited for
    yield int(started.stdout)
    os.kill(int(started.stdout), signal.SIGKILL)


def test_all_that_a_driver_tells_is_a_field_of_the_burst() -> None:
    told = board(**WHOLE).after(strangers=None, energy_j=5.0)
    assert told == {
        "energy_j": 7.5,
        "clock_mhz": 1980.0,
        "memory_clock_mhz": 3201.0,
        "throttled": ("sw_power_cap",),
        "watts": 698.5,
        "temperature_c": 61.0,
        "strangers": 0,
        "process_bytes": 3 << 30,
    }
    assert set(told) == set(NOTHING) <= {one.name for one in fields(Window)}


@pytest.mark.parametrize("silence", [Refused(), Mismatched(), None])
def test_what_a_device_does_not_tell_is_none(silence: Exception | None) -> None:
    """Each function refused, one after the other, and all at once; a fraction of a device has few of them."""
    for missing in WHOLE:
        answers = {name: silence if name == missing else answer for name, answer in WHOLE.items()}
        told = board(**{name: one for name, one in answers.items() if one is not None}).after(0, 5.0)
        assert set(told) == set(NOTHING)
        assert None in told.values()
    assert board(**({} if silence is None else dict.fromkeys(WHOLE, silence))).after(None, None) == NOTHING


def test_a_cpu_has_a_board_that_knows_nothing() -> None:
    found = board_of(Device("cpu"))
    assert (found.strangers(), found.energy_j(), found.after(None, None)) == (None, None, NOTHING)


def test_a_counter_that_was_begun_anew_counts_nothing() -> None:
    assert board(**WHOLE).after(0, energy_j=13.0)["energy_j"] is None
    assert board(**WHOLE).after(0, energy_j=None)["energy_j"] is None
    assert board(**WHOLE).after(0, energy_j=12.5)["energy_j"] == 0.0


@pytest.mark.parametrize(
    ("mask", "names"),
    [
        (0x00, ()),
        (0x01, ()),  # idle
        (0x02, ()),  # clocks that somebody has set
        (0x04, ("sw_power_cap",)),
        (0x48, ("hw_slowdown", "hw_thermal")),
        (0xA0, ("sw_thermal", "hw_power_brake")),
    ],
)
def test_bits_become_the_names_of_what_holds_a_clock_down(mask: int, names: tuple[str, ...]) -> None:
    assert reasons(mask) == names
    assert board(nvmlDeviceGetCurrentClocksEventReasons=mask).after(None, None)["throttled"] == names
    older = board(nvmlDeviceGetCurrentClocksEventReasons=Refused(), nvmlDeviceGetCurrentClocksThrottleReasons=mask)
    assert older.after(None, None)["throttled"] == names


def test_the_launcher_s_other_arms_are_no_strangers(child: subprocess.Popen[bytes]) -> None:
    assert beside().strangers() == 0
    assert beside(child.pid).strangers() == 0
    os.kill(child.pid, signal.SIGSTOP)
    assert beside(child.pid).strangers() == 0, "suspended, it is still ours"


def test_whoever_was_not_started_by_the_launcher_is_a_stranger(adopted: int, child: subprocess.Popen[bytes]) -> None:
    assert beside(adopted).strangers() == 1
    assert beside(adopted, child.pid).strangers() == 1
    assert board(**WHOLE).after(strangers=2, energy_j=None)["strangers"] == 2, "gone now, there before"


def test_a_process_that_has_ended_is_nobody() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert not psutil.pid_exists(ended.pid)
    assert beside(ended.pid).strangers() == 0


def test_numbers_of_another_system_are_not_guessed_at() -> None:
    """A container's driver tells the host's numbers, or none: then who is there is not known."""
    for running in ([], [Running(1), Running(2)]):
        elsewhere = board(nvmlDeviceGetComputeRunningProcesses=running)
        assert elsewhere.strangers() is None
        assert elsewhere.after(None, None) == NOTHING


def test_a_device_is_found_by_the_identity_that_cuda_gives_it(monkeypatch: pytest.MonkeyPatch) -> None:
    handles = {"GPU-4f-2": "whole", "MIG-5e-3": "slice"}

    def by_identity(identity: str) -> str:
        if identity not in handles:
            raise Refused(identity)
        return handles[identity]

    nvml = Nvml(nvmlInit=None, nvmlDeviceGetHandleByUUID=by_identity, nvmlDeviceGetHandleByIndex=lambda index: index)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)  # type: ignore[arg-type]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert [driver_of(one).handle for one in ("4f-2", "5e-3", None)] == ["whole", "slice", 0]
    for visible, handle in (("3,1", 3), ("MIG-5e-3", "slice")):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert driver_of().handle == handle
    for hidden in ("", "-1", "none"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
        assert driver_of() == Driver()
    assert driver_of("6d-4") == Driver()
    nvml.answers["nvmlInit"] = Refused("Driver Not Loaded")
    assert driver_of() == Driver()
    monkeypatch.setitem(sys.modules, "pynvml", None)  # type: ignore[arg-type]
    assert driver_of() == Driver()


def test_a_script_s_gauge_finds_a_slice_too_and_leaves_out_what_its_driver_does_not_tell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def by_identity(identity: str) -> str:
        if identity.startswith("GPU-"):
            raise Refused(identity)
        return identity

    nvml = Nvml(
        nvmlInit=None,
        nvmlDeviceGetHandleByUUID=by_identity,
        nvmlDeviceGetMemoryInfo=SimpleNamespace(used=7),
        nvmlDeviceGetUtilizationRates=Refused("Not Supported"),
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)  # type: ignore[arg-type]
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _device: SimpleNamespace(uuid="5e-3"))
    assert gauge_for(Cuda("cuda"))() > 0
    asked = dict(nvml.asked)
    assert asked["nvmlDeviceGetMemoryInfo"] == asked["nvmlDeviceGetUtilizationRates"] == ("MIG-5e-3",)


def test_one_of_several_devices_tells_nothing_of_what_all_did(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cuda, "driver", lambda _: Driver(Nvml(**WHOLE), "handle"))
    device = Cuda.__new__(Cuda)
    assert board_of(device).after(None, 5.0)["energy_j"] == 7.5
    assert board_of(device, ranks=2).energy_j() is None
    assert board_of(device, ranks=2).after(None, None) == NOTHING


class Noting:
    """A board that notes when it is asked."""

    def __init__(self, said: list[str]) -> None:
        self.said = said

    def strangers(self) -> int:
        self.said.append("who is there")
        return 1

    def energy_j(self) -> float:
        self.said.append("counter")
        return 5.0

    def after(self, strangers: int | None, energy_j: float | None, share: float) -> dict[str, Any]:
        assert (strangers, energy_j, share) == (1, 5.0, 1.0)
        self.said.append("all")
        return NOTHING | {"strangers": 1, "throttled": ()}


def test_nothing_is_read_while_steps_are_timed(smoke_data: dict[str, Path]) -> None:
    """Before the lead-in whatever takes long, then one counter, then the steps, and the rest when they are over."""
    task = task_of("leak", smoke_data["leak"], ())
    trial, _ = begin(task, Timing.LOADER, UNTIMED, {}, other_seeds=False)
    plain, said, step = trial.window(lead=2, steps=5), list[str](), trial.step
    assert {name: plain[name] for name in NOTHING} == NOTHING
    trial.board = Noting(said)  # type: ignore[assignment]
    trial.step = lambda: (said.append("step"), step())
    window = trial.window(lead=2, steps=5)
    trial.session.feed.close()
    assert said[0] == "who is there"
    assert said[-window["steps"] - 2 :] == ["counter", *["step"] * window["steps"], "all"]
    assert set(said[1 : -window["steps"] - 2]) == {"step"}, "the lead-in"
    whole = Window(arm=Arm(block="0", replicate=0, attempt=0, position=0), order=0, began_s=0.0, host_bytes=1, **window)
    assert decode(Window, encode(whole)) == whole
