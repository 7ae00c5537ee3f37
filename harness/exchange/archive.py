"""Archives: all runs of a campaign in one file that is handed from machine to machine.

It is a gzipped tar, so that anybody can look into it. What is read here is walked header by header: names must be of
the one form that ours have, and none of them ever becomes a path.
"""

import fcntl
import gzip
import io
import json
import os
import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from harness.core.environment import Environment
from harness.core.mistake import Mistake
from harness.core.records import Record
from harness.exchange.bundle import LARGEST, MEBIBYTE, Contribution, Parcel, read
from harness.exchange.placing import write_whole
from harness.exchange.validation import Unfit, sentence, shown
from harness.store import (
    IN_PROGRESS,
    MEASUREMENTS,
    ORIGIN,
    RUN,
    Run,
    files_of,
    finish,
    folder_of,
    is_finished,
    read_records,
    read_run,
    record_line,
    replace_file,
    stamp_of,
)

LARGEST_ARCHIVE, LARGEST_INSIDE = 64 * MEBIBYTE, 512 * MEBIBYTE
MOST_FILES = 2000
STATE = "campaign.json"  # beside the runs of a machine
SIZES = {**LARGEST, IN_PROGRESS: 1024, STATE: MEBIBYTE}  # bytes, at most

NAME_OF_RUN = r"[0-9]{8}T[0-9]{6}-[0-9a-f]{8}"  # of its folder
_NAME = re.compile(
    rf"(?P<machine>[a-z0-9][a-z0-9-]{{0,59}})/"
    rf"(?:(?P<run>{NAME_OF_RUN})/(?P<file>{re.escape(RUN)}|{re.escape(MEASUREMENTS)}|{IN_PROGRESS})"
    rf"|{re.escape(STATE)})"
)
_BLOCK = tarfile.BLOCKSIZE
_BROKEN = (tarfile.TarError, zlib.error, EOFError, OSError, ValueError)


States = Mapping[str, bytes]  # of campaigns, by machine


def packed_archive(files: Mapping[str, bytes]) -> bytes:
    """The archive of some files by name, the same bytes for the same files; raises Unfit for what none may hold."""
    packed_into = io.BytesIO()
    with tarfile.open(fileobj=packed_into, mode="w:", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in sorted(files.items()):
            _check(name, len(content))
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    found = gzip.compress(packed_into.getvalue(), compresslevel=6, mtime=0)
    if len(files) > MOST_FILES or len(found) > LARGEST_ARCHIVE:
        raise Unfit(f"{len(files):,} files of {len(found) // MEBIBYTE} MiB are more than an archive holds")
    return found


def read_archive(content: bytes) -> tuple[list[tuple[Parcel, bool]], States]:
    """The runs in an archive, each with whether something was left to measure, and the states of their campaigns.

    Raises Unfit for anything that ours never have.
    """
    files = dict(_files(_inside(content)))
    runs: dict[str, dict[str, bytes]] = {}
    for name, one in files.items():
        folder, _, file = name.rpartition("/")
        if file != STATE:
            runs.setdefault(folder, {})[file] = one
    found = []
    for folder, inside in sorted(runs.items()):
        if RUN not in inside:
            raise Unfit(f"the archive has files of {shown(folder)} and no {RUN} among them")
        is_unfinished = inside.pop(IN_PROGRESS, None) is not None
        found.append((Parcel(files=inside, digest="", bundled=True), is_unfinished))
    return found, {name.partition("/")[0]: one for name, one in files.items() if name.endswith(f"/{STATE}")}


def _inside(content: bytes) -> bytes:
    """The tar itself, read no further than its limit whatever the archive says of its size."""
    if len(content) > LARGEST_ARCHIVE:
        raise Unfit(f"it is larger than {LARGEST_ARCHIVE // MEBIBYTE} MiB, and no archive is")
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            inside = file.read(LARGEST_INSIDE + 1)
    except _BROKEN as error:
        raise Unfit(f"it is no whole gzip file ({error or type(error).__name__})", "fetch it again") from error
    if len(inside) > LARGEST_INSIDE:
        raise Unfit(f"it unpacks to more than {LARGEST_INSIDE // MEBIBYTE} MiB, and no archive does")
    return inside


def _files(inside: bytes) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the regular files of a tar, which must hold nothing else.

    Headers are walked here because a damaged one may send the library's own walk back to where it was before.
    """
    at, seen = 0, set[str]()
    while header := _header(inside[at : at + _BLOCK]):
        if header.type not in {tarfile.REGTYPE, tarfile.AREGTYPE}:
            raise Unfit(f"'{shown(header.name)}' in it is no regular file, and an archive has files alone")
        _check(header.name, header.size)
        if header.name in seen or len(seen) == MOST_FILES:
            raise Unfit(f"it has '{shown(header.name)}' twice, or more than {MOST_FILES:,} files")
        seen.add(header.name)
        content = inside[at + _BLOCK : at + _BLOCK + header.size]
        if len(content) < header.size:
            raise Unfit(f"it ends within '{shown(header.name)}'", "fetch it again")
        yield header.name, content
        at += _BLOCK + -(-header.size // _BLOCK) * _BLOCK


def _header(block: bytes) -> tarfile.TarInfo | None:
    """A file's header; None where the archive ends."""
    if not block.strip(b"\0"):
        if len(block) < _BLOCK:
            raise Unfit("it ends before its end is marked", "fetch it again")
        return None
    try:
        return tarfile.TarInfo.frombuf(block, "utf-8", "strict")
    except _BROKEN as error:
        raise Unfit(f"it is no whole tar archive ({error or type(error).__name__})", "fetch it again") from error


def _check(name: str, size: int) -> None:
    if not _NAME.fullmatch(name):
        raise Unfit(f"it has a file '{shown(name)}', and the archive of a campaign has none of such a name")
    most = SIZES[name.rpartition("/")[2]]
    if not 0 <= size <= most:
        raise Unfit(f"'{shown(name)}' in it has {size:,} bytes, and {most:,} are the most")


# Travelling: the runs of a machine packed into a file that survives it, and taken in again on the next one.
#
# What is taken in was measured by whoever hands the file on, so it counts as measured here; it is checked like
# anybody's.

ANOTHER = "restore the file, or name another with --archive"


def check_place(archive: Path) -> None:
    """Raises Mistake where an archive could not be written at the end, before anything is measured for it."""
    folder = archive.absolute().parent
    if archive.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise Mistake(f"{archive} cannot be written; name a file in a folder that exists and is writable.")


def opened(archive: Path) -> tuple[list[tuple[Contribution, bool]], States]:
    """The same of a file, the runs checked; nothing where there is none. Raises Mistake for what no campaign wrote."""
    if not archive.exists():
        return [], {}
    now = datetime.now(UTC)
    try:
        parcels, states = read_archive(_content(archive))
        runs = [(read(parcel, now), is_unfinished) for parcel, is_unfinished in parcels]
    except Unfit as unfit:
        raise Mistake(sentence(f"{archive} is not taken in", unfit, ANOTHER)) from unfit
    return runs, states


def pack(archive: Path, results: Path, environment: Environment) -> list[str]:
    """Writes the runs of one environment and the state of their campaign, whole or not at all.

    What the archive holds already stays in it: runs of other machines and environments may lie nowhere else. Gives a
    sentence for each run that whoever takes the archive in would refuse, and everything else with it: it is left out.
    """
    machine, left_out = results / environment.machine, list[str]()
    with _alone(archive):
        try:
            files = dict(_files(_inside(_content(archive)))) if archive.exists() else {}
            # Those that were taken in may have gone on here.
            held = {results / name.rpartition("/")[0] for name in files if not name.endswith(f"/{STATE}")}
            gone_on = {one for one in held if (one / RUN).exists() and (one / MEASUREMENTS).exists()}
            for folder in sorted(gone_on.union(own_runs(machine, environment))):
                left_out += _put(files, folder)
            if (machine / STATE).exists():
                ours, place = (machine / STATE).read_bytes(), f"{machine.name}/{STATE}"
                files[place] = _further(files.get(place, b""), ours)
            content = packed_archive(files)
        except Unfit as unfit:
            raise Mistake(sentence(f"{archive} is not written", unfit, f"take {machine} itself along")) from unfit
        replace_file(archive, content, "make room, or name another file with --archive")
    return left_out


@contextmanager
def _alone(archive: Path) -> Iterator[None]:
    """Of two that pack into one archive at once, the later would leave out what the earlier has just added.

    The lock is on a file beside it, since the archive itself is replaced.
    """
    try:
        lock = archive.with_name(f"{archive.name}.lock").open("ab")
    except OSError as error:
        raise Mistake(f"{archive} cannot be locked ({error.strerror}); name another file with --archive.") from error
    with lock:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _further(held: bytes, ours: bytes) -> bytes:
    """Of two states of one campaign the one that has spent more; ours where they are not of one, or one is damaged."""
    try:
        theirs, here = json.loads(held), json.loads(ours)
        is_behind = theirs["began"] == here["began"] and theirs["spent_s"] > here["spent_s"]
    except (ValueError, TypeError, KeyError):
        return ours
    return held if is_behind else ours


def _put(files: dict[str, bytes], folder: Path) -> Iterator[str]:
    """Puts a run, as it lies here, into the place of what the archive holds of it, unless that has more.

    Says why where it cannot be: a machine may have gone on with what another one went on with too.
    """
    name = f"{folder.parent.name}/{folder.name}"
    anew = files_of(read_run(folder), read_records(folder))  # so that a line that was cut short stays behind
    found = {f"{name}/{file}": content for file, content in anew.items()}
    try:
        held = {file: files[f"{name}/{file}"] for file in anew if f"{name}/{file}" in files}
        if held and not found.items() <= files.items():
            told = _lines(read(Parcel(files=held, digest="", bundled=True), datetime.now(UTC)).records)
            if told.startswith(anew[MEASUREMENTS]) and told != anew[MEASUREMENTS]:
                return
            if not anew[MEASUREMENTS].startswith(told):
                raise Unfit("the archive holds another course of it, which another machine has measured")
        if not found.items() <= files.items():  # else it was checked then: 25 runs take 3 s
            for file, content in found.items():
                _check(file, len(content))
            read(Parcel(files=anew, digest="", bundled=True), datetime.now(UTC))
    except Unfit as unfit:
        yield sentence(f"{folder} is not packed", unfit, "restore it or measure again")
        return
    files.update(found)
    files.pop(f"{name}/{IN_PROGRESS}", None)  # it may have ended since
    if not is_finished(folder):
        files[f"{name}/{IN_PROGRESS}"] = b""


def own_runs(machine: Path, environment: Environment) -> Iterator[Path]:
    """The folders of runs of real times that were measured in this very environment and hold something."""
    for path in sorted(machine.glob(f"*/{RUN}")):
        folder = path.parent
        if (folder / ORIGIN).exists() or not (folder / MEASUREMENTS).exists():
            continue
        run = read_run(folder)
        if not run.rehearsed and run.environment.digest == environment.digest and read_records(folder):
            yield folder


def _lines(records: Sequence[Record]) -> bytes:
    return b"".join(map(record_line, records))


def _content(archive: Path) -> bytes:
    try:
        with archive.open("rb") as file:
            return file.read(LARGEST_ARCHIVE + 1)
    except OSError as error:
        raise Mistake(f"{archive} cannot be read ({error.strerror}); {ANOTHER}.") from error


def keep(results: Path, contribution: Contribution, *, is_unfinished: bool) -> None:
    """Puts a run where it belongs; of two copies of one run the longer is kept, which must begin like the other.

    Raises Mistake where another run lies there.
    """
    folder, records = _home(results, contribution.run), contribution.records
    if not folder.exists():
        marker = {IN_PROGRESS: b""} if is_unfinished else {}
        write_whole(results, folder, {**files_of(contribution.run, records), **marker})
        return
    if (folder / ORIGIN).exists() or read_run(folder) != contribution.run:
        raise Mistake(f"{folder} holds another run than the archive has there; move it, or choose another --results.")
    here = read_records(folder)
    shorter = min(len(here), len(records))
    if _lines(here[:shorter]) != _lines(records[:shorter]):  # as text: what is no number equals nothing
        raise Mistake(f"{folder} and the archive disagree about what was measured there; move one of them.")
    if len(records) > len(here):
        replace_file(folder / MEASUREMENTS, _lines(records), "choose another folder with --results")
    if len(records) >= len(here) and not is_unfinished:
        finish(folder)


def _home(results: Path, run: Run) -> Path:
    """Where a run belongs: where it lies already, even if its digest was another when a version knew fewer facts."""
    usual = folder_of(results, run)
    older = (path.parent for path in usual.parent.glob(f"{stamp_of(run)}-*/{RUN}"))
    return usual if usual.exists() else next((one for one in older if read_run(one) == run), usual)
