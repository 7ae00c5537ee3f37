"""Data of several workloads: written side by side where there are cores, kept where they are whole, and only there."""

import errno
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from harness.catalogue import read_workload
from harness.core.mistake import Mistake
from harness.core.workload import Workload
from harness.run import data as prepare
from harness.run.data import data_folder, ensure_all

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0
Make = Callable[[str, str], Workload]
Cores = Callable[[int], None]
SOURCE = """
import os, subprocess, sys, time
from pathlib import Path
from harness.core.workload import Parts, Size, Workload

def meet(mark, others):
    mark.touch()
    until = time.monotonic() + {patience_s}
    while not all(one.exists() for one in others):
        if time.monotonic() > until:
            raise TimeoutError("nobody came")
        time.sleep(0.01)

def prepare(folder, size):
    (folder / "first").write_text("half")
    began = time.monotonic()
    yield 0.5
    {body}
    (folder / "times").write_text(f"{{began}} {{time.monotonic()}} {{os.environ['OMP_NUM_THREADS']}}")
    yield 1.0

nothing = lambda *_: None
PARTS = Parts(model=nothing, loss=nothing, optimizer=nothing, dataset=nothing, prepare=prepare)
SIZE = Size(batch=1, epoch_steps=1, evaluation_items=1, data_bytes=1000, shape={{}}, original_epoch_steps=1)
WORKLOAD = Workload(name="{name}", title="Invented", origin="nowhere", parameters=1, traits=frozenset(),
                    sizes={{"smoke": SIZE}}, parts=lambda: PARTS)
"""
SLEEPS = "subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])"


@pytest.fixture
def invented(tmp_path: Path) -> Make:
    def make(name: str, body: str) -> Workload:
        path = tmp_path / f"{name}.py"
        path.write_text(SOURCE.format(name=name, body=body, patience_s=PATIENCE_S))
        return read_workload(path)

    return make


@pytest.fixture
def cores(monkeypatch: pytest.MonkeyPatch) -> Cores:
    return lambda count: monkeypatch.setattr(prepare, "usable_cores", lambda: count)


def ensured(root: Path, workloads: list[Workload]) -> list[Path]:
    return [one.folder for one in ensure_all(root, [(one, "smoke") for one in workloads], lambda *_: None)]


def meeting(folder: Path, mine: str, other: str) -> str:
    return f"meet(Path({str(folder / mine)!r}), [Path({str(folder / other)!r})])"


def times_of(folders: list[Path]) -> list[tuple[float, float]]:
    texts = [(folder / "times").read_text().split() for folder in folders]
    return sorted((float(began), float(ended)) for began, ended, _ in texts)


def test_several_are_written_at_the_same_time(tmp_path: Path, invented: Make, cores: Cores) -> None:
    cores(2)
    pair = [invented("one", meeting(tmp_path, "a", "b")), invented("two", meeting(tmp_path, "b", "a"))]
    told: list[tuple[int, float]] = []
    found = ensure_all(tmp_path / "data", [(one, "smoke") for one in pair], lambda *one: told.append(one))
    assert [one.folder for one in found] == [data_folder(tmp_path / "data", one, "smoke") for one in pair]
    assert all(one.written_s for one in found)
    assert sorted(told) == [(0, 0.5), (0, 1.0), (1, 0.5), (1, 1.0)]
    assert {(one.folder / "times").read_text().split()[2] for one in found} == {"1"}  # thread of OpenMP
    assert [one.written_s for one in ensure_all(tmp_path / "data", [(pair[0], "smoke")], lambda *_: None)] == [None]


def test_what_a_workload_says_while_it_writes_neither_stops_it_nor_passes_for_a_share(
    tmp_path: Path, invented: Make
) -> None:
    """More than a pipe holds, as progress bars and warnings are."""
    talks = invented("one", "print('hello'); sys.stderr.write('x' * 200_000); sys.stderr.flush()")
    told: list[tuple[int, float]] = []
    ensure_all(tmp_path / "data", [(talks, "smoke")], lambda *one: told.append(one))
    assert told == [(0, 0.5), (0, 1.0)]


def test_on_one_core_they_take_turns(tmp_path: Path, invented: Make, cores: Cores) -> None:
    cores(1)
    found = ensured(tmp_path, [invented(name, "time.sleep(0.2)") for name in ("one", "two", "three")])
    assert all(former[1] <= later[0] for former, later in pairwise(times_of(found)))


def test_what_fails_is_told_and_the_others_are_kept(tmp_path: Path, invented: Make, cores: Cores) -> None:
    cores(3)
    mark = tmp_path / "failing"
    failing = invented("one", f"Path({str(mark)!r}).touch(); raise ValueError('the disk is odd')")
    later = invented("two", f"meet(Path({str(tmp_path / 'x')!r}), [Path({str(mark)!r})]); time.sleep(0.5)")
    with pytest.raises(Mistake, match=r"^The data of one could not be written to .*the disk is odd\.$"):
        ensured(tmp_path / "data", [failing, later])
    assert [one.name for one in (tmp_path / "data").iterdir()] == [data_folder(tmp_path, later, "smoke").name]
    ensured(tmp_path / "data", [later])  # it is whole


def test_room_is_checked_for_all_together_before_anything_is_written(
    tmp_path: Path, invented: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = [invented(name, "pass") for name in ("one", "two")]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1500))  # each alone would fit
    with pytest.raises(Mistake, match="one at size smoke and two at size smoke"):
        ensured(tmp_path / "data", pair)
    assert list((tmp_path / "data").iterdir()) == []


STARTED = """
import signal
import sys
from pathlib import Path
from harness.catalogue import read_workload
from harness.cli.measuring import stopping_on_terminate
from harness.run import data as prepare

signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell without a terminal may have it ignore
prepare.usable_cores = lambda: 2
with stopping_on_terminate():
    wanted = [(read_workload(Path(one)), "smoke") for one in sys.argv[2:]]
    prepare.ensure_all(Path(sys.argv[1]), wanted, lambda *_: None)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupt_ends_all_and_leaves_nothing_that_counts_as_whole(
    tmp_path: Path, invented: Make, number: signal.Signals
) -> None:
    workloads = [invented("one", SLEEPS), invented("two", SLEEPS), invented("three", "pass")]  # more than cores
    root, paths = tmp_path / "data", [one.path or "" for one in workloads]
    running = subprocess.Popen(
        [sys.executable, "-c", STARTED, str(root), *paths], cwd=ROOT, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        until = time.monotonic() + PATIENCE_S
        while len(list(root.glob("*/first"))) < 2 or len(sleepers(running.pid)) < 2:
            assert running.poll() is None
            assert time.monotonic() < until
            time.sleep(0.05)
        family = psutil.Process(running.pid).children(recursive=True)
        running.send_signal(number)
        running.wait(30)
        assert running.returncode != 0
        _, alive = psutil.wait_procs(family, timeout=20)
        assert alive == []
    finally:
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
    assert [one for one in workloads if data_folder(root, one, "smoke").exists()] == []
    if number != signal.SIGKILL:
        assert list(root.iterdir()) == []  # nor do halves take up room


def test_two_processes_write_once_and_halves_of_a_killed_one_go(tmp_path: Path, invented: Make, cores: Cores) -> None:
    cores(2)
    workload, root = invented("one", "time.sleep(1.0)"), tmp_path / "data"
    (root / "one-smoke-0.partial-1").mkdir(parents=True)
    with ThreadPoolExecutor(2) as pool:
        folders = list(pool.map(lambda _: ensured(root, [workload]), range(2)))
    assert folders[0] == folders[1]
    assert list(root.iterdir()) == folders[0]


def test_without_locks_only_halves_of_yesterday_go(
    tmp_path: Path, invented: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "flock", nothing)
    root = tmp_path / "data"
    old, young = (root / f"one-smoke-0.partial-{number}" for number in (1, 2))
    for one in (old, young):
        one.mkdir(parents=True)
    os.utime(old, (0, 0))
    (folder,) = ensured(root, [invented("one", "pass")])
    assert sorted(root.iterdir()) == sorted((folder, young))


def sleepers(pid: int) -> list[psutil.Process]:
    found = []
    for one in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if "time.sleep(600)" in " ".join(one.cmdline()):
                found.append(one)
    return found
