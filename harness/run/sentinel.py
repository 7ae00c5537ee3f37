"""The sentinel: a small process that ends all arms when the launcher is gone, even if it was killed.

It reads `+GROUP` and `-GROUP` lines. When its input ends, every process group that is still registered is killed;
that also ends suspended ones, which could never notice by themselves. The launcher puts another in its place when it
is killed itself.
"""

import os
import subprocess
import sys
from contextlib import suppress
from threading import Lock, Thread

from harness.core.mistake import Mistake
from harness.run.processes import command_of, end_groups, finding_modules

REPLACEMENTS = 100  # sentinels that may be killed in one campaign


def watch(lines: list[str] | None = None) -> None:
    """Keeps the registered groups until the input ends, then kills them."""
    groups: set[int] = set()
    for line in lines if lines is not None else sys.stdin:
        group = int(line[1:])
        (groups.add if line.startswith("+") else groups.discard)(group)
    end_groups(groups)


class Sentinel:
    """The launcher's end: registers groups as they start and strikes them off as they end."""

    def __init__(self) -> None:
        """Starts the process, and a thread that waits for it and replaces it when it is killed."""
        self._lock = Lock()  # arms may start side by side
        self._groups: set[int] = set()
        self._closed, self._given_up = False, False
        self._process = _started()
        self._keeper = Thread(target=self._keep, daemon=True)
        self._keeper.start()

    def add(self, group: int) -> None:
        """From now on the group ends with the launcher; raises Mistake where nothing watches any more."""
        with self._lock:
            if self._given_up:
                raise Mistake(
                    f"The sentinel was killed {REPLACEMENTS} times; without it a killed run leaves processes behind: "
                    "find out who ends processes here, and give the same command again."
                )
            self._groups.add(group)
            self._say(f"+{group}")

    def remove(self, group: int) -> None:
        """The group has ended by itself."""
        with self._lock:
            self._groups.discard(group)
            self._say(f"-{group}")

    def close(self) -> None:
        """Ends the sentinel and every group that is still registered."""
        with self._lock:
            self._closed = True
            _hang_up(self._process)
        self._keeper.join()
        if self._process.returncode:  # killed a moment ago, and no other took its place
            end_groups(self._groups)

    def _keep(self) -> None:
        for _ in range(REPLACEMENTS):
            self._process.wait()
            with self._lock:
                if self._closed:
                    return
                _hang_up(self._process)
                self._process = _started()
                for group in self._groups:
                    self._say(f"+{group}")
        self._process.wait()
        with self._lock:
            self._given_up = True

    def _say(self, line: str) -> None:
        # One that was killed a moment ago hears nothing; the thread tells the next one all that it must know.
        with suppress(BrokenPipeError):
            if self._process.stdin:
                self._process.stdin.write(line + "\n")
                self._process.stdin.flush()


def _started() -> subprocess.Popen[str]:
    """A sentinel in a session of its own, so that Ctrl-C does not reach it."""
    return subprocess.Popen(
        command_of("harness.run.sentinel"), stdin=subprocess.PIPE, text=True, start_new_session=True,
        env=finding_modules(os.environ),
    )  # fmt: skip


def _hang_up(process: subprocess.Popen[str]) -> None:
    with suppress(BrokenPipeError):  # what one that is gone has not read
        if process.stdin:
            process.stdin.close()


if __name__ == "__main__":
    watch()
