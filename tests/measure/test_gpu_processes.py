"""Processes that take turns on one GPU, as arms do; without a GPU each test says what it would have checked."""

import json
import os
import signal
import subprocess
import sys
from statistics import fmean, median
from time import sleep

import pytest

from harness.core.protocol import STANDARD
from harness.run.processes import command_of, finding_modules
from tests.measure.test_gpu import gpu

pytestmark = pytest.mark.gpu

LED_IN_S = STANDARD.lead_s
# Takes as many steps as it is told to and gives the seconds of each; a step is a product whose result is read back.
STEPS = """
import json, sys, time, torch
torch.manual_seed(0)
square = torch.rand(2048, 2048, device="cuda")
kept = torch.rand(1 << 26, device="cuda")
total = kept.sum().item()
def step():
    began = time.perf_counter()
    torch.mm(square, square)[0, 0].item()
    return time.perf_counter() - began
for line in sys.stdin:
    seconds = [step() for _ in range(int(line))]
    print(json.dumps({"seconds": seconds, "whole": kept.sum().item() == total}), flush=True)
"""
WARM, MANY = 200, 2000  # steps, of about half a millisecond each


class Stepping:
    """One such process."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", STEPS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.take(WARM)

    def take(self, steps: int) -> list[float]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        assert answer["whole"], "its memory is no longer what it was"
        seconds: list[float] = answer["seconds"]
        return seconds

    def suspend(self) -> None:
        os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def behind(seconds: list[float], skipped_s: float) -> list[float]:
    """The steps that begin when so many seconds have passed."""
    passed, found = 0.0, []
    for one in seconds:
        if passed >= skipped_s:
            found.append(one)
        passed += one
    return found


def test_the_lead_in_outlasts_what_a_resumed_process_loses() -> None:
    gpu(f"steps that begin {1000 * LED_IN_S:.0f} ms after a pause of two seconds are as fast as later ones, within 3 %")
    one = Stepping()
    try:
        found = []
        for _ in range(3):
            one.suspend()
            sleep(2.0)
            one.resume()
            steps = behind(one.take(MANY), LED_IN_S)
            found.append(fmean(steps[: len(steps) // 4]) / fmean(steps[len(steps) // 2 :]))
    finally:
        one.end()
    assert median(found) == pytest.approx(1.0, abs=0.03), found


def test_a_suspended_process_takes_nothing_from_one_that_runs() -> None:
    gpu("a step beside a suspended process on the same device takes as long as alone, within 3 %")
    one, other = Stepping(), Stepping()
    try:
        other.take(WARM)
        other.suspend()
        beside = median(one.take(MANY))
        other.end()
        alone = median(one.take(MANY))
    finally:
        one.end()
        other.end()
    assert beside == pytest.approx(alone, rel=0.03)


def test_two_processes_that_take_turns_keep_their_memory_and_their_pace() -> None:
    gpu("of two processes in turns on one device each goes on where it was, and neither gets slower from turn to turn")
    both = (Stepping(), Stepping())
    found: tuple[list[float], list[float]] = ([], [])
    try:
        for one in both:
            one.suspend()
        for _ in range(4):
            for one, medians in zip(both, found, strict=True):
                one.resume()
                medians.append(median(behind(one.take(MANY // 2), LED_IN_S)))
                one.suspend()
    finally:
        for one in both:
            one.end()
    for medians in found:
        assert max(medians) / min(medians) < 1.05, found


def test_a_process_killed_while_suspended_gives_its_memory_back() -> None:
    gpu("memory of a process that is killed while it is suspended is free again within ten seconds")
    from harness.measure.surroundings import free_bytes

    before = free_bytes("cuda")[1]
    one = Stepping()
    one.suspend()
    taken = before - free_bytes("cuda")[1]
    one.end()
    left = [sleep(0.5) or before - free_bytes("cuda")[1] for _ in range(20)]
    assert taken > 1 << 28
    assert min(left) < taken / 10


def test_the_process_that_reads_libraries_for_all_arms_uses_the_device() -> None:
    gpu("what reads CUDA's libraries before the first arm takes a step on the device")
    done = subprocess.run(
        command_of("harness.measure.cuda"), env=finding_modules(os.environ), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
