"""The lock: two campaigns at once would measure each other."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.core.mistake import Mistake


@contextmanager
def measuring_alone(path: Path | None = None) -> Iterator[None]:
    """Holds the machine for one campaign; raises Mistake with the owner when another one has it.

    The kernel frees the lock when its owner ends, however it ends.
    """
    path = path or Path(tempfile.gettempdir()) / "speedmatrix-measuring.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    with os.fdopen(descriptor, "r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = file.read().strip() or "unknown"
            raise Mistake(f"Process {owner} is measuring on this machine; wait for it or stop it first.") from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
