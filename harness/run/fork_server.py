"""Fork servers: processes that import once what many arms need, and fork each of them when they are asked to.

Torch and what it brings take four to six seconds of a core, a workload's own libraries up to one more. So there are two
generations: a root has imported torch, a server forked from it has imported a workload, and arms are forked from that.
Every arm is still a process of its own, in a session of its own, with its own loader, model and device context: what it
shares with others is what was imported, copied when it is written to. Roots have the environment variables of their
arms, since threads and allocators are settled when a process begins; arms whose variables differ come from another
root. So do arms of another replicate, whose processes are to have another layout in memory.

A root and its servers stay for further blocks of its replicate, as long as it is one of the few that are most in use.
Where little memory is free, a server ends with the last of its arms.
"""

import atexit
import os
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import SystemRandom
from threading import Lock, RLock
from time import monotonic, sleep

from harness.measure.collector import PASSES
from harness.measure.surroundings import free_bytes
from harness.run.processes import SUSPENDED, command_of, end_groups, is_alive, kill_group, state_of

LONGEST = 1 << 14  # bytes of a message
# Roots without arms: each holds about 350 MB, and a new one takes more than four seconds. Two sets of variables in four
# replicates need eight.
KEPT, MOST_KEPT = 4, 12
AMPLE = 8 << 30  # bytes that are free, with which more of them are kept
ARM, SERVER = b"arm", b"server "  # what is asked for; a server with its workload
OWN = "/own"  # in place of a workload: a file of the user's, and the installed modules that it imports
LOOK_S = 0.02  # between two looks at a process whose end is awaited
SILENT_S = 30.0  # after which a server is taken for lost: it forks and tells in milliseconds
NAME = "speedmatrix-arm"  # of an arm's process, for whoever looks at a list of them


class Lost(Exception):
    """A server that has ended or does not answer, and with it all that it knew of its arms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forked:
    """An arm's process, much as `subprocess.Popen` would show it."""

    server: "ForkServer"
    number: int  # of the arm among those of its server

    @property
    def group(self) -> int:
        """Its process, which leads a group of its own; waits until it is forked; raises ProcessLookupError."""
        try:
            return self.server.pid(self.number, wait=True) or 0
        except Lost:
            raise ProcessLookupError from None

    @property
    def pid(self) -> int:
        """Where its work is done at this moment: the server until it is forked, which imports for it."""
        with suppress(Lost):
            return self.server.pid(self.number, wait=False) or self.server.process.pid
        return self.server.process.pid

    def poll(self) -> int | None:
        """Its exit status, negative for a signal; None while it lives or waits to be forked."""
        return self.server.status(self.number)

    def wait(self, timeout: float) -> int:
        """Its exit status; raises subprocess.TimeoutExpired."""
        until = monotonic() + timeout
        while (status := self.poll()) is None:
            if monotonic() > until:
                raise subprocess.TimeoutExpired("arm", timeout)
            sleep(LOOK_S)
        return status

    def end(self) -> None:
        """Kills its group and waits for it; one that is not forked yet ends because its channel is closed."""
        with suppress(Lost, subprocess.TimeoutExpired):
            if group := self.server.pid(self.number, wait=False):
                end_groups([group])
                self.wait(timeout=HANDED_OVER_S)
        self.server.let_go(self.number)


HANDED_OVER_S = 5.0  # between the end of a process and its server's knowledge of it


@dataclass(slots=True, kw_only=True)
class ForkServer:
    """One such process. Its methods may be called from several threads."""

    process: "subprocess.Popen[bytes] | Forked"  # a root, or what was forked from one
    control: socket.socket
    closed: bool = False
    uses: float = 0.0  # how often it was asked lately
    _lock: RLock = field(default_factory=RLock)
    _asked: int = 0  # arms
    _forked: list[int] = field(default_factory=list)  # their processes, in the order in which they were asked for
    _held: set[int] = field(default_factory=set)  # numbers of arms that are not let go
    _ended: dict[int, int] = field(default_factory=dict)  # number -> exit status

    @property
    def needed(self) -> int:
        """How much of what was forked from it is not let go."""
        return len(self._held)

    def fork(self, what: bytes, channel: socket.socket, log: int) -> Forked | None:
        """Asks for an arm or a server, which is forked when all is imported.

        None where this server has ended with its last arm, or where somebody has killed or suspended it.
        """
        with self._lock:
            if self.closed or not is_alive(self.process.pid) or state_of(self.process.pid) == SUSPENDED:
                return None
            with suppress(BrokenPipeError, ConnectionResetError):  # whoever waits for the arm is told why
                socket.send_fds(self.control, [what], [channel.fileno(), log])
            self.uses += 1
            self._asked += 1
            self._held.add(self._asked - 1)
            return Forked(server=self, number=self._asked - 1)

    def pid(self, number: int, *, wait: bool) -> int | None:
        """The process of an arm; None where it is not forked and nobody wants to wait; raises Lost."""
        with self._lock:
            while len(self._forked) <= number:
                if self.closed:
                    raise Lost
                self.control.settimeout(SILENT_S if wait else 0.0)
                try:
                    self._forked.append(int(self._told()))
                except BlockingIOError:
                    return None
            return self._forked[number]

    def status(self, number: int) -> int | None:
        """The exit status of an arm, None while it lives; a killed one's where the server is lost."""
        with self._lock:
            if number in self._ended:
                return self._ended[number]
            try:
                if (process := self.pid(number, wait=False)) is None:
                    return self.process.poll()
                if is_alive(process):
                    return None
                self.pid(self._asked - 1, wait=True)  # it answers in the order of what it was asked
                self.control.settimeout(SILENT_S)
                self.control.send(str(process).encode())
                self._ended[number] = int(self._told())
            except (Lost, BrokenPipeError, ConnectionResetError, TimeoutError):
                self._ended[number] = self.process.poll() or -signal.SIGKILL
            return self._ended[number]

    def let_go(self, number: int) -> None:
        """What was forked is needed no more; with its last arm a server ends where little memory is free."""
        with self._lock:
            self._held.discard(number)
            if self._held or isinstance(self.process, subprocess.Popen) or _is_memory_ample():
                return
        self.end()

    def end(self) -> None:
        """Ends the process; arms that live on find that out when they are asked for something."""
        with self._lock:
            if self.closed:
                return
            self.closed = True
            self.control.close()
        if isinstance(self.process, Forked):
            self.process.end()
        else:
            self.process.kill()
            self.process.wait()

    def _told(self) -> bytes:
        try:
            told = self.control.recv(LONGEST)
        except (ConnectionResetError, TimeoutError):
            told = b""
        if not told:
            raise Lost
        return told


Key = tuple[object, ...]
_roots: dict[Key, ForkServer] = {}
_servers: dict[Key, ForkServer] = {}
_lock = Lock()


def forked(
    channel: socket.socket, log: int, environment: Mapping[str, str], seed: int, imported: str | Sequence[str]
) -> Forked:
    """An arm's process with these variables and this channel, its output in a log.

    It comes from a server that has imported a workload of the suite, or what a user's own file needs and these modules;
    arms of one seed from the same root.
    """
    workload = imported if isinstance(imported, str) else ",".join((OWN, *imported))
    if len(workload) > LONGEST // 2:
        workload = OWN
    key = seed, *sorted(environment.items())
    with _lock:
        for ended in [one for one, server in _servers.items() if server.closed]:
            del _servers[ended]
        name = workload, *key
        found = _servers[name].fork(ARM, channel, log) if name in _servers else None
        if found is None:
            if name in _servers:  # a lost one would never be let go of by its root
                _servers.pop(name).end()
            _servers[name] = server = _server(key, environment, workload, log)
            found = server.fork(ARM, channel, log)
        assert found is not None  # noqa: S101  nobody else knows the new one yet
        if key in _roots:
            _roots[key].uses += 1
        return found


def end_servers() -> None:
    """Ends all roots, and with them whatever was forked from them and is not an arm."""
    with _lock:
        for one in (*_servers.values(), *_roots.values()):
            one.end()
        _servers.clear()
        _roots.clear()


atexit.register(end_servers)


def _server(key: Key, environment: Mapping[str, str], workload: str, log: int) -> ForkServer:
    """A server that imports a workload, forked from its root when that has imported all."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        asked = SERVER + workload.encode()
        process = _roots[key].fork(asked, theirs, log) if key in _roots else None
        if process is None:
            process = _root(key, environment, log).fork(asked, theirs, log)
        assert process is not None  # noqa: S101  nobody else knows the new one yet
    return ForkServer(process=process, control=ours)


def _root(key: Key, environment: Mapping[str, str], log: int) -> ForkServer:
    """A new root, in place of one that was lost or of the idle one that was least in use of late."""
    if key in _roots:
        _roots.pop(key).end()
    for one in _roots.values():
        one.uses /= 2
    idle = sorted(
        (one for one, root in _roots.items() if root.needed == len(_idle(one))), key=lambda one: _roots[one].uses
    )
    most = MOST_KEPT if _is_memory_ample() else KEPT
    for least in idle[: max(0, len(idle) + 1 - most)]:
        for server in _idle(least):
            _servers.pop(server).end()
        _roots.pop(least).end()
    _roots[key] = _begun(environment, log)
    return _roots[key]


def _idle(root: Key) -> list[Key]:
    """The servers of a root that have no arm."""
    return [key for key, one in _servers.items() if key[1:] == root and not (one.closed or one.needed)]


def _is_memory_ample() -> bool:
    return free_bytes("cpu")[0] >= AMPLE


def _begun(environment: Mapping[str, str], log: int) -> ForkServer:
    """A root whose own output goes to the log of the first arm, which waits for it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            command_of("harness.run.worker", str(theirs.fileno())),
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            cwd=environment["PWD"],
            start_new_session=True,
        )
    return ForkServer(process=process, control=ours)


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """What a forked process is to be: an arm, or the server of a workload."""

    channel: socket.socket
    workload: str | None  # None: an arm


def serve_forks(control: socket.socket) -> Child | None:
    """In a server: forks what is asked for and tells how it ended until nobody asks any more, then ends what is left.

    In what was forked it returns what that is to be, in the server None.
    """
    living: set[int] = set()
    while True:
        asked, descriptors, *_ = socket.recv_fds(control, LONGEST, 2)
        if descriptors:
            if not (process := os.fork()):
                control.close()
                return _child(asked, *descriptors)
            living.add(process)
            for one in descriptors:
                os.close(one)
            control.send(str(process).encode())
        elif asked:
            ended, status = os.waitpid(int(asked), 0)  # the launcher has seen that it lives no more
            living.discard(ended)
            control.send(str(os.waitstatus_to_exitcode(status)).encode())
        else:
            for one in living:
                kill_group(one)
            return None


HELD: list[bytearray] = []  # by an arm until it ends


def _heap_of_its_own() -> list[bytearray]:
    """Blocks that leave holes of random sizes in the heap, as start-up does in a process that was not forked.

    Arms of one server inherit the same heap. Without this copies would all fault in the same pages at every step and
    treatments others, which would look like an effect (docs/decisions/fork-server.md).
    """
    random = SystemRandom()
    blocks = [bytearray(random.randrange(1 << 10, 1 << 17)) for _ in range(64)]
    return random.sample(blocks, 32)


def _child(asked: bytes, channel: int, log: int) -> Child:
    """Makes the process that was forked one of its own: its session, its output, an arm's name."""
    workload = asked.removeprefix(SERVER).decode() if asked.startswith(SERVER) else None
    if workload is None:
        with suppress(OSError):  # a system without /proc
            Path("/proc/self/comm").write_text(NAME)
        HELD.extend(_heap_of_its_own())
        PASSES.begin()
    os.setsid()
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)
    return Child(channel=socket.socket(fileno=channel), workload=workload)
