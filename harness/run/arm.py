"""Arms as processes: each in a process group of its own, so that its loader workers stop and end with it."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

from harness.core.allocator import STEMS, library_of
from harness.core.recipe import Recipe
from harness.core.service import ADDRESS
from harness.run.crowding import read_accounts, share_of_others
from harness.run.job import Job, send
from harness.run.sentinel import Sentinel, kill_group

ROOT = Path(__file__).resolve().parents[2]

# Where big tensors land in memory moves a CPU step by 10 % for a process's whole life unless glibc is told to take
# everything from one growing heap. A condition of measurement, the same for every arm that does not measure just that.
ALLOCATOR = {
    "MALLOC_MMAP_THRESHOLD_": str(4 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(8 << 30),
    "MALLOC_TOP_PAD_": str(256 << 20),
}

DEVICE_ALLOCATOR = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")  # the second before torch 2.9
MEMORY = {*ALLOCATOR, *DEVICE_ALLOCATOR, "LD_PRELOAD"}


class ArmLost(Exception):
    """An arm that gives no more bursts; `interrupted` when it was ended from outside."""

    def __init__(self, outcome: str, reason: str, trace: str = "") -> None:
        """Keeps what becomes a Lost record."""
        super().__init__(reason)
        self.outcome, self.reason, self.trace = outcome, reason, trace


class LiveArm(Protocol):
    """What a life needs of an arm: a process, or an invention for rehearsals."""

    def arrive(self) -> None:
        """Waits until the process has imported what it needs, then stands still; raises ArmLost."""

    def begin(self) -> dict[str, Any]:
        """Builds and warms up; gives the fields of Ready; raises ArmLost."""

    def burst(self, seconds: float) -> dict[str, Any]:
        """Runs alone for about that long; gives the fields of a Burst; raises ArmLost."""

    def close(self) -> None:
        """Ends the arm and its workers."""


def launch_environment(recipe: Recipe, inherited: dict[str, str]) -> dict[str, str]:
    """Environment variables of an arm's process: what is inherited, but for all that settles its memory."""
    threads = str(recipe.threads)
    return (
        {name: value for name, value in inherited.items() if name not in MEMORY}
        | _host_memory(recipe, inherited)
        | (dict.fromkeys(DEVICE_ALLOCATOR, "expandable_segments:True") if recipe.expandable_segments else {})
        | {
            "OMP_NUM_THREADS": threads,
            "MKL_NUM_THREADS": threads,
            "OPENBLAS_NUM_THREADS": threads,
            "TORCHINDUCTOR_COMPILE_THREADS": "1",  # compiler processes would outlive the start of the arm
            "PYTHONHASHSEED": "0",
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [inherited.get("PYTHONPATH")])]),
        }
    )


def _host_memory(recipe: Recipe, inherited: dict[str, str]) -> dict[str, str]:
    """What puts the recipe's allocator in place of whatever the harness itself was started with."""
    preloaded = [one for one in re.split("[ :]+", inherited.get("LD_PRELOAD", "")) if one and not _is_allocator(one)]
    if recipe.malloc in STEMS and (library := library_of(recipe.malloc)):
        preloaded.append(library)
    preload = {"LD_PRELOAD": ":".join(preloaded)} if preloaded else {}
    return preload | (ALLOCATOR if recipe.malloc == "fixed" else {})


def _is_allocator(library: str) -> bool:
    return any(stem in Path(library).name for stem in STEMS)


class ProcessArm:
    """One cell alive in a fresh process, suspended whenever it is not asked for anything."""

    def __init__(self, job: Job, sentinel: Sentinel) -> None:
        """Starts the process, which imports while others may be starting too."""
        self._job, self._sentinel = job, sentinel
        self._channel, theirs = socket.socketpair()
        self._log = tempfile.TemporaryFile(mode="w+", errors="replace")  # noqa: SIM115  lives as long as the arm
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "harness.run.worker", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                env=launch_environment(job.recipe, dict(os.environ)) | ({ADDRESS: job.service} if job.service else {}),
                cwd=ROOT,
                start_new_session=True,
            )
        self._sentinel.add(self._process.pid)
        self._pending = b""
        send(self._channel, {"job": job})

    def arrive(self) -> None:
        """Waits for the imports, then suspends the group."""
        self._answer(self._job.protocol.start_limit_s)

    def begin(self) -> dict[str, Any]:
        """Builds and warms up, then stands still."""
        return self._ask({"begin": True}, self._job.protocol.start_limit_s)

    def burst(self, seconds: float) -> dict[str, Any]:
        """Wakes the whole group, lets it run one burst and suspends it at a step boundary."""
        before = read_accounts()
        fields = self._ask({"seconds": seconds}, self._job.protocol.burst_limit_s)
        return fields | {"others": share_of_others(before, read_accounts())}

    def close(self) -> None:
        """Kills the group, suspended or not, and waits for it."""
        kill_group(self._process.pid)
        self._process.wait()
        self._sentinel.remove(self._process.pid)
        self._channel.close()
        self._log.close()

    def _ask(self, message: dict[str, Any], limit_s: float) -> dict[str, Any]:
        self._signal(signal.SIGCONT)
        try:
            send(self._channel, message)
        except (BrokenPipeError, ConnectionResetError):
            raise self._lost() from None
        return self._answer(limit_s)

    def _answer(self, limit_s: float) -> dict[str, Any]:
        answer = json.loads(self._receive(limit_s))
        if answer["say"] == "lost":
            raise ArmLost("failed", answer["reason"], answer["trace"])
        self._signal(signal.SIGSTOP)
        fields: dict[str, Any] = answer["fields"]
        return fields

    def _receive(self, limit_s: float) -> bytes:
        until = monotonic() + limit_s
        self._channel.settimeout(0.2)
        while b"\n" not in self._pending:
            if monotonic() > until:
                raise ArmLost("failed", f"gave no answer for {limit_s:.0f} s", self._log_tail())
            try:
                received = self._channel.recv(1 << 16)
            except TimeoutError:
                if self._process.poll() is None:
                    continue
                received = b""  # a loader worker may still hold the other end
            except ConnectionResetError:
                received = b""
            if not received:
                raise self._lost()
            self._pending += received
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def _lost(self) -> ArmLost:
        status = self._process.wait()
        if status >= 0:
            return ArmLost("failed", f"its process ended with status {status}", self._log_tail())
        name = signal.Signals(-status).name
        hint = "; the kernel does that when memory runs out" if name == "SIGKILL" else ""
        crashed = name in {"SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE"}
        return ArmLost("failed" if crashed else "interrupted", f"ended by {name}{hint}", self._log_tail())

    def _log_tail(self) -> str:
        self._log.seek(0)
        return self._log.read()[-4000:]

    def _signal(self, which: signal.Signals) -> None:
        try:
            os.killpg(self._process.pid, which)
        except ProcessLookupError:
            raise self._lost() from None
