"""Killed at any moment, a run loses no finished measurement, leaves no process behind and counts nothing twice."""

import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from harness.core.records import Record, Window, window_pairs
from harness.store import MEASUREMENTS, read_records, read_run
from tests.faults.stage import is_arm

ORACLE = Path(__file__).with_name("oracle.py")
ROOT = Path(__file__).parents[2]
ROUNDS = 3
pytestmark = pytest.mark.thorough


def start(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "harness", "run", "--workload", str(ORACLE), "--budget", "none"]
    command += ["--only", "workers=2", "--rounds", str(ROUNDS), "--restarts", "2", "--results", str(folder / "results")]
    return subprocess.Popen(
        [*command, "--data", str(folder / "data")],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def records_of(folder: Path) -> list[Record]:
    return [record for found in (folder / "results").glob("*/*") for record in read_records(found)]


def wait_for_windows(running: subprocess.Popen[str], folder: Path, count: int) -> None:
    until = time.monotonic() + 240
    while time.monotonic() < until:
        assert running.poll() is None, running.communicate()
        if sum(isinstance(one, Window) for one in records_of(folder)) >= count:
            return
        time.sleep(0.05)
    raise AssertionError(f"no {count} windows within four minutes")


def wait_for_an_idle_arm(pid: int) -> list[psutil.Process]:
    """All processes of a run at a moment when an arm stands still; between two replicates there is none."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        found = family(pid)
        if any(stands_still(one) for one in found):
            return found
        time.sleep(0.05)
    raise AssertionError("no arm stood still within a minute")


def stands_still(one: psutil.Process) -> bool:
    try:
        return bool(one.status() == psutil.STATUS_STOPPED)
    except psutil.NoSuchProcess:  # it has ended since it was listed
        return False


def leads_an_arm(one: psutil.Process) -> bool:
    """Whether it is an arm's first process, which leads a group."""
    try:
        return is_arm(one) and one.pid == os.getpgid(one.pid)
    except (psutil.NoSuchProcess, ProcessLookupError):
        return False


def family(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def assert_gone(processes: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(processes, timeout=60)
    assert not [one for one in alive if one.status() != psutil.STATUS_ZOMBIE]


def assert_complete(folder: Path) -> None:
    """Every replicate holds exactly the pairs of the plan."""
    (found,) = (folder / "results").glob("*/*")
    plan = read_run(found).plan
    windows = [one for one in read_records(found) if isinstance(one, Window)]
    assert len({(one.arm, one.order) for one in windows}) == len(windows)
    for block in plan.blocks:
        for replicate in range(plan.protocol.replicates):
            mine = [one for one in windows if one.arm.block == block.identity and one.arm.replicate == replicate]
            attempts = {one.arm.attempt for one in mine}
            counted = sum(
                len(window_pairs((one for one in mine if one.arm.attempt == attempt), 1)) for attempt in attempts
            )
            assert counted == ROUNDS


def test_a_killed_launcher_leaves_no_orphans_and_the_same_command_continues(tmp_path: Path) -> None:
    first = start(tmp_path)
    wait_for_windows(first, tmp_path, random.Random().randint(2, 8))
    arms = wait_for_an_idle_arm(first.pid)
    first.kill()
    first.communicate()
    assert_gone(arms)
    kept = records_of(tmp_path)
    (path,) = (tmp_path / "results").glob(f"*/*/{MEASUREMENTS}")
    with path.open("ab") as file:
        file.write(b'{"schema": 1, "record": "bur')  # as if the machine had died within a write
    second = start(tmp_path)
    output, _ = second.communicate(timeout=240)
    assert second.returncode == 0, output
    assert "Continuing the run" in output
    assert records_of(tmp_path)[: len(kept)] == kept
    assert_complete(tmp_path)


def test_a_killed_arm_gets_another_life(tmp_path: Path) -> None:
    running = start(tmp_path)
    wait_for_windows(running, tmp_path, 2)
    workers = family(running.pid)
    victim = random.Random().choice([one for one in workers if leads_an_arm(one)])
    victim.kill()
    output, _ = running.communicate(timeout=240)
    assert running.returncode == 0, output
    assert "SIGKILL" in output
    assert_gone(workers)
    assert_complete(tmp_path)
    losses = Counter(type(one).__name__ for one in records_of(tmp_path))
    assert losses["Lost"] == 1


def test_terminate_is_obeyed_and_everything_ends(tmp_path: Path) -> None:
    running = start(tmp_path)
    wait_for_windows(running, tmp_path, 1)
    arms = family(running.pid)
    running.terminate()
    output, _ = running.communicate(timeout=240)
    assert running.returncode == 130
    assert "the same command continues" in output
    assert_gone(arms)
