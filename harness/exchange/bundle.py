"""Bundles: one run in a zip, written, and read again without more trust than in any other file from elsewhere.

No name in an archive ever becomes a path: three names are known, and whatever bears another is refused.
"""

import hashlib
import io
import json
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from harness.core.codec import Malformed, decode, encode
from harness.core.plan import in_todays_words
from harness.core.records import Record
from harness.exchange.validation import Unfit, check_records, check_run, parsed, shown
from harness.store import KINDS, LONGEST_LINE, MEASUREMENTS, RUN, SCHEMA, Run, files_of

MANIFEST = "bundle.json"
MEBIBYTE = 1 << 20
LARGEST: Mapping[str, int] = {MANIFEST: MEBIBYTE >> 4, RUN: 8 * MEBIBYTE, MEASUREMENTS: 64 * MEBIBYTE}
LARGEST_BUNDLE = 32 * MEBIBYTE
TIGHTEST = 200  # times smaller by compression; ours get 20 times smaller
MOST_HEADERS = 64  # of files in an archive, before it is looked at: every one costs memory
_HEADER = b"PK\x01\x02"
_KINDS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
# What zipfile raises for archives that are damaged or lie about themselves.
_BROKEN = (
    *(zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, struct.error, EOFError, OSError),
    *(ValueError, NotImplementedError, RuntimeError),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """What was found: the bytes of each known file."""

    files: Mapping[str, bytes]
    digest: str  # SHA-256 of the bundle, or of the files one after the other
    bundled: bool


def unpacked(source: Path) -> Parcel:
    """The files of a bundle or of a run's folder; raises Unfit for anything else."""
    if source.is_dir():
        return _folder(source)
    content = _content(source, LARGEST_BUNDLE, follow=True)
    files = _extracted(content)
    return Parcel(files=files, digest=hashlib.sha256(content).hexdigest(), bundled=True)


def _folder(folder: Path) -> Parcel:
    names = [name for name in (MANIFEST, RUN, MEASUREMENTS) if (folder / name).is_symlink() or (folder / name).exists()]
    if RUN not in names:
        raise Unfit(f"it has no {RUN}", "name the folder of one run, or a bundle")
    files = {name: _content(folder / name, LARGEST[name], follow=False) for name in names}
    digest = hashlib.sha256(b"".join(files.values())).hexdigest()
    return Parcel(files=files, digest=digest, bundled=False)


def _content(path: Path, most: int, *, follow: bool) -> bytes:
    """The bytes of a regular file that is no larger than allowed."""
    try:
        status = path.stat() if follow else path.lstat()
        if not stat.S_ISREG(status.st_mode):
            kind = "a link" if stat.S_ISLNK(status.st_mode) else "no regular file"
            raise Unfit(f"{path.name} is {kind}", "give the file itself")
        with path.open("rb") as file:
            content = file.read(most + 1)
    except FileNotFoundError as error:
        raise Unfit("there is no such file or folder", "check the path") from error
    except (OSError, ValueError) as error:
        raise Unfit(f"{path.name} cannot be read ({error})", "check its permissions") from error
    if len(content) > most:
        raise Unfit(f"{path.name} is larger than {_size(most)}, and no run is")
    return content


def _extracted(content: bytes) -> dict[str, bytes]:
    # Every entry that a directory lists is an object in memory, so they are counted before it is read.
    if content.count(_HEADER) > MOST_HEADERS:
        raise Unfit(f"the archive lists more than {MOST_HEADERS} files, and a bundle has three")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
            _check_names([one.orig_filename for one in entries])
            return {one.filename: _entry(archive, one) for one in entries}
    except _BROKEN as error:
        raise Unfit(f"it is no whole zip archive ({error or type(error).__name__})", "fetch it again") from error


def _check_names(names: list[str]) -> None:
    for name in names:
        if name not in LARGEST:
            known = f"{MANIFEST}, {RUN} and {MEASUREMENTS}"
            raise Unfit(f"the archive has a file '{shown(name)}', and a bundle has {known} alone")
        if names.count(name) > 1:
            raise Unfit(f"the archive has {name} twice")
    for name in LARGEST:
        if name not in names:
            raise Unfit(f"the archive has no {name}")


def _entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """One file, read no further than its limit whatever the archive says of its size."""
    name, most = entry.filename, LARGEST[entry.filename]
    if stat.S_IFMT(entry.external_attr >> 16) not in {0, stat.S_IFREG}:
        raise Unfit(f"{name} is a link or a device, and a bundle has files alone")
    if entry.flag_bits & 1 or entry.compress_type not in _KINDS:
        raise Unfit(f"{name} is encrypted or packed in a way that bundles are not")
    if entry.file_size > most:
        raise Unfit(f"{name} would unpack to {entry.file_size:,} bytes, and {_size(most)} are the most")
    if entry.file_size > TIGHTEST * max(1, entry.compress_size):
        raise Unfit(f"{name} unpacks to more than {TIGHTEST} times its size, and no measurement does")
    with archive.open(entry) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise Unfit(f"{name} unpacks to more than {_size(most)}, whatever the archive says")
    return content


def _size(count: int) -> str:
    return f"{count // MEBIBYTE} MiB" if count >= MEBIBYTE else f"{count >> 10} KiB"


# The manifest of a bundle: what it holds, with digests, so that a damaged copy is known before it is read.

FORMAT = 1  # of bundle.json; the run's own schema is told inside
FORMATS = range(1, FORMAT + 1)
UPDATE = "update speedmatrix to read it"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """One file of a bundle."""

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What `bundle.json` says."""

    run_schema: int
    version: str  # of the harness that measured
    command: str
    machine: str  # for whoever looks into the archive, like the next: rules for both have changed between versions
    environment: str  # its digest
    records: int
    removed: int  # places in texts that told a folder, a user or a host
    files: dict[str, FileFacts]

    def encoded(self) -> dict[str, Any]:
        """JSON-ready data."""
        return {"schema": FORMAT, **encode(self)}


def facts_of(content: bytes) -> FileFacts:
    """Length and digest of a file."""
    return FileFacts(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())


def read_manifest(content: bytes) -> Manifest:
    """The manifest; raises Unfit where it is none, damaged, or from a future version."""
    data = parsed(content, MANIFEST)
    manifest: Manifest = _decoded(Manifest, without_schema(data, MANIFEST, FORMATS), MANIFEST)
    return manifest


def without_schema(data: Any, where: str, known: range) -> dict[str, Any]:
    """The fields beside a schema number that this version can read; raises Unfit for any other number."""
    number = data.get("schema") if isinstance(data, dict) else None
    if type(number) is not int or number < known[0]:
        raise Unfit(f"{where} states no schema of any version")
    if number > known[-1]:
        raise Unfit(f"{where} has schema {number}, newer than {known[-1]}", UPDATE)
    return {name: value for name, value in data.items() if name != "schema"}


def check_files(manifest: Manifest, files: Mapping[str, bytes]) -> None:
    """Raises Unfit for a file that is not as it was packed."""
    for name in sorted(manifest.files.keys() ^ (files.keys() - {MANIFEST})):
        raise Unfit(f"{MANIFEST} and the files beside it disagree about '{name}'")
    for name, facts in manifest.files.items():
        if facts_of(files[name]) != facts:
            raise Unfit(f"{name} has changed since it was packed: its SHA-256 is not the one in {MANIFEST}")


def check_against(manifest: Manifest, run: Run, records: int) -> None:
    """Raises Unfit where a manifest tells another story than the run beside it."""
    for name, theirs in (("version", run.version), ("command", run.command), ("records", records)):
        ours = getattr(manifest, name)
        if ours != theirs:
            raise Unfit(f"{MANIFEST} says {name} '{ours}', and the run itself '{theirs}'")


# Contributions: a run as it came, checked field by field and against itself.

SCHEMAS = range(1, SCHEMA + 1)
MOST_RECORDS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """A run that the analysis can bear, and the schema in which it came."""

    run: Run
    records: tuple[Record, ...]
    schema: int


def read(parcel: Parcel, now: datetime) -> Contribution:
    """The run in a parcel; raises Unfit with the first thing that is wrong with it."""
    manifest = read_manifest(parcel.files[MANIFEST]) if MANIFEST in parcel.files else None
    if manifest is not None:
        check_files(manifest, parcel.files)
    data = parsed(parcel.files[RUN], RUN)
    run = _decoded(Run, without_schema(data, RUN, SCHEMAS), RUN)
    check_run(run, now)
    records = tuple(_records(parcel.files.get(MEASUREMENTS, b""), data["schema"]))
    check_records(run, records)
    if manifest is not None:
        check_against(manifest, run, len(records))
    todays = replace(run, plan=in_todays_words(run.plan, data["schema"]))
    return Contribution(run=todays, records=records, schema=data["schema"])


def _records(content: bytes, schema: int) -> Iterator[Record]:
    *lines, _cut_short = content.split(b"\n")
    if len(lines) > MOST_RECORDS:
        raise Unfit(f"{MEASUREMENTS} has {len(lines):,} lines, and {MOST_RECORDS:,} records are the most")
    for number, line in enumerate(lines, 1):
        yield _record(line, schema, f"{MEASUREMENTS}, line {number}")


def _record(line: bytes, schema: int, where: str) -> Record:
    if len(line) > LONGEST_LINE:
        raise Unfit(f"{where} is longer than any record")
    data = parsed(line, where)
    body = without_schema(data, where, SCHEMAS)
    if data["schema"] != schema:
        raise Unfit(f"{where} has schema {data['schema']}, and {RUN} has {schema}")
    kind = body.pop("record", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise Unfit(f"{where} is no record: its kind must be one of {', '.join(KINDS)}")
    record: Record = _decoded(KINDS[kind], body, where)
    return record


def _decoded(kind: type[Any], body: dict[str, Any], where: str) -> Any:
    try:
        return decode(kind, body, where)
    except Malformed as malformed:
        raise Unfit(str(malformed)) from malformed


# Packing: a run as one archive that depends on nothing but its data.

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest day that zip knows


def packed(contribution: Contribution, removed: int) -> bytes:
    """The bundle: the same bytes for the same data, wherever the same zlib packs them."""
    run, records = contribution.run, contribution.records
    files = files_of(run, records)
    manifest = Manifest(
        run_schema=SCHEMA,
        version=run.version,
        command=run.command,
        machine=run.environment.machine,
        environment=run.environment.digest,
        records=len(records),
        removed=removed,
        files={name: facts_of(content) for name, content in files.items()},
    )
    return _archive({MANIFEST: (json.dumps(manifest.encoded(), indent=1) + "\n").encode(), **files})


def _archive(files: dict[str, bytes]) -> bytes:
    packed_into = io.BytesIO()
    with zipfile.ZipFile(packed_into, "w") as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type, entry.create_system, entry.external_attr = zipfile.ZIP_DEFLATED, 3, 0o100644 << 16
            archive.writestr(entry, content, compresslevel=9)
    return packed_into.getvalue()
