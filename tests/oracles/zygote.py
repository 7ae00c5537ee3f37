"""Arms forked from one process that has imported torch: a start takes some milliseconds instead of four seconds.

Only the start of the process differs from a measurement's: `python -m harness.run.worker` is replaced by a fork that
calls the same function on the same inherited socket, in a session of its own and with the same output and environment.
"""

import faulthandler
import json
import os
import random
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
LARGEST = 1 << 17  # bytes of a request, which holds an environment


class Zygote:
    """The launcher's end; may be used from several threads."""

    def __init__(self) -> None:
        from harness.core.recipe import Recipe
        from harness.run.arm import launch_environment

        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.oracles.zygote", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=launch_environment(Recipe(), dict(os.environ)),  # the memory of an arm is settled as it starts
                cwd=ROOT,
            )
        self._ask({"ready": True})

    def popen(
        self,
        *,
        pass_fds: Sequence[int],
        stdout: Any,
        env: Mapping[str, str],
        **_as_ever: Any,
    ) -> "Forked":
        """Stands in for subprocess.Popen where the harness starts an arm."""
        request = {"serve": True, "environment": dict(env)}
        return Forked(self, int(self._ask(request, pass_fds[0], stdout.fileno())["pid"]))

    def call(self, function: str, argument: dict[str, Any], environment: Mapping[str, str]) -> Any:
        """What `module:function` gives for the argument in a process of its own; raises RuntimeError."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            request = {"call": function, "argument": argument, "environment": {**os.environ, **environment}}
            forked = Forked(self, int(self._ask(request, theirs.fileno(), 2)["pid"]))
            theirs.close()
            with ours.makefile() as lines:
                answer = lines.readline()
            forked.wait()
        if not answer:
            raise RuntimeError(f"{function} gave no answer")
        return json.loads(answer)

    def ended(self, pid: int) -> int | None:
        """The status of a process that has ended, None while it lives."""
        status: int | None = self._ask({"ended": pid})["status"]
        return status

    def close(self) -> None:
        """Ends it."""
        self._control.close()
        self._process.wait()

    def _ask(self, request: dict[str, Any], *descriptors: int) -> dict[str, Any]:
        with self._lock:
            socket.send_fds(self._control, [json.dumps(request).encode()], descriptors)
            answer: dict[str, Any] = json.loads(self._control.recv(LARGEST))
            return answer


class Forked:
    """What the harness needs of a Popen, for a process that is the zygote's child."""

    def __init__(self, zygote: Zygote, pid: int) -> None:
        self._zygote, self.pid = zygote, pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The status of the process, None while it lives."""
        if self.returncode is None:
            self.returncode = self._zygote.ended(self.pid)
        return self.returncode

    def wait(self, timeout: float = float("inf")) -> int:
        """Waits for its end; raises TimeoutExpired."""
        until = monotonic() + timeout
        while (status := self.poll()) is None:
            if monotonic() > until:
                raise subprocess.TimeoutExpired("arm", timeout)
            sleep(0.002)
        return status


@contextmanager
def forked_arms(zygote: Zygote, told: Mapping[str, str]) -> Iterator[None]:
    """Within it, every arm that the harness starts is forked, with these variables in its environment.

    Arms are started one at a time, from whatever thread.
    """
    from harness.run import arm

    names = {name: getattr(subprocess, name) for name in ("DEVNULL", "STDOUT", "PIPE", "TimeoutExpired")}

    def popen(_command: Sequence[str], **keywords: Any) -> Forked:
        return zygote.popen(**keywords | {"env": {**keywords["env"], **told}})

    with STARTING, pytest.MonkeyPatch.context() as patch:
        patch.setattr(arm, "subprocess", SimpleNamespace(Popen=popen, **names))
        yield


STARTING = Lock()


def _serve(control: socket.socket) -> None:
    """Forks whatever is asked for until the launcher hangs up."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, LARGEST, 2)
        if not message:
            return
        request = json.loads(message)
        if "ended" in request:
            pid, status = os.waitpid(request["ended"], os.WNOHANG)
            answer = {"status": os.waitstatus_to_exitcode(status) if pid else None}
        elif "ready" in request:
            answer = {}
        else:
            answer = {"pid": _forked(control, request, *descriptors)}
            for one in descriptors:
                os.close(one)
        control.send(json.dumps(answer).encode())


def _forked(control: socket.socket, request: dict[str, Any], channel: int, log: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        control.close()
        nothing = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        os.close(log)
        os.environ.clear()
        os.environ.update(request["environment"])
        random.seed()
        _become(request, socket.socket(fileno=channel))
    finally:
        sys.stderr.flush()
        os._exit(0)


def _become(request: dict[str, Any], channel: socket.socket) -> None:
    if "call" in request:
        module, _, name = request["call"].partition(":")
        function: Callable[..., Any] = getattr(__import__(module, fromlist=[name]), name)
        channel.sendall(json.dumps(function(**request["argument"])).encode() + b"\n")
        return
    from harness.run import worker
    from harness.run.arm import SHOW_STACK
    from tests.oracles.sabotage import sabotaged

    faulthandler.enable(all_threads=False)
    faulthandler.register(SHOW_STACK, all_threads=False)
    sabotaged(os.environ.get("SPEEDMATRIX_SABOTAGE", ""))
    worker.serve(channel)


def _import_all() -> None:
    """What every arm imports."""
    import torch
    import torch._dynamo

    import harness.measure.trial
    import harness.run.worker
    from harness.catalogue import read_catalogue

    torch.set_num_threads(1)
    read_catalogue(ledger=False)
    assert harness.measure.trial
    assert harness.run.worker


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as launcher:
        _import_all()
        _serve(launcher)
