"""The lock: two campaigns at once would measure each other.

There is one for a machine and not one for each device: arms on two devices share the cores that feed them.
"""

import fcntl
import os
import shlex
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from harness.core.mistake import Mistake

LONGEST_COMMAND = 200  # characters of it that another campaign is told


@contextmanager
def measuring_alone(path: Path | None = None) -> Iterator[None]:
    """Holds the machine for one campaign; raises Mistake with the owner when another one has it.

    The kernel frees the lock when its owner ends, however it ends.
    """
    descriptor = _opened(path or _usual_place())
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Mistake(_taken(os.pread(descriptor, 1000, 0).decode(errors="replace"))) from None
        _sign(descriptor)
        yield
    finally:
        os.close(descriptor)


def _usual_place() -> Path:
    try:
        return Path(tempfile.gettempdir()) / "speedmatrix-measuring.lock"
    except FileNotFoundError:
        raise Mistake("No folder for temporary files can be written; set TMPDIR to one that can.") from None


def _opened(path: Path) -> int:
    """The lock's file; another user's may be read alone, which suffices to lock it."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as first:
        try:
            return os.open(path, os.O_RDONLY)
        except OSError:
            raise Mistake(
                f"Cannot lock {path} ({first.strerror}), which keeps two measurements apart; "
                "set TMPDIR to a folder that can be written."
            ) from first


def _sign(descriptor: int) -> None:
    """Writes who holds the lock, for whoever meets it: a number, the hour, the command."""
    command = shlex.join(["speedmatrix", *sys.argv[1:]])[:LONGEST_COMMAND]
    owner = f"{os.getpid()}\n{datetime.now(UTC).strftime('%H:%M:%S UTC on %d %B %Y')}\n{command}\n"
    if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        return
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, owner.encode(), 0)


def _taken(signature: str) -> str:
    """The sentence for whoever came second; a file that tells nothing is somebody's whom we may not name."""
    process, since, command, *_ = [*signature.splitlines(), "", "", ""]
    if not process.isdigit() or not Path(f"/proc/{process}").exists():
        return "Another user's process is measuring on this machine; wait for it to end."
    return (
        f"Process {process} is measuring on this machine (since {since}: {command}); "
        f"wait for it, or stop it with: kill {process}"
    )


@contextmanager
def stopping_on_terminate() -> Iterator[None]:
    """Treats SIGTERM, as a scheduler sends it, like Ctrl-C; a thread beside the first leaves signals alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
