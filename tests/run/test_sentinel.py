"""The sentinel ends what is registered, and another takes its place when it is killed."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from select import select
from tempfile import TemporaryDirectory

import psutil
import pytest

from harness.core.mistake import Mistake
from harness.run import sentinel as sentinels
from harness.run.fault import HOST, memory_kills
from harness.run.processes import SHARED, end_groups, is_alive, members_of, remove_segments, state_of
from harness.run.sentinel import Sentinel


@pytest.fixture
def sentinel() -> Iterator[Sentinel]:
    one = Sentinel()
    yield one
    one.close()


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    """A process that leads a group and would sleep for long."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True) as one:
        yield one
        one.kill()


def wait_for(what: Callable[[], object]) -> None:
    until = time.monotonic() + 30
    while not what():
        assert time.monotonic() < until
        time.sleep(0.02)


def running() -> list[int]:
    children = psutil.Process().children()
    return [one.pid for one in children if is_alive(one.pid) and "harness.run.sentinel" in one.cmdline()]


def replaced(before: int) -> bool:
    return any(one != before for one in running())


def test_what_is_registered_ends_with_the_sentinel(sleeper: "subprocess.Popen[bytes]") -> None:
    one = Sentinel()
    one.add(sleeper.pid)
    os.killpg(sleeper.pid, signal.SIGSTOP)
    one.close()
    assert sleeper.wait(timeout=30) == -signal.SIGKILL


def test_what_has_been_struck_off_does_not(sleeper: "subprocess.Popen[bytes]") -> None:
    one = Sentinel()
    one.add(sleeper.pid)
    one.remove(sleeper.pid)
    one.close()
    assert sleeper.poll() is None


def test_the_next_sentinel_knows_of_everything(sleeper: "subprocess.Popen[bytes]") -> None:
    one = Sentinel()
    one.add(sleeper.pid)
    for _ in range(2):
        (before,) = running()
        os.kill(before, signal.SIGKILL)
        wait_for(partial(replaced, before))
    one.close()
    assert sleeper.wait(timeout=30) == -signal.SIGKILL
    assert running() == []


def test_a_group_that_is_told_to_a_dead_sentinel_is_not_forgotten(
    sentinel: Sentinel, sleeper: "subprocess.Popen[bytes]"
) -> None:
    (before,) = running()
    os.kill(before, signal.SIGKILL)
    sentinel.add(sleeper.pid)
    wait_for(partial(replaced, before))
    sentinel.close()
    assert sleeper.wait(timeout=30) == -signal.SIGKILL


def test_a_sentinel_killed_as_it_is_closed_leaves_nothing_behind(sleeper: "subprocess.Popen[bytes]") -> None:
    one = Sentinel()
    one.add(sleeper.pid)
    with one._lock:  # the thread that would replace it waits here, as on a busy machine
        os.kill(one._process.pid, signal.SIGKILL)
        one._closed = True
    one.close()
    assert sleeper.wait(timeout=30) == -signal.SIGKILL


def test_where_every_sentinel_is_killed_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentinels, "REPLACEMENTS", 2)
    monkeypatch.setattr(
        sentinels,
        "_started",
        lambda: subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.PIPE, text=True),
    )
    one = Sentinel()

    def add() -> bool:
        try:
            one.add(1 << 30)
        except Mistake as mistake:
            return "find out who ends processes here" in str(mistake)
        return False

    wait_for(add)
    one.close()


def test_a_group_ends_with_all_its_members_and_their_segments(sleeper: "subprocess.Popen[bytes]") -> None:
    assert members_of(frozenset({sleeper.pid})) == {sleeper.pid}
    own, other = (SHARED / f"torch_{pid}_test_0" for pid in (sleeper.pid, os.getpid()))
    for path in (own, other):
        path.touch()
    try:
        end_groups([sleeper.pid])
        assert not own.exists()
        assert other.exists(), "nobody else's"
        assert not is_alive(sleeper.pid)
        assert state_of(sleeper.pid) in {"Z", ""}
    finally:
        remove_segments([os.getpid()])
    assert not other.exists()
    end_groups([1 << 22])  # one that is gone already is no fault


LOADER = """
import torch
from harness.run.processes import share_folder
share_folder()
loader = torch.utils.data.DataLoader(torch.zeros(64, 9), batch_size=2, num_workers=2, persistent_workers=True)
batches = iter(loader)
next(batches)
print("fetched", flush=True)
input()
"""


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder in which a socket can have a name, wherever tests keep theirs."""
    with TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


def test_killed_loader_workers_leave_nothing_among_temporary_files(
    short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(short))
    monkeypatch.setattr("tempfile.tempdir", None)
    command = [sys.executable, "-W", "ignore", "-c", LOADER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as one:
        assert one.stdout
        assert one.stdout.readline() == b"fetched\n"
        assert [path.name for path in short.iterdir()] == [f"speedmatrix-{one.pid}"]
        assert any(short.glob("*/listener-*")), "workers hand over memory through sockets"
        end_groups([one.pid])
    assert not any(short.iterdir())


def test_loader_workers_go_on_where_temporary_files_have_long_names(
    short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A socket's name has 107 bytes at most; a worker that cannot make one says nothing, and its batch never comes."""
    deep = short / ("a" * 80)
    deep.mkdir()
    monkeypatch.setenv("TMPDIR", str(deep))
    monkeypatch.setattr("tempfile.tempdir", None)
    command = [sys.executable, "-W", "ignore", "-c", LOADER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as one:
        try:
            assert one.stdout
            assert select([one.stdout], [], [], 120)[0], "no batch came"
            assert one.stdout.readline() == b"fetched\n"
        finally:
            end_groups([one.pid])
    assert not Path(f"/tmp/speedmatrix-{one.pid}").exists()  # noqa: S108


def test_the_kernel_s_count_is_the_control_group_s_where_there_is_one(tmp_path: Path) -> None:
    group, host = tmp_path / "memory.events", tmp_path / "vmstat"
    assert memory_kills((group, host)) == 0
    host.write_text("pgfault 12\noom_kill 3\n")
    assert memory_kills((group, host)) == 3
    group.write_text("low 0\noom 7\noom_kill 5\noom_group_kill 0\n")
    assert memory_kills((group, host)) == 5
    counted = re.search(r"^oom_kill (\d+)$", HOST.read_text(), re.MULTILINE)
    assert memory_kills((tmp_path / "none", HOST)) == (int(counted[1]) if counted else 0)


def test_a_package_of_the_same_name_where_a_command_is_given_is_not_taken_for_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "harness").mkdir()
    (tmp_path / "harness" / "__init__.py").write_text("raise SystemExit('not this one')")
    monkeypatch.chdir(tmp_path)
    process = sentinels._started()
    assert process.stdin
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=1.5)
    process.stdin.close()
    process.wait(timeout=30)
