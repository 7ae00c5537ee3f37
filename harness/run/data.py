"""What arms need beside them: workloads' files, written once into a cache folder, and the servers that they talk to.

Each workload's files are written by a process of its own:

python -m harness.run.data WORKLOAD SIZE FOLDER [WORKLOAD_FILE]
"""

import fcntl
import hashlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import set_start_method
from pathlib import Path
from threading import Lock
from time import monotonic, sleep, time
from typing import IO, Self

import psutil

from harness.catalogue import read_catalogue
from harness.core.codec import encode
from harness.core.mistake import Mistake
from harness.core.parallel import usable_cores
from harness.core.workload import Service, Workload
from harness.run.processes import command_of, end_groups, finding_modules
from harness.run.sentinel import Sentinel

# The manifest of a data folder: the length and the checksum of every file, noted when it was written.

NAME = "complete.json"
READ_BYTES = 1 << 22

Entry = list[int]  # length in bytes, CRC-32


def write_manifest(folder: Path) -> None:
    """Notes all files below the folder."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    entries = {str(path.relative_to(folder)): entry for path, entry in zip(paths, _entries(paths), strict=True)}
    (folder / NAME).write_text(json.dumps(entries), encoding="utf-8")


def noted_bytes(folder: Path) -> int:
    """The length of all files, as noted."""
    return sum(length for length, _ in json.loads((folder / NAME).read_text(encoding="utf-8")).values())


def check_manifest(folder: Path) -> None:
    """Reads every file again and compares it with the note; raises Mistake with the remedy.

    CRC-32 is checked at several GB a second for each core and finds every accident; it is no defence against intent.
    """
    remedy = f"delete {folder} and run again to write it anew."
    try:
        noted = json.loads((folder / NAME).read_text(encoding="utf-8"))
        paths = [folder / name for name in dict(noted)]
        lengths = [path.stat().st_size for path in paths]
    except (OSError, ValueError, TypeError) as error:
        raise Mistake(f"The data in {folder} cannot be read ({error}); {remedy}") from error
    for path, length, entry in zip(paths, lengths, noted.values(), strict=True):
        if not isinstance(entry, list) or entry[:1] != [length]:
            raise Mistake(f"The data file {path} has changed since it was written; {remedy}")
    try:
        found = _entries(paths)
    except PermissionError as error:
        raise Mistake(f"The data file {error.filename} is not readable; {remedy}") from error
    changed = [path for path, entry, now in zip(paths, noted.values(), found, strict=True) if entry != now]
    if changed:
        raise Mistake(f"The data file {changed[0]} has changed since it was written; {remedy}")


def _entries(paths: list[Path]) -> list[Entry]:
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # zlib lets go of the interpreter while it counts
        return list(pool.map(_entry, paths))


def _entry(path: Path) -> Entry:
    length, checksum = 0, 0
    with path.open("rb") as file:
        while piece := file.read(READ_BYTES):
            length += len(piece)
            checksum = zlib.crc32(piece, checksum)
    return [length, checksum]


FITS = 0.5  # share of the free memory that a user's files may fill


def read_once(folder: Path) -> bool:
    """Reads a user's files into the page cache, as checking does with ours; gives whether there was room for all.

    Else the arm that reads a file first, the reference, would read it from storage, and the others from memory. Raises
    Mistake for one that cannot be read.
    """
    paths = sorted(one for one in folder.rglob("*") if one.is_file())
    fits = sum(one.stat().st_size for one in paths) <= FITS * psutil.virtual_memory().available
    try:
        if fits:
            _entries(paths)
    except OSError as error:
        raise Mistake(f"The data file {error.filename} cannot be read ({error.strerror}); put it right.") from error
    return fits


WAITS_S = 0.2  # between looks at whether another process has written what is wanted
LEFT_S = 24 * 3600.0  # after which nobody writes on at what is half written, where no lock tells
MOST_AT_ONCE = 5  # workloads whose files are written side by side, each in as many processes as there are cores
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")  # as in loader workers

Wanted = tuple[Workload, str]  # at this size


@dataclass(frozen=True, slots=True)
class Files:
    """The complete data of a workload at a size."""

    folder: Path
    written_s: float | None = None  # how long it took to write them; None where they lay there already


def data_root(chosen: Path | None) -> Path:
    """Where data is kept: the folder given, else $SPEEDMATRIX_DATA, else the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    named = chosen or os.environ.get("SPEEDMATRIX_DATA") or cache / "speedmatrix" / "data"
    return Path(named).absolute()  # arms run in a folder of their own choice


def data_folder(root: Path, workload: Workload, size: str) -> Path:
    """The folder of a workload's data at a size; other facts of the size make another folder."""
    facts = [encode(dict(workload.sizes[size].shape)), workload.sizes[size].evaluation_items, workload.data_version]
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:8]
    return root / f"{workload.name}-{size}-{digest}"


def ensure_data(root: Path, workload: Workload, size: str, show: Callable[[float], None]) -> Path:
    """The folder with complete data, written now if need be; raises Mistake when it cannot be had."""
    (files,) = ensure_all(root, [(workload, size)], lambda _, share: show(share))
    return files.folder


def ensure_all(root: Path, wanted: Sequence[Wanted], show: Callable[[int, float], None]) -> list[Files]:
    """The complete data of several workloads; where there are several cores, what is missing is written side by side.

    `show` is told a place in `wanted` and the share of its data that is written; it is called from several threads.
    Raises Mistake where some data cannot be had; what is written beside it is finished first and kept.
    """
    found = [Files(data_folder(root, *one)) for one in wanted]
    missing = [place for place, files in enumerate(found) if not files.folder.exists()]
    for place, files in enumerate(found):
        if place not in missing:
            check_manifest(files.folder)
    if missing:
        _check_room(root, [wanted[place] for place in missing])
        with _Writers(root) as writers:
            tasks = [partial(writers.write, *wanted[place], partial(show, place)) for place in missing]
            for place, files in zip(missing, _done(tasks, writers), strict=True):
                found[place] = files
    return found


def _done(tasks: Sequence[Callable[[], Files]], writers: "_Writers") -> list[Files]:
    at_once = min(len(tasks), usable_cores(), MOST_AT_ONCE)
    if at_once == 1:
        return [task() for task in tasks]
    pool = ThreadPoolExecutor(at_once)  # of threads that follow a process each
    try:
        futures = [pool.submit(task) for task in tasks]
        wait(futures)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        writers.stop()  # after an interrupt; else they have all ended
        pool.shutdown()  # the halves of what was interrupted are removed
    return _results(futures)


def _results(futures: Sequence[Future[Files]]) -> list[Files]:
    errors = [error for one in futures if (error := one.exception())]
    mistakes = [str(error) for error in errors if isinstance(error, Mistake)]
    if errors and len(mistakes) == len(errors):
        raise Mistake(" ".join(mistakes))
    return [one.result() for one in futures]


class _Writers:
    """The processes that write, a group for each workload; none of them outlives this one."""

    def __init__(self, root: Path) -> None:
        self._root, self._sentinel = root, Sentinel()
        self._lock, self._is_stopped = Lock(), False

    def __enter__(self) -> Self:
        """Waits for another process that writes here, then removes what a killed one left half written."""
        self._turn = os.open(self._root, os.O_RDONLY)
        while (is_mine := _is_locked(self._turn)) is False:
            sleep(WAITS_S)
        for left in self._root.glob("*.partial-*"):
            if is_mine or time() - left.stat().st_mtime > LEFT_S:
                shutil.rmtree(left, ignore_errors=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        os.close(self._turn)

    def stop(self) -> None:
        """Ends all of them, and lets no other begin."""
        with self._lock:
            if self._is_stopped:
                return
            self._is_stopped = True
        self._sentinel.close()

    def write(self, workload: Workload, size: str, show: Callable[[float], None]) -> Files:
        """Writes a workload's data beside their place and moves them there once they are complete."""
        folder = data_folder(self._root, workload, size)
        if folder.exists():  # another process was faster
            check_manifest(folder)
            return Files(folder)
        return self._written(workload, size, folder, show)

    def _written(self, workload: Workload, size: str, folder: Path, show: Callable[[float], None]) -> Files:
        began_s = monotonic()
        partial_folder = folder.with_name(f"{folder.name}.partial-{secrets.token_hex(4)}")
        command = command_of("harness.run.data", workload.name, size, str(partial_folder))
        try:
            if workload.sizes[size].data_bytes:
                complaint = self._follow(command + ([workload.path] if workload.path else []), show)
            else:  # the data lie ready elsewhere
                partial_folder.mkdir(parents=True)
                complaint = None
            if complaint is not None:
                raise Mistake(f"The data of {workload.name} could not be written to {self._root}: {complaint}.")
            try:
                write_manifest(partial_folder)
                partial_folder.rename(folder)
            except OSError as error:
                if not folder.exists():
                    raise Mistake(f"Cannot write {folder} ({error.strerror}); choose another with --data.") from error
                check_manifest(folder)
        finally:
            shutil.rmtree(partial_folder, ignore_errors=True)
        return Files(folder, monotonic() - began_s)

    def _follow(self, command: list[str], show: Callable[[float], None]) -> str | None:
        """Runs a writing process with its helpers to the end; gives its last words if it failed."""
        with tempfile.TemporaryFile("w+", errors="replace") as said, self._begun(command, said) as process:
            try:
                for line in process.stdout or ():
                    show(float(line))
                process.wait()
                said.seek(0)
                complaint = said.read().strip().splitlines()
            finally:
                end_groups([process.pid])  # which by now is empty or must not go on
                self._sentinel.remove(process.pid)
        if not process.returncode:
            return None
        return complaint[-1] if complaint else f"status {process.returncode}"

    def _begun(self, command: list[str], said: IO[str]) -> subprocess.Popen[str]:
        with self._lock:
            if self._is_stopped:
                raise Mistake("Stopped before it began.")
            process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=said,  # no pipe, which a writer of many words would fill
                text=True,
                start_new_session=True,
                env=finding_modules(os.environ) | ONE_THREAD,
            )
            self._sentinel.add(process.pid)
            return process


def _is_locked(descriptor: int) -> bool | None:
    """Whether a folder's lock could be had; None on a file system without locks, where another may be writing."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _check_room(root: Path, wanted: Sequence[Wanted]) -> None:
    """Raises Mistake unless there is room for all that is to be written."""
    needed = sum(workload.sizes[size].data_bytes for workload, size in wanted)
    try:
        root.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(root).free
    except OSError as error:
        raise Mistake(f"Cannot use {root} for data ({error.strerror}); choose another folder with --data.") from error
    if not os.access(root, os.W_OK | os.X_OK):
        raise Mistake(f"Cannot write data to {root}; make it writable or choose another folder with --data.")
    if free < 1.1 * needed:
        names = " and ".join(f"{workload.name} at size {size}" for workload, size in wanted)
        raise Mistake(
            f"{names} {'need' if len(wanted) > 1 else 'needs'} {_shown(needed)} in {root} and {_shown(free)} are free; "
            "make room or choose another folder with --data."
        )


def _shown(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


def _write(workload_name: str, size: str, folder: Path, path: Path | None) -> None:
    workload = read_catalogue(path, ledger=False).workload(workload_name)
    folder.mkdir(parents=True)
    if sys.platform == "linux":  # helpers need not import all this again: nothing here has begun a thread
        set_start_method("fork")
    with os.fdopen(os.dup(1), "w") as shares:
        os.register_at_fork(after_in_child=shares.close)  # else they would hold it open for one that is killed
        os.dup2(2, 1)  # where whatever a workload prints does not pass for a share
        for share in workload.parts().prepare(folder, workload.sizes[size]):
            print(share, file=shares, flush=True)


# Services: servers that workloads talk to, started for a run.


START_LIMIT_S = 60.0


@contextmanager
def serving(service: Service, data: Path, sentinel: Sentinel, limit_s: float = START_LIMIT_S) -> Iterator[str]:
    """The address of a service that answers, http://host:port; raises Mistake when it does not within the limit."""
    if reason := service.missing():
        raise Mistake(f"{service.title} cannot start: {reason}.")
    port = _free_port()
    address = f"http://127.0.0.1:{port}"
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
            if not _started(process, address, limit_s):
                log.seek(0)
                last = (log.read().strip().splitlines() or ["it said nothing"])[-1]
                within = f" within {limit_s:.0f} s" if process.poll() is None else ""
                raise Mistake(f"{service.title} did not start{within}: {last[-200:]}.")
            yield address
        finally:
            end_groups([process.pid])
            process.wait()
            sentinel.remove(process.pid)


def answers(address: str) -> bool:
    """Whether a service accepts connections."""
    host, _, port = address.removeprefix("http://").partition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


def _started(process: subprocess.Popen[bytes], address: str, limit_s: float) -> bool:
    until = monotonic() + limit_s
    while monotonic() < until and process.poll() is None:
        if answers(address):
            return True
        sleep(0.05)
    return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    _write(sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]) if len(sys.argv) > 4 else None)
