"""Loops by hand run in processes that are forked from one that has imported torch; arms have a server of their own."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any

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

    def call(self, function: str, argument: dict[str, Any], environment: Mapping[str, str]) -> Any:
        """What `module:function` gives for the argument in a process of its own; raises RuntimeError."""
        ours, theirs = socket.socketpair()
        with ours:
            request = {"call": function, "argument": argument, "environment": {**os.environ, **environment}}
            with theirs, self._lock:
                socket.send_fds(self._control, [json.dumps(request).encode()], [theirs.fileno()])
            with ours.makefile() as lines:
                answer = lines.readline()
        if not answer:
            raise RuntimeError(f"{function} gave no answer")
        return json.loads(answer)

    def close(self) -> None:
        """Ends it."""
        self._control.close()
        self._process.wait()


def _serve(control: socket.socket) -> None:
    """Forks a process for whatever is asked for until the launcher hangs up."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how they ended
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, LARGEST, 1)
        if not message:
            return
        with socket.socket(fileno=descriptors[0]) as channel:
            if not os.fork():
                control.close()
                _answer(json.loads(message), channel)


def _answer(request: dict[str, Any], channel: socket.socket) -> None:
    """In the new process: calls, answers and ends."""
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.environ.clear()
        os.environ.update(request["environment"])
        random.seed()
        module, _, name = request["call"].partition(":")
        function: Callable[..., Any] = getattr(import_module(module), name)
        channel.sendall(json.dumps(function(**request["argument"])).encode() + b"\n")
    finally:
        sys.stderr.flush()
        os._exit(0)


def _import_all() -> None:
    """What arms have imported when they begin: a collector goes through all of it."""
    import_module("torch").set_num_threads(1)
    for name in ("torch._dynamo", "harness.measure.residents", "harness.api", "harness.own.job"):
        import_module(name)
    import_module("harness.catalogue").read_catalogue(ledger=False)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as launcher:
        _import_all()
        _serve(launcher)
