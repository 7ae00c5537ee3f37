"""The manifest of a data folder: the length and the checksum of every file, noted when it was written."""

import json
import os
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness.core.mistake import Mistake

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
