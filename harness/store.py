"""The store: one folder for each run, plain data with a schema version, appended and never edited.

`run.json` says what is measured (plan, environment, command), `measurements.jsonl` holds one record a line. A line
that a crash cut short is ignored and cut off by the next append.
"""

import errno
import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from harness.core.codec import Malformed, decode, encode
from harness.core.environment import Environment, differing
from harness.core.mistake import Mistake
from harness.core.plan import Plan, in_todays_words
from harness.core.records import Lost, Ready, Record, Spent, Window

# 1 had no `data` in a plan and no `rounds` in a block, 2 nothing of what leads into a window; up to 3 all arms ran
# under malloc thresholds of ours: see core/plan.py.
SCHEMA = 4
ORIGIN = "origin.json"  # beside a run that was taken in: where it came from
RUN, MEASUREMENTS = "run.json", "measurements.jsonl"
# Stands in a run's folder until nothing is left to measure. Git ignores it: a published run is nobody's to continue.
IN_PROGRESS = "in_progress"
PLACES = "data_places"  # the same file of a run that was ended with something left; git ignores it too
KINDS: dict[str, type[Record]] = {"ready": Ready, "burst": Window, "lost": Lost, "spent": Spent}
NAMES = {kind: name for name, kind in KINDS.items()}
LONGEST_LINE = 1 << 20  # bytes; a record is a few hundred


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a run's folder says about itself."""

    began: str  # UTC, ISO 8601
    version: str  # of the harness
    command: str
    rehearsed: bool  # invented times, not measured ones
    environment: Environment
    plan: Plan
    code: str = field(default="", metadata={"since": "0.3.0"})  # digest of the arms' code; empty where nobody looked

    @property
    def digest(self) -> str:
        """Eight hexadecimal digits for plan, environment, version and code: the same command on the same machine."""
        facts = [encode(self.plan), self.environment.identity, self.version, self.rehearsed]
        facts += [self.code] if self.code else []  # runs that did not know it keep their names
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:8]


def stamp_of(run: Run) -> str:
    """The second in which a run began, as its folder's name states it: `20261120T212407`."""
    return run.began.replace("-", "").replace(":", "")[:15]


def folder_of(results: Path, run: Run) -> Path:
    """Where a run is kept: under its machine's name, by the hour it began and its digest."""
    return results / run.environment.machine / f"{stamp_of(run)}-{run.digest}"


def run_text(run: Run) -> str:
    """What `run.json` holds."""
    return json.dumps({"schema": SCHEMA, **encode(run)}, indent=1) + "\n"


def record_line(record: Record) -> bytes:
    """One line of `measurements.jsonl`, its end included."""
    body = {"schema": SCHEMA, "record": NAMES[type(record)], **encode(record)}
    return json.dumps(body, allow_nan=False).encode() + b"\n"


def files_of(run: Run, records: Iterable[Record]) -> dict[str, bytes]:
    """What the folder of a run holds, by file."""
    return {RUN: run_text(run).encode(), MEASUREMENTS: b"".join(map(record_line, records))}


def create(results: Path, run: Run) -> Path:
    """Makes the folder of a new run under the machine's name and writes what it is; raises Mistake on a full disk."""
    folder = folder_of(results, run)
    try:
        folder.mkdir(parents=True)
        (folder / IN_PROGRESS).touch()  # first: a run without it is held to be finished
        write_durably(folder / RUN, run_text(run).encode())
        _sync_folder(folder.parent)
    except OSError as error:
        raise Mistake(
            f"Cannot write results to {folder} ({error.strerror}); choose another folder with --results."
        ) from error
    return folder


def in_progress(results: Path, digest: str) -> Path | None:
    """The newest folder of an unfinished run of this machine with that digest, to be continued."""
    found = [folder for folder in unfinished(results) if folder.name.endswith(f"-{digest}")]
    return found[-1] if found else None


def unfinished(results: Path) -> list[Path]:
    """The folders of all runs in which something is left to measure, the newest last.

    One that died before it had written what it is has nothing to continue.
    """
    found = (marker.parent for marker in results.glob(f"*/*/{IN_PROGRESS}"))
    return sorted((folder for folder in found if (folder / RUN).exists()), key=lambda folder: folder.name)


def is_own(folder: Path) -> bool:
    """Whether a run was measured here, and not taken in from elsewhere."""
    return not (folder / ORIGIN).exists()


def finished(results: Path, run: Run) -> Path | None:
    """The newest run that the same command measured to its end on this machine."""
    same = sorted((results / run.environment.machine).glob(f"*-{run.digest}"), reverse=True)
    return next((one for one in same if is_finished(one) and is_own(one)), None)


def is_finished(folder: Path) -> bool:
    """Whether nothing of a run is left to measure."""
    return not (folder / IN_PROGRESS).exists()


def finish(folder: Path) -> None:
    """Says that nothing is left to measure: the same command then begins another run."""
    (folder / IN_PROGRESS).unlink(missing_ok=True)


def set_aside(folder: Path) -> None:
    """Ends a run with what it has; where its data lie is kept for who may go on with it."""
    (folder / IN_PROGRESS).replace(folder / PLACES)


def reopen(folder: Path) -> None:
    """Says that something of a run is left to measure, on the data that it was begun with."""
    if is_finished(folder) and (folder / PLACES).exists():
        (folder / PLACES).replace(folder / IN_PROGRESS)
    (folder / IN_PROGRESS).touch()


def hold_to_data(folder: Path, data: Mapping[str, Path]) -> None:
    """Notes in an unfinished run where each workload's data lie; raises Mistake where it was begun on others.

    The same data in another place load at another speed: their windows are never one measurement.
    """
    marker = folder / IN_PROGRESS
    if not marker.exists():
        return
    before = _places(marker)
    for name, place in data.items():
        if before.setdefault(name, str(place)) != str(place):
            raise Mistake(
                f"The run in {folder} was begun with the data of {name} in {before[name]}, which now lie in {place}; "
                "give --data as before to continue it, or begin anew with --fresh."
            )
    replace_file(marker, json.dumps(before).encode(), "make room and give the same command again")


def _places(marker: Path) -> dict[str, Any]:
    """Where the data of an unfinished run lie, as noted; nothing of one that was only just begun or taken in."""
    try:
        found = json.loads(marker.read_text(encoding="utf-8") or "{}")
    except (OSError, ValueError, RecursionError) as error:
        found = error
    if not isinstance(found, dict):
        raise Mistake(f"{marker} is damaged; begin anew with --fresh, or empty it if the data lie where they lay.")
    return found


def read_run(folder: Path) -> Run:
    """What a run is; raises Mistake when the folder is none, damaged, or from a future version."""
    path = folder / RUN
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Mistake(f"{folder} is not a run: it has no {RUN}; ./speedmatrix run makes one.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise Mistake(f"{path} cannot be read ({error}); restore it or measure again.") from error
    body = _checked_schema(data, path)
    try:
        run = decode(Run, body, RUN)
        if datetime.fromisoformat(run.began).tzinfo is None:
            raise Malformed(f"began is '{run.began}', without a time zone")
        return replace(run, plan=in_todays_words(run.plan, data["schema"]))
    except ValueError as error:
        raise Mistake(f"{path} is damaged: {error}; restore it or measure again.") from error


def read_records(folder: Path) -> list[Record]:
    """All complete records of a run, in the order in which they were made; raises Mistake on a damaged line."""
    path = folder / MEASUREMENTS
    if not path.exists():
        return []
    try:
        return [_record(line, f"{path}, line {number}") for number, line in _complete_lines(path)]
    except OSError as error:
        raise Mistake(f"{path} cannot be read ({error.strerror}); check its permissions.") from error


def _complete_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as file:
        number = 0
        while line := file.readline(LONGEST_LINE):
            number += 1
            if line.endswith(b"\n"):
                yield number, line
            elif len(line) == LONGEST_LINE:
                raise Mistake(f"{path}, line {number} is longer than any record; restore the file or measure again.")


def _record(line: bytes, where: str) -> Record:
    try:
        body = _checked_schema(json.loads(line.decode("utf-8")), where)  # of bytes json would guess the encoding
        name = str(body.pop("record", None))
        if name not in KINDS:
            raise Malformed(f"record must be one of {', '.join(KINDS)}")
        return decode(KINDS[name], body)
    except (ValueError, RecursionError) as error:
        raise Mistake(f"{where} is damaged ({error}); restore the file or measure again.") from error


def _checked_schema(data: Any, where: object) -> dict[str, Any]:
    if not isinstance(data, dict) or not isinstance(data.get("schema"), int):
        raise Mistake(f"{where} states no schema; it was not written by speedmatrix or is damaged.")
    if data["schema"] > SCHEMA:
        raise Mistake(f"{where} has schema {data['schema']}, newer than {SCHEMA}; update speedmatrix to read it.")
    return {name: value for name, value in data.items() if name != "schema"}


class Journal:
    """The open measurements of a run: every record is on the disk before `append` returns."""

    def __init__(self, folder: Path) -> None:
        """Opens the file for appending and cuts off a line that a crash left unfinished."""
        self._path = folder / MEASUREMENTS
        try:
            # Unbuffered: a buffer would keep what a full disk refused, and write it later in the wrong place.
            self._file = self._path.open("ab", buffering=0)
            self._lock()
            self._cut_unfinished_line()
            _sync_folder(folder)
        except OSError as error:
            raise Mistake(f"Cannot write {self._path} ({error.strerror}); make the folder writable.") from error

    def append(self, record: Record) -> None:
        """Writes one record; raises Mistake when the disk is full, with all earlier records intact."""
        line = record_line(record)
        end = self._file.seek(0, os.SEEK_END)
        try:
            self._write(line)
            os.fsync(self._file.fileno())
        except OSError as error:
            self._file.truncate(end)
            raise Mistake(
                f"Cannot write {self._path} ({error.strerror}); what was measured before is kept: "
                "make room and give the same command again."
            ) from error
        if os.fstat(self._file.fileno()).st_nlink == 0:  # to write to a removed file succeeds all the same
            raise Mistake(
                f"{self._path} was removed while it was written, with all that was measured; restore it from a "
                "copy, or give the same command again to measure anew."
            )

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _lock(self) -> None:
        """Two processes that append to one run would pair each other's windows; the kernel ends the lock."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise Mistake(f"Another process measures into {self._path.parent}; wait until it has ended.") from None
        except OSError:  # a file system without locks
            return

    def _cut_unfinished_line(self) -> None:
        content = self._path.read_bytes()
        if content and not content.endswith(b"\n"):
            self._file.truncate(content.rfind(b"\n") + 1)

    def _write(self, line: bytes) -> None:
        while line:  # a nearly full disk takes a part and refuses the rest
            line = line[self._file.write(line) :]


# Resuming: which unfinished run a command goes on with, and when it must not.


def resumable(results: Path, run: Run) -> Path | None:
    """The folder of the run that the same command has begun, or None.

    Raises Mistake where it was begun under other conditions: windows of two of them are never one measurement.
    """
    found = in_progress(results, run.digest)
    # A damaged one is noticed before anything is written beside it; one of a former baseline is left alone.
    if found is not None and read_run(found).plan == run.plan:
        return found
    for folder, other in _begun_elsewise(results, run):
        raise Mistake(
            f"This command has begun the run in {folder} under other conditions: {'; '.join(changes(other, run))}. "
            "Restore them to continue it, or begin anew with --fresh."
        )
    return None


def changes(before: Run, now: Run) -> Iterator[str]:
    """What differs between the conditions of two runs, each as `name was, now is`."""
    if before.version != now.version:
        yield f"speedmatrix was {before.version}, now is {now.version}"
    if before.code != now.code:
        yield f"the code of the arms was {before.code or 'unknown'}, now is {now.code or 'unknown'}"
    for name, was, is_now in differing(before.environment, now.environment):
        yield f"{name} was {_shown(was)}, now is {_shown(is_now)}"


def clock_note(results: Path, run: Run) -> str | None:
    """Words where a run says that it began later than now, as after a clock that went back; else None."""
    folders = (path.parent.name for path in (results / run.environment.machine).glob(f"*/{RUN}"))
    newest = max(folders, default="")
    if newest.partition("-")[0] <= stamp_of(run):
        return None
    return (
        f"The clock says {run.began}, and the run {newest} says that it began later. Nothing is lost by that, but "
        "reports take the run with the later name for the newest."
    )


def _begun_elsewise(results: Path, run: Run) -> Iterator[tuple[Path, Run]]:
    """Unfinished runs of the same plan or command on this machine under other conditions, the newest first.

    One that is older than a run of today's conditions was left behind on purpose, by --fresh.
    """
    machine = results / run.environment.machine
    since = max((path.name for path in machine.glob(f"*-{run.digest}")), default="")
    for folder in reversed(unfinished(results)):
        other = _readable(folder) if folder.parent == machine and folder.name > since else None
        if other is None or other.rehearsed != run.rehearsed:
            continue
        if other.environment.device != run.environment.device:  # of a sweep: another device was asked for
            continue
        same = other.plan == run.plan or other.command == run.command
        if same and any(changes(other, run)):
            yield folder, other


def _readable(folder: Path) -> Run | None:
    """What a run is; None of one that is damaged: nobody could continue it, and whoever reports it is told."""
    try:
        return read_run(folder)
    except Mistake:
        return None


def _shown(fact: str | int | None) -> str:
    return "missing" if fact is None else str(fact)


# Replacing: a file that is written beside itself and then renamed, so that nobody ever reads half of it.


def replace_file(path: Path, content: bytes, remedy: str) -> None:
    """Writes a file whole or not at all, down to the disk; raises Mistake with the remedy where that cannot be."""
    try:
        write_durably(path, content)
    except OSError as error:
        raise Mistake(f"Cannot write {path} ({error.strerror}); {remedy}.") from error


def make_folder(folder: Path, remedy: str) -> Path:
    """The folder, made if need be; raises Mistake with the remedy where that cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Mistake(f"Cannot make {folder} ({error.strerror}); {remedy}.") from error
    return folder


def write_durably(path: Path, content: bytes) -> None:
    """The same with the system's own errors."""
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial")  # others may write the same file
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        _sync_folder(path.parent)
    finally:
        if partial.is_file():
            partial.unlink()


def _sync_folder(folder: Path) -> None:
    """A file that is on the disk is lost all the same while its name is not there."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:  # of a file system that keeps no folders
            raise
    finally:
        os.close(descriptor)
