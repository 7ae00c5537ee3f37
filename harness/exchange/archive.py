"""Archives: all runs of a campaign in one file that is handed from machine to machine.

It is a gzipped tar, so that anybody can look into it. What is read here is walked header by header: names must be of
the one form that ours have, and none of them ever becomes a path.
"""

import gzip
import io
import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from harness.exchange.bundle import LARGEST, MEBIBYTE, Parcel
from harness.exchange.validation import Unfit, shown
from harness.store import IN_PROGRESS, MEASUREMENTS, RUN

LARGEST_ARCHIVE, LARGEST_INSIDE = 64 * MEBIBYTE, 512 * MEBIBYTE
MOST_FILES = 2000
ACCOUNT = "campaign.json"  # beside the runs of a machine
SIZES = {**LARGEST, IN_PROGRESS: 1024, ACCOUNT: MEBIBYTE}  # bytes, at most

_NAME = re.compile(
    rf"(?P<machine>[a-z0-9][a-z0-9-]{{0,59}})/"
    rf"(?:(?P<run>[0-9]{{8}}T[0-9]{{6}}-[0-9a-f]{{8}})/(?P<file>{re.escape(RUN)}|{re.escape(MEASUREMENTS)}|{IN_PROGRESS})"
    rf"|{re.escape(ACCOUNT)})"
)
_BLOCK = tarfile.BLOCKSIZE
_BROKEN = (tarfile.TarError, zlib.error, EOFError, OSError, ValueError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """One run out of an archive, not yet looked into."""

    parcel: Parcel
    unfinished: bool  # something was left to measure


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """What an archive holds: runs, and the accounts of the campaigns that made them, by machine."""

    runs: tuple[Packed, ...]
    accounts: Mapping[str, bytes]


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


def read_archive(content: bytes) -> Archive:
    """The runs and accounts in an archive; raises Unfit for anything that ours never have."""
    files = dict(_files(_inside(content)))
    runs: dict[str, dict[str, bytes]] = {}
    for name, one in files.items():
        folder, _, file = name.rpartition("/")
        if file != ACCOUNT:
            runs.setdefault(folder, {})[file] = one
    return Archive(
        runs=tuple(_packed(folder, inside) for folder, inside in sorted(runs.items())),
        accounts={name.partition("/")[0]: one for name, one in files.items() if name.endswith(f"/{ACCOUNT}")},
    )


def _packed(folder: str, files: dict[str, bytes]) -> Packed:
    if RUN not in files:
        raise Unfit(f"the archive has files of {shown(folder)} and no {RUN} among them")
    known = {name: one for name, one in files.items() if name != IN_PROGRESS}
    return Packed(parcel=Parcel(files=known, digest="", bundled=True), unfinished=IN_PROGRESS in files)


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
    """Raises Unfit for a name or a size that no file of a campaign has."""
    if not _NAME.fullmatch(name):
        raise Unfit(f"it has a file '{shown(name)}', and the archive of a campaign has none of such a name")
    most = SIZES[name.rpartition("/")[2]]
    if not 0 <= size <= most:
        raise Unfit(f"'{shown(name)}' in it has {size:,} bytes, and {most:,} are the most")
