"""The peak that is told of an arm is the one that it had: known memory is touched and freed, alone and by workers."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.core.configuration import Configuration, compose, parse_option
from harness.core.optimization import Timing
from harness.core.protocol import BRIEF, Protocol
from harness.core.recipe import Recipe
from harness.core.workload import Size
from harness.run import processes as host_memory
from harness.run.arm import Job, ProcessArm
from harness.run.processes import SHARED, begin_peaks, end_groups, read_memory
from harness.run.sentinel import Sentinel
from tests.measure.tasks import CATALOGUE

MIB = 1 << 20
WITHIN = 0.05
GLIBC: dict[str, str] = {}
TUNED = {"MALLOC_MMAP_THRESHOLD_": str(4 << 30), "MALLOC_TRIM_THRESHOLD_": str(8 << 30)}
# Touches memory of its own and of its workers whenever it is told to, and frees it before it answers.
LOOP = """
import os, sys
import numpy as np
workers = []
for _ in range(int(sys.argv[1])):
    (order, asked), (answer, done) = os.pipe(), os.pipe()
    if os.fork() == 0:
        while os.read(order, 1):
            own = np.ones(200 << 17)
            del own
            os.write(done, b"x")
        os._exit(0)
    workers.append((asked, answer))
print("built", flush=True)
for line in sys.stdin:
    for asked, _ in workers:
        os.write(asked, b"x")
    step = np.ones(int(line) << 17)
    del step
    for _, answer in workers:
        os.read(answer, 1)
    print("stepped", flush=True)
"""


class Loop:
    """The loop as a process group, which stands still except in its steps."""

    def __init__(self, workers: int, allocator: Mapping[str, str]) -> None:
        words = [sys.executable, "-c", LOOP, str(workers)]
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | allocator,
            start_new_session=True,
        )  # fmt: skip
        self.group = self.process.pid
        self._answered("built")

    def step(self, mebibytes: int) -> None:
        os.killpg(self.group, signal.SIGCONT)
        assert self.process.stdin is not None
        self.process.stdin.write(f"{mebibytes}\n")
        self.process.stdin.flush()
        self._answered("stepped")

    def _answered(self, word: str) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == f"{word}\n"
        os.killpg(self.group, signal.SIGSTOP)


@contextmanager
def loop(workers: int = 0, allocator: Mapping[str, str] = GLIBC) -> Iterator[Loop]:
    one = Loop(workers, allocator)
    try:
        yield one
    finally:
        end_groups([one.group])
        one.process.communicate()


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("allocator", [GLIBC, TUNED], ids=["glibc", "tuned"])
def test_a_known_peak_is_told(workers: int, allocator: Mapping[str, str]) -> None:
    with loop(workers, allocator) as one:
        base = read_memory(one.group, begun=True)["host_bytes"]
        for _ in range(2):
            begun = begin_peaks(one.group)
            one.step(1024)
            told = read_memory(one.group, begun=begun)
        known = base + (1024 + 200 * workers) * MIB
        assert told["host_peak_bytes"] == pytest.approx(known, rel=WITHIN)
        assert not told["host_peak_since_start"]
        if allocator is GLIBC:
            assert told["host_bytes"] == pytest.approx(base, rel=0.3)  # what lies there afterwards is another thing


def test_what_came_before_a_window_is_none_of_its_peak() -> None:
    with loop() as one:
        one.step(800)
        assert begin_peaks(one.group)
        one.step(200)
        assert read_memory(one.group, begun=True)["host_peak_bytes"] < 400 * MIB


def test_where_the_kernel_begins_no_peak_anew_it_is_told_since_when(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with loop() as one:
        one.step(800)
        (tmp_path / str(one.group) / "clear_refs").mkdir(parents=True)  # cannot be written
        with monkeypatch.context() as patched:
            patched.setattr(host_memory, "PROCESSES", tmp_path)
            patched.setattr(host_memory, "is_alive", lambda _: True)
            patched.setattr(host_memory, "members_of", lambda _: [one.group])
            begun = begin_peaks(one.group)
            assert read_memory(one.group, begun=begun)["host_peak_bytes"] is None  # no status to read there either
        assert not begun
        one.step(200)
        told = read_memory(one.group, begun=begun)
        assert told["host_peak_since_start"]
        assert told["host_peak_bytes"] > 800 * MIB


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs /dev/shm; would check that a batch on its way counts")
@pytest.mark.parametrize("named", [False, True])
def test_a_batch_on_its_way_is_counted_although_no_process_maps_it(named: bool) -> None:
    before = host_memory._unmapped_bytes([os.getpid()])
    path = SHARED / f"torch_{os.getpid()}_0_{named:d}"
    with path.open("wb") as file:
        try:
            file.write(bytes(8 * MIB))
            file.flush()
            if not named:
                path.unlink()
            assert host_memory._unmapped_bytes([os.getpid()]) - before == 8 * MIB
        finally:
            path.unlink(missing_ok=True)
    assert host_memory._unmapped_bytes([os.getpid()]) == before


@pytest.mark.thorough
@pytest.mark.parametrize("workers", [0, 2])
def test_the_window_of_an_arm_tells_the_peak_of_its_steps(
    workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KNOWN_PEAK", "1024,200")
    job = Job(
        config=Configuration(workload="known_peak", size="quick", batch=1),
        size=Size(batch=1, epoch_steps=100, evaluation_items=1, data_bytes=0, shape={}, original_epoch_steps=100),
        recipe=Recipe(workers=workers, malloc="glibc"), proof={}, timing=Timing.STEP,
        protocol=Protocol(floor_steps=1, floor_s=0.0, settle_s=0.0, upper_bound_s=0.1, loss_steps=1),
        data=str(tmp_path), device="cpu", seed=0, other_seeds=False,
        workload_path=str(Path(__file__).with_name("known_peak.py")), service=None,
    )  # fmt: skip
    sentinel = Sentinel()
    arm = ProcessArm(job, sentinel)
    try:
        arm.arrive()
        arm.begin()
        told = arm.window(1, 4, 0)
    finally:
        arm.close()
        sentinel.close()
    assert told["host_peak_bytes"] == pytest.approx(told["host_bytes"] + (1024 + 200 * workers) * MIB, rel=WITHIN)


@pytest.mark.thorough
def test_memory_of_models_of_other_seeds_is_given_back(smoke_data: Mapping[str, Path]) -> None:
    """A reference tries other seeds and its treatments do not: equal arms would seem to differ by a tenth and more."""
    workload = CATALOGUE.workloads["imagenet"]
    recipe = compose(workload, (parse_option("local_copy"),), CATALOGUE.optimizations)  # needs no object store
    size = workload.sizes["smoke"]
    told = []
    for other_seeds in (False, True):
        sentinel = Sentinel()
        arm = ProcessArm(
            Job(
                config=Configuration(workload="imagenet", size="smoke", batch=size.batch), size=size, recipe=recipe,
                proof={}, timing=Timing.STEP, protocol=BRIEF, data=str(smoke_data["imagenet"]), device="cpu", seed=0,
                other_seeds=other_seeds, workload_path=None, service=None,
            ),
            sentinel,
        )  # fmt: skip
        try:
            arm.arrive()
            arm.begin()
            told.append(arm.window(1, 4, 0)["host_peak_bytes"])
        finally:
            arm.close()
            sentinel.close()
    assert told[1] == pytest.approx(told[0], rel=WITHIN)
