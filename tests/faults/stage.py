"""The stage of one fault: its folders, and commands whose processes can all be found again, however they were left."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import psutil

from harness.core.records import Lost, Record, Window
from harness.run.fork_server import NAME
from harness.run.processes import SHARED, is_alive
from harness.store import read_records

ROOT = Path(__file__).resolve().parents[2]
TROUBLED = ROOT / "tests" / "faults" / "troubled.py"
MARK = "SPEEDMATRIX_STAGE"  # an environment variable that every process of a stage inherits
PATIENCE_S = 120.0
LOOK_S = 0.5  # between two looks at which processes there are


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What became of a command: its status and words, and the records before the fault and in the end."""

    status: int
    said: str
    before: tuple[Record, ...] = ()
    after: tuple[Record, ...] = ()

    @property
    def lost(self) -> tuple[Lost, ...]:
        """The arms that gave no more windows."""
        return tuple(one for one in self.after if isinstance(one, Lost))


@dataclass(slots=True, kw_only=True)
class Stage:
    """Folders of its own; data are shared by all stages of a session."""

    folder: Path
    data: Path
    mark: str = field(default_factory=lambda: uuid4().hex)
    pids: set[int] = field(default_factory=set)  # of all its processes that were ever seen
    looked_s: float = 0.0  # when that was

    @property
    def results(self) -> Path:
        return self.folder / "results"

    @property
    def records(self) -> tuple[Record, ...]:
        """All that is on the disk now."""
        return tuple(record for found in sorted(self.results.glob("*/*")) for record in read_records(found))

    @property
    def windows(self) -> int:
        return sum(isinstance(one, Window) for one in self.records)

    @property
    def run_folder(self) -> Path:
        """The one run that says what it is; a command that was killed before it could has left an empty folder."""
        (found,) = self.results.glob("*/*/run.json")
        return found.parent

    def command(self, words: str, device: str) -> list[str]:
        """A command on this stage's folders, with the limits that a test can wait for."""
        own = [
            "--workload",
            str(TROUBLED),
            "--device",
            device,
            "--results",
            str(self.results),
            "--data",
            str(self.data),
        ]
        return [sys.executable, "-m", "tests.faults.hurried", *words.split(), *own]

    def start(
        self, words: str, trouble: Mapping[str, str] | None = None, within: tuple[str, ...] = ()
    ) -> subprocess.Popen[bytes]:
        """Starts a command, if need be within another that makes its world smaller first."""
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        given = {MARK: self.mark, "COLUMNS": "2000", "PYTHONPATH": path} | dict(trouble or {})
        # A dozen processes import torch; unless the first leaves its bytecode, each compiles it for seconds.
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        with self.output.open("ab") as output:
            return subprocess.Popen(
                [*within, *self.command(words, given.get("STAGE_DEVICE", "cpu"))],
                cwd=ROOT,
                env=inherited | given,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def output(self) -> Path:
        return self.folder / "output.txt"

    def ended(self, running: "subprocess.Popen[bytes]", before: tuple[Record, ...] = ()) -> Seen:
        """What became of a command, once it has ended."""
        self.wait_for(lambda: running.poll() is not None)
        status = running.wait()
        said = self.output.read_text(encoding="utf-8", errors="replace")
        return Seen(status=status, said=said, before=before, after=self.records)

    def run(self, words: str, trouble: Mapping[str, str] | None = None, within: tuple[str, ...] = ()) -> Seen:
        """Runs a command to its end."""
        return self.ended(self.start(words, trouble, within), self.records)

    @contextmanager
    def running(
        self, words: str, trouble: Mapping[str, str] | None = None, within: tuple[str, ...] = ()
    ) -> Iterator["subprocess.Popen[bytes]"]:
        """A command that goes on meanwhile, and is killed if it still runs afterwards."""
        command = self.start(words, trouble, within)
        try:
            yield command
        finally:
            if command.poll() is None:
                command.kill()
                command.wait()

    def wait_for(self, what: Callable[[], object], running: "subprocess.Popen[bytes] | None" = None) -> None:
        """Waits until something is so; fails when the command ends first, or after two minutes."""
        until = time.monotonic() + PATIENCE_S
        while not what():
            self._look()
            assert running is None or running.poll() is None, self.output.read_text(encoding="utf-8", errors="replace")
            assert time.monotonic() < until, "it never came to that"
            time.sleep(0.03)

    def processes(self) -> list[psutil.Process]:
        """All processes of this stage that can still do something, whoever their parents are now."""
        own = f"{MARK}={self.mark}".encode()
        pids = [one for one in psutil.pids() if is_alive(one) and own in _environment_of(one).split(b"\0")]
        self.pids.update(pids)
        return [one for one in map(_process, pids) if one is not None]

    def leaders(self) -> list[psutil.Process]:
        """The arms' first processes."""
        return [one for one in self.processes() if is_arm(one) and _leads(one.pid)]

    def servers(self) -> list[psutil.Process]:
        """The processes that arms are forked from."""
        found = (one for one in self.processes() if _runs(one, "harness.run.worker") and _leads(one.pid))
        return [one for one in found if not is_arm(one)]

    def sentinels(self) -> list[psutil.Process]:
        """The processes that end all others."""
        return [one for one in self.processes() if _runs(one, "harness.run.sentinel")]

    def assert_nothing_is_left(self) -> None:
        """No process and no segment of shared memory, a moment after the end."""
        until = time.monotonic() + 20
        while (
            left := [*filter(None, map(_told, self.processes())), *self.orphaned_segments()]
        ) and time.monotonic() < until:
            time.sleep(0.1)
        assert left == [], left

    def orphaned_segments(self) -> list[str]:
        """Segments of torch whose makers were of this stage and are gone; other tests have theirs."""
        makers = {path.name: int(path.name.split("_")[1]) for path in SHARED.glob("torch_*_*")}
        return [name for name, maker in makers.items() if maker in self.pids and not is_alive(maker)]

    def _look(self) -> None:
        if time.monotonic() - self.looked_s > LOOK_S:
            self.processes()
            self.looked_s = time.monotonic()


def end(running: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    """Sends a signal to the command alone."""
    os.kill(running.pid, number)


def is_arm(process: psutil.Process) -> bool:
    """Whether it was forked to be an arm, which gives it a name of its own."""
    try:
        return process.name() == NAME
    except psutil.NoSuchProcess:
        return False


def _environment_of(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/environ").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""


def _process(pid: int) -> psutil.Process | None:
    try:
        return psutil.Process(pid)
    except psutil.NoSuchProcess:
        return None


def _runs(process: psutil.Process, module: str) -> bool:
    try:
        return module in process.cmdline()
    except psutil.NoSuchProcess:
        return False


def _leads(pid: int) -> bool:
    try:
        return os.getpgid(pid) == pid
    except ProcessLookupError:
        return False


def _told(process: psutil.Process) -> str:
    try:
        return f"{process.pid} {' '.join(process.cmdline())} ({process.status()})"
    except psutil.NoSuchProcess:
        return ""
