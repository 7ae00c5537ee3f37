"""The twin: turns that are balanced, both sides on the same batches, and one JSON object for whoever asked."""

import json
import os
import subprocess
import sys
from itertools import count
from pathlib import Path
from random import Random
from time import perf_counter, sleep

import pytest

from benchmarks.overhead import by_hand, twin
from harness.measure import devices as clock
from harness.measure import session
from tests.measure.tasks import task_of

ROUNDS = 6


class Step:
    """Notes when it is taken."""

    def __init__(self, side: str, taken: list[str]) -> None:
        self.side, self.taken = side, taken

    def __call__(self) -> None:
        self.taken.append(self.side)

    def step(self) -> "Step":
        """As a session gives its step."""
        return self


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Whose steps are taken, while both sides do nothing else and a window is one step."""
    found: list[str] = []
    monkeypatch.setattr(by_hand, "step_by_hand", lambda _task: Step(twin.HAND, found))
    monkeypatch.setattr(session, "open_session", lambda _task: Step(twin.HARNESS, found))
    monkeypatch.setattr(twin, "WINDOW_S", 0.0)
    return found


def test_each_round_goes_there_and_back(taken: list[str], tmp_path: Path) -> None:
    found = twin.compared(task_of("leak", tmp_path, ()), ROUNDS, Random(1))
    timed = taken[2 * twin.WARM_UP_STEPS :]
    rounds = [timed[first : first + 4] for first in range(0, 4 * ROUNDS, 4)]
    assert len(timed) == 4 * ROUNDS
    assert all(one == one[::-1] and set(one) == {twin.HAND, twin.HARNESS} for one in rounds)
    assert {one[0] for one in rounds} == {twin.HAND, twin.HARNESS}  # both begin in turns
    assert {name: len(values) for name, values in found.items()} == dict.fromkeys(
        ("hand_s", "harness_s", "relative"), ROUNDS
    )


def test_seconds_a_step_and_their_ratio(taken: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {twin.HAND: 0.02, twin.HARNESS: 0.03}
    monkeypatch.setattr(clock, "timed", lambda step, times, _device: seconds[step.side] * times)
    monkeypatch.setattr(twin, "without_a_core_s", lambda: 0.0)
    found = twin.compared(task_of("leak", tmp_path, ()), 2, Random(1))
    assert found["hand_s"] == pytest.approx([0.02, 0.02])
    assert found["harness_s"] == pytest.approx([0.03, 0.03])
    assert found["relative"] == pytest.approx([1.5, 1.5])
    assert taken == []


def test_time_without_a_core_is_nobodys(taken: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = count(0.0, 0.5)  # half a second more at every look
    monkeypatch.setattr(clock, "timed", lambda _step, _times, _device: 0.75)
    monkeypatch.setattr(twin, "without_a_core_s", lambda: next(waits))
    found = twin.compared(task_of("leak", tmp_path, ()), 1, Random(1))
    assert found["hand_s"] == pytest.approx([0.25])
    assert taken == []


@pytest.mark.alone
@pytest.mark.skipif(not twin.WAITED_FOR_A_CORE.is_file(), reason="this system does not count it")
def test_sleep_is_no_waiting_for_a_core_and_a_crowd_is() -> None:
    (core,) = sorted(os.sched_getaffinity(0))[:1]
    crowd = f"import os; os.sched_setaffinity(0, [{core}])\nwhile True: pass"
    script = f"""
import os, time
from benchmarks.overhead.twin import without_a_core_s
os.sched_setaffinity(0, [{core}])
before = without_a_core_s()
until = time.perf_counter() + 1.0
while time.perf_counter() < until: pass
print(without_a_core_s() - before)
"""
    with subprocess.Popen([sys.executable, "-c", crowd]) as other:
        try:
            done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        finally:
            other.kill()
    assert 0.2 < float(done.stdout) < 1.0
    before, began = twin.without_a_core_s(), perf_counter()
    sleep(0.2)
    assert perf_counter() - began - (twin.without_a_core_s() - before) > 0.19


@pytest.mark.parametrize(
    ("words", "sentence"),
    [(["--workload", "leek"], "leek"), (["--size", "huge"], "no size 'huge'; choose one of smoke")],
)
def test_what_cannot_be_is_said_in_a_sentence(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert twin.main(words) == 2
    said = capsys.readouterr()
    assert sentence in said.err
    assert said.out == ""


@pytest.mark.parametrize("name", ["leak", pytest.param("imagenet", marks=pytest.mark.thorough)])
def test_one_object_is_printed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """imagenet trains on what a server hands out, which must run meanwhile."""
    monkeypatch.setenv("SPEEDMATRIX_DATA", str(tmp_path))
    monkeypatch.setenv(twin.ADDRESS, "")  # so that what the twin leaves there is taken away again
    monkeypatch.delenv(twin.ADDRESS)
    monkeypatch.setattr(twin, "WARM_UP_STEPS", 1)
    assert twin.main(["--workload", name, "--rounds", "2"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [len(values) for values in found.values()] == [2, 2, 2]
    assert 0.3 < found["relative"][0] < 3.0
    assert 1e-4 < found["hand_s"][0] < 10.0
