"""Services while they run: servers on loopback, ended with the campaign whatever becomes of it."""

import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

from harness.core.mistake import Mistake
from harness.core.workload import Service
from harness.run.processes import end_groups
from harness.run.sentinel import Sentinel

START_LIMIT_S = 60.0


@contextmanager
def serving(service: Service, data: Path, sentinel: Sentinel, limit_s: float = START_LIMIT_S) -> Iterator[str]:
    """The address of a service that answers, http://host:port; raises Mistake when it does not within the limit."""
    if reason := service.missing():
        raise Mistake(f"{service.title} cannot start: {reason}.")
    port = _free_port()
    with tempfile.TemporaryFile(mode="w+", errors="replace") as log:
        process = subprocess.Popen(
            service.command(data, port),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        sentinel.add(process.pid)
        try:
            if not _answers(process, port, limit_s):
                log.seek(0)
                last = (log.read().strip().splitlines() or ["it said nothing"])[-1]
                within = f" within {limit_s:.0f} s" if process.poll() is None else ""
                raise Mistake(f"{service.title} did not start{within}: {last[-200:]}.")
            yield f"http://127.0.0.1:{port}"
        finally:
            end_groups([process.pid])
            process.wait()
            sentinel.remove(process.pid)


def _answers(process: subprocess.Popen[bytes], port: int, limit_s: float) -> bool:
    until = monotonic() + limit_s
    while monotonic() < until and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return True
        sleep(0.05)
    return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
