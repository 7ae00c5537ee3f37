"""Placing: a checked run among the results, whole or not at all, in a folder that its content names."""

import json
import os
import secrets
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.core.codec import Malformed, decode, encode
from harness.core.mistake import Mistake
from harness.core.records import Record
from harness.exchange.bundle import Contribution
from harness.exchange.privacy import Cleaner, clean_record, clean_run
from harness.store import (
    MEASUREMENTS,
    ORIGIN,
    RUN,
    Run,
    folder_of,
    read_records,
    read_run,
    record_line,
    run_text,
    stamp_of,
)

SCHEMA = 1  # of origin.json


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where an imported run came from: enough to find the bundle again, and nothing about whoever took it in."""

    imported: str  # UTC, ISO 8601
    contributed: bool  # somebody else measured it
    bundled: bool  # it came as a bundle, not as a folder
    sha256: str  # of what came
    run_schema: int  # in which it came


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Where a run lies now, and whether it lay there before."""

    folder: Path
    new: bool


def place(results: Path, contribution: Contribution, origin: Origin) -> Placed:
    """Writes a run under its machine's name; raises Mistake where another lies there, or where nothing can be written.

    What is written is our own encoding of what was read, never the bytes that came. It appears under its name when it
    is complete: a folder is renamed at the end, so that a cut leaves no half run.
    """
    folder = folder_of(results, contribution.run)
    files = _files(contribution.run, contribution.records)
    if same := _kept_already(folder.parent, stamp_of(contribution.run), files):
        return Placed(folder=same, new=False)
    if folder.exists():
        raise Mistake(f"{folder} holds other data under the same name; move it or choose another --results.")
    files[ORIGIN] = (json.dumps({"schema": SCHEMA, **encode(origin)}, indent=1) + "\n").encode()
    write_whole(results, folder, files)
    return Placed(folder=folder, new=True)


def read_origin(folder: Path) -> Origin | None:
    """Where a run came from, or None where it was measured here; raises Mistake where the note is damaged."""
    path = folder / ORIGIN
    if not path.exists():
        return None
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
        if body.pop("schema") != SCHEMA:
            raise Malformed("its schema is not known here")
        return decode(Origin, body, ORIGIN)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Mistake(f"{path} is damaged ({error}); take the run in again.") from error


def _files(run: Run, records: Iterable[Record]) -> dict[str, bytes]:
    return {RUN: run_text(run).encode(), MEASUREMENTS: b"".join(map(record_line, records))}


def _kept_already(machine: Path, stamp: str, files: Mapping[str, bytes]) -> Path | None:
    """A folder that holds the same run, whatever its name: an older version made the digest of other facts."""
    folders = (folder for folder in sorted(machine.glob(f"{stamp}-*")) if (folder / RUN).exists())
    return next((folder for folder in folders if _cleaned(folder) == files), None)


def _cleaned(folder: Path) -> Mapping[str, bytes]:
    """The files of a run as they would be passed on: one that was measured here may still name its folders."""
    cleaner = Cleaner()
    return _files(clean_run(read_run(folder), cleaner), (clean_record(one, cleaner) for one in read_records(folder)))


def write_whole(results: Path, folder: Path, files: Mapping[str, bytes]) -> None:
    """Makes a folder with some files in it, which appears when it is complete; raises Mistake where it cannot be."""
    # One level deep: what looks for runs looks two levels deep and never sees it half.
    partial = results / f".incoming-{secrets.token_hex(8)}"
    try:
        partial.mkdir(parents=True)
        for name, content in files.items():
            _write_durably(partial / name, content)
        folder.parent.mkdir(exist_ok=True)
        partial.rename(folder)
    except OSError as error:
        raise Mistake(f"Cannot write {folder} ({error.strerror}); choose another folder with --results.") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _write_durably(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
