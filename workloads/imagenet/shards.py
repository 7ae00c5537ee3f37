"""The training files once more, packed into a few large tar files, and an index that says where each one lies.

Tar without compression is the field's format (WebDataset): its members are the files as they were, and an index of
offsets makes it readable in any order. python -m workloads.imagenet.shards FOLDER packs a folder of real images.
"""

import os
import sys
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from threading import get_ident
from time import perf_counter

from harness.core.mistake import Mistake
from harness.core.parallel import spread
from workloads.imagenet.layout import TRAIN
from workloads.imagenet.storage import Files, Read, class_folders

SHARDS, INDEX = "shards", "index.tsv"
SHARD_FILES = 1000  # about 112 MB, within the 100 MB to 1 GB that the format's makers advise

Places = Mapping[str, tuple[str, int, int]]  # path -> its shard, and the offset and number of its bytes there


@dataclass(frozen=True, slots=True)
class PackedFiles:
    """Files inside shards, each read by its offset: no file is opened but the shards, once a process."""

    folder: Path
    places: Places
    log: list[Read] | None = None
    name: str = "shards"

    def read(self, path: str) -> bytes:
        """One read at an offset; KeyError where the file was not packed."""
        began = perf_counter()
        shard, offset, count = self.places[path]
        encoded = os.pread(_opened(self.folder / SHARDS / shard), count, offset)
        if self.log is not None:
            self.log.append(Read(self.name, perf_counter() - began, get_ident()))
        return encoded

    def names(self, split: str) -> Mapping[str, Sequence[str]]:
        """What lies in the folder itself: the shards only repeat it."""
        return Files(self.folder).names(split)

    def connect(self) -> None:
        """Shards are opened when they are first read."""


def open_shards(folder: Path, paths: Sequence[str]) -> PackedFiles:
    """The shards of a folder; raises Mistake unless they hold all these files."""
    index = folder / SHARDS / INDEX
    remedy = f"python -m workloads.imagenet.shards {folder} packs them, or leave out sharded_files."
    if not index.is_file():
        raise Mistake(f"{folder} has no shards; {remedy}")
    places = {path: (shard, int(offset), int(count)) for path, shard, offset, count in _rows(index)}
    if missing := set(paths) - places.keys():
        raise Mistake(f"The shards of {folder} lack {min(missing)}; {remedy}")
    return PackedFiles(folder, {path: places[path] for path in paths})


def pack_all(folder: Path) -> Iterator[float]:
    """Packs all training files in the order of their paths, then writes the index; yields the share that is done."""
    found = class_folders(folder / TRAIN)
    paths = [f"{TRAIN}/{wnid}/{name}" for wnid in sorted(found) for name in sorted(found[wnid])]
    (folder / SHARDS).mkdir(exist_ok=True)
    parts = [tuple(paths[first : first + SHARD_FILES]) for first in range(0, len(paths), SHARD_FILES)]
    yield from spread(partial(_pack, folder), list(enumerate(parts)))
    rows = [row for number in range(len(parts)) for row in _members(folder, _shard_name(number))]
    (folder / SHARDS / INDEX).write_text("".join("\t".join(row) + "\n" for row in rows))


def _pack(folder: Path, numbered: tuple[int, Sequence[str]]) -> None:
    number, paths = numbered
    with tarfile.open(folder / SHARDS / _shard_name(number), "w", format=tarfile.USTAR_FORMAT) as shard:
        for path in paths:
            member = tarfile.TarInfo(path)  # without owner and time: the same bytes whenever it is written
            member.size = (folder / path).stat().st_size
            with (folder / path).open("rb") as file:
                shard.addfile(member, file)


def _shard_name(number: int) -> str:
    return f"{TRAIN}-{number:06d}.tar"


def _members(folder: Path, shard: str) -> Iterator[tuple[str, ...]]:
    with tarfile.open(folder / SHARDS / shard) as opened:
        for member in opened:
            yield member.name, shard, str(member.offset_data), str(member.size)


def _rows(index: Path) -> Iterator[list[str]]:
    with index.open(encoding="utf-8") as lines:
        yield from (line.rstrip("\n").split("\t") for line in lines)


@cache
def _opened(shard: Path) -> int:
    """A descriptor for as long as the process lives. A forked child may share it: reads at offsets move nothing."""
    return os.open(shard, os.O_RDONLY)


if __name__ == "__main__":
    for share in pack_all(Path(sys.argv[1])):
        sys.stdout.write(f"\r{share:.0%}")
    sys.stdout.write("\n")
