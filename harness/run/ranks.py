"""The other ranks of an arm: children of its process, which are told what it is told and answer it as it answers.

They belong to the arm's process group, so that they are paused, resumed and ended with it; where the arm's process is
killed alone, the kernel ends them too (PR_SET_PDEATHSIG). What goes wrong in one of them is one outcome of the arm.
"""

import ctypes
import json
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from typing import Any

from harness.core.codec import encode
from harness.core.records import Fault
from harness.run.fault import fault_ended, memory_kills
from harness.run.processes import SUSPENDED, state_of

NAME = "arm-rank"  # of a rank's process, for whoever looks at a list of them; the kernel keeps 15 letters
DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)
SHARE = 0.5  # of what the launcher waits for a window, in which ranks wait for each other
HEARD_S = 5.0  # in which a rank says why it failed, once another one has failed over it
UNNOTICED_S = 10.0  # after a rank's end, in which rank 0 should have failed in a collective


class RankLost(Exception):
    """A rank that gives no more answers, and with it the whole arm."""

    def __init__(self, fault: Fault, reason: str, trace: str = "") -> None:
        super().__init__(reason)
        self.fault, self.reason, self.trace = fault, reason, trace


@dataclass(slots=True)
class Rank:
    """One of the other ranks, as rank 0 sees it."""

    number: int
    process: int
    channel: socket.socket
    pending: bytes = b""
    kills: int = field(default_factory=memory_kills)  # of processes for want of memory, when it began

    def answer(self, limit_s: float) -> dict[str, Any]:
        """What it says to what it was asked last; raises RankLost where it failed, ended or is silent."""
        until = monotonic() + limit_s
        while b"\n" not in self.pending:
            self.channel.settimeout(max(0.01, until - monotonic()))
            try:
                received = self.channel.recv(1 << 16)
            except TimeoutError:
                raise self._silent(limit_s) from None
            except ConnectionResetError:
                received = b""
            if not received:
                raise self._ended()
            self.pending += received
        line, _, self.pending = self.pending.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        if answer["say"] == "lost":
            raise RankLost(Fault(answer["kind"]), f"rank {self.number}: {answer['reason']}", answer["trace"])
        return answer

    def _silent(self, limit_s: float) -> RankLost:
        if state_of(self.process) == SUSPENDED:
            return RankLost(Fault.SUSPENDED, f"rank {self.number}: somebody else suspended it (SIGSTOP)")
        return RankLost(Fault.WINDOW_TIME_OUT, f"rank {self.number} gave nothing for {limit_s:.0f} s")

    def _ended(self) -> RankLost:
        _, status = os.waitpid(self.process, 0)
        fault, words = fault_ended(os.waitstatus_to_exitcode(status), memory_kills() - self.kills)
        return RankLost(fault, f"rank {self.number}: {words}")


@dataclass(slots=True)
class Ranks:
    """All other ranks of an arm, from number 1 on."""

    limit_s: float  # that ranks wait for each other
    say: Callable[[RankLost], None]  # tells the launcher, where rank 0 itself waits for one that is gone
    others: list[Rank] = field(default_factory=list)

    def begin(self, ranks: int, serve: Callable[[int, socket.socket], None]) -> None:
        """Forks them; in each `serve` is called with its number and its channel until nobody asks any more."""
        for number in range(1, ranks):
            ours, theirs = socket.socketpair()
            parent = os.getpid()
            if not (process := os.fork()):
                try:
                    ours.close()
                    _end_with(parent)
                    serve(number, theirs)
                finally:
                    os._exit(0)
            theirs.close()
            self.others.append(Rank(number, process, ours))
        for one in self.others:
            Thread(target=self._watch, args=(one.process,), daemon=True).start()

    def tell(self, message: dict[str, Any]) -> None:
        """Has all of them do what rank 0 is about to do; they were paused with it, and their loader workers stay so."""
        for one in self.others:
            with suppress(ProcessLookupError, BrokenPipeError, ConnectionResetError):  # it is told by its answer
                os.kill(one.process, signal.SIGCONT)
                one.channel.sendall(json.dumps(encode(message)).encode() + b"\n")

    def hear(self) -> None:
        """Waits until all have done it; raises RankLost."""
        for one in self.others:
            one.answer(self.limit_s)

    def explain(self) -> RankLost | None:
        """What became of a rank that rank 0 failed over: one that failed itself comes first, then a silent one."""
        found: list[RankLost] = []
        for one in self.others:
            try:
                one.answer(HEARD_S)
            except RankLost as lost:
                found.append(lost)
        silent = {Fault.WINDOW_TIME_OUT, Fault.SUSPENDED}
        return next(iter(sorted(found, key=lambda lost: lost.fault in silent)), None)

    def _watch(self, process: int) -> None:
        """Speaks for rank 0 where a rank has ended and it has not noticed: some collectives wait for ever."""
        os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
        sleep(UNNOTICED_S)
        self.say(self.explain() or RankLost(Fault.EXITED, "a rank ended"))


def _end_with(parent: int) -> None:
    """Has the kernel end this process with the one that forked it."""
    ctypes.CDLL(None).prctl(DIES_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    with suppress(OSError):  # a system without /proc
        Path("/proc/self/comm").write_text(NAME)
