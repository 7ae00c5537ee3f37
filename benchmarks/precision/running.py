"""One tool at work: its processes in a group of their own, timed from their start to the end of the last."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from benchmarks.precision.spending import Settings
from benchmarks.precision.told import telling
from benchmarks.precision.tools import Tool

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 4.0  # times what a tool was given, and a minute: then it is ended


class Failed(Exception):
    """A tool that gave no answer; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What a tool is asked."""

    tool: Tool
    passes: tuple[int, int]  # of the reference and of the treatment
    settings: Settings
    seed: int
    given_s: float


@contextmanager
def taken(turn: Turn) -> Iterator[tuple[float, Path]]:
    """Runs the tool; gives the seconds it took and the folder with its result, which is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="precision-") as name:
        folder = Path(name)
        command = turn.tool.command(turn.settings, folder)
        began = monotonic()
        _run(command, turn, folder)
        yield monotonic() - began, folder


def _run(command: list[str], turn: Turn, folder: Path) -> None:
    told = telling(turn.passes, {**turn.settings, "seed": turn.seed})
    python_path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, **told, "PYTHONPATH": python_path, "PYTHONHASHSEED": "0"}
    with (folder / "said.txt").open("w+", errors="replace") as said:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, env=environment, cwd=ROOT,
            start_new_session=True,
        )  # fmt: skip
        try:
            status = process.wait(timeout=LIMIT * turn.given_s + 60)
        except subprocess.TimeoutExpired:
            raise Failed(f"took more than {LIMIT:.0f} times what it was given") from None
        finally:
            _end(process)
        if status:
            raise Failed(_last_words(folder / "said.txt") or f"its process ended with status {status}")


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Ends whatever of the group is left."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        process.wait()


def _last_words(path: Path) -> str:
    lines = [line for line in path.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else ""


@contextmanager
def beside(cores: int) -> Iterator[None]:
    """A neighbour on so many cores for as long as the block lasts; none on 0."""
    if not cores:
        yield
        return
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.precision.neighbour", str(cores)], cwd=ROOT)
    try:
        yield
    finally:
        process.terminate()
        process.wait()
