"""The job: what the launcher tells an arm's process, as plain data over a socket, one JSON object a line."""

import json
import signal
import socket
from dataclasses import dataclass
from typing import Any

from harness.core.cell import Cell
from harness.core.optimization import Timing
from harness.core.plain import decode, encode
from harness.core.protocol import Protocol
from harness.core.recipe import Recipe, Value
from harness.core.workload import Size

SHOW_STACK = signal.SIGUSR1  # asks an arm to write into its log where it stands


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One arm to be built."""

    cell: Cell
    size: Size
    recipe: Recipe
    proof: dict[str, Value]
    timing: Timing
    protocol: Protocol
    data: str  # folder
    device: str
    seed: int
    is_reference: bool
    workload_path: str | None
    service: str | None  # http://host:port of the server that the workload talks to


def send(channel: socket.socket, message: dict[str, Any]) -> None:
    """Writes one message."""
    channel.sendall(json.dumps(encode(message)).encode() + b"\n")


def read_job(message: dict[str, Any]) -> Job:
    """The job of a message; raises Malformed when it is none."""
    return decode(Job, message["job"], "job")
