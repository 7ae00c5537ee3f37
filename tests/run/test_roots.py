"""Roots: how many processes that have imported everything stay for blocks to come."""

import socket
import subprocess
from collections.abc import Iterator, Mapping

import pytest

from harness.run import fork_server
from harness.run.fork_server import AMPLE, KEPT, MOST_KEPT, ForkServer
from harness.run.processes import is_alive


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[ForkServer]]:
    """Roots that are processes and import nothing, in the order in which they began."""
    made: list[ForkServer] = []

    def begin(_environment: Mapping[str, str], _log: int) -> ForkServer:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        theirs.close()
        made.append(ForkServer(process=subprocess.Popen(["sleep", "60"]), control=ours))
        return made[-1]

    monkeypatch.setattr(fork_server, "_begun", begin)
    monkeypatch.setattr(fork_server, "_roots", {})
    yield made
    for one in made:
        one.end()


@pytest.mark.parametrize(("available", "most"), [(AMPLE, MOST_KEPT), (AMPLE - 1, KEPT)])
def test_idle_roots_stay_as_long_as_memory_is_ample(
    available: int, most: int, begun: list[ForkServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fork_server, "free_bytes", lambda _device: (available,))
    for number in range(most + 3):
        fork_server._root((number,), {}, 0)
    assert [is_alive(one.process.pid) for one in begun] == [False] * 3 + [True] * most
    assert list(fork_server._roots) == [(number,) for number in range(3, most + 3)]


def test_a_root_whose_servers_have_no_arm_is_idle_and_they_end_with_it(
    begun: list[ForkServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fork_server, "free_bytes", lambda _device: (AMPLE,))
    fork_server._root(("first",), {}, 0)._held.add(0)
    server = fork_server._begun({}, 0)
    server._held.add(0)
    monkeypatch.setattr(fork_server, "_servers", {("leak", "first"): server})
    server.let_go(0)
    assert not server.closed, "the next block of its replicate may need it"
    for number in range(MOST_KEPT):
        fork_server._root((number,), {}, 0)
    assert server.closed
    assert ("first",) not in fork_server._roots
    assert not fork_server._servers


def test_a_root_whose_arms_are_needed_stays_however_many_there_are(
    begun: list[ForkServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fork_server, "free_bytes", lambda _device: (0,))
    fork_server._root(("needed",), {}, 0)._held.add(0)
    for number in range(KEPT + 3):
        fork_server._root((number,), {}, 0)
    assert is_alive(begun[0].process.pid)
    assert ("needed",) in fork_server._roots
