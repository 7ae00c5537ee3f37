"""The sentinel: a small process that ends all arms when the launcher is gone, even if it was killed.

It reads `+GROUP` and `-GROUP` lines. When its input ends, every process group that is still registered is killed;
that also ends suspended ones, which could never notice by themselves.
"""

import os
import signal
import subprocess
import sys
from threading import Lock


def watch(lines: list[str] | None = None) -> None:
    """Keeps the registered groups until the input ends, then kills them."""
    groups: set[int] = set()
    for line in lines if lines is not None else sys.stdin:
        group = int(line[1:])
        (groups.add if line.startswith("+") else groups.discard)(group)
    for group in groups:
        kill_group(group)


def kill_group(group: int) -> None:
    """Kills a process group; one that is gone already is no fault."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


class Sentinel:
    """The launcher's end: registers groups as they start and strikes them off as they end."""

    def __init__(self) -> None:
        """Starts the process in a session of its own, so that Ctrl-C does not reach it."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "harness.run.sentinel"], stdin=subprocess.PIPE, text=True, start_new_session=True
        )
        self._lock = Lock()  # arms may start side by side

    def add(self, group: int) -> None:
        """From now on the group ends with the launcher."""
        self._say(f"+{group}")

    def remove(self, group: int) -> None:
        """The group has ended by itself."""
        self._say(f"-{group}")

    def close(self) -> None:
        """Ends the sentinel and every group that is still registered."""
        if self._process.stdin:
            self._process.stdin.close()
        self._process.wait()

    def _say(self, line: str) -> None:
        with self._lock:
            if self._process.stdin:
                self._process.stdin.write(line + "\n")
                self._process.stdin.flush()


if __name__ == "__main__":
    watch()
