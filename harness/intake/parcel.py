"""Parcels: the files of one run out of a bundle or a folder, by name, limited in size, and nothing else.

No name in an archive ever becomes a path: three names are known, and whatever bears another is refused.
"""

import hashlib
import io
import stat
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.intake.refusal import Unfit, shown
from harness.store import MEASUREMENTS, RUN

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
