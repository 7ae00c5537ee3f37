"""The whole set of encoded images in memory, once for a trainer and all its loader workers."""

import mmap
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import get_ident
from time import perf_counter

from workloads.imagenet.mount import Mounted
from workloads.imagenet.shards import PackedFiles
from workloads.imagenet.storage import Files, Objects, Read, Source

FILLING_THREADS = 32

Spans = Mapping[str, tuple[int, int]]  # path -> where its bytes begin and end


class EncodedImages:
    """Encoded images in one piece of anonymous shared memory, which the kernel frees with the last process.

    A forked worker inherits the mapping; a spawned one opens the trainer's descriptor through /proc. Neither copies a
    byte, and neither needs room in /dev/shm, which containers keep small.
    """

    name = "ram"

    def __init__(self, opened: str, spans: Spans, log: list[Read] | None = None) -> None:
        """Maps the memory that `opened` names: /proc/<process>/fd/<descriptor>."""
        self.opened, self.spans, self.log = opened, spans, log
        with Path(opened).open("rb") as memory:
            self._bytes = mmap.mmap(memory.fileno(), 0, access=mmap.ACCESS_READ)
        self._owned: int | None = None

    def __reduce__(self) -> tuple[type["EncodedImages"], tuple[str, Spans]]:
        """Pickles as a name and a table: never the bytes."""
        return EncodedImages, (self.opened, self.spans)

    def __del__(self) -> None:
        """Closes the descriptor in the process that made it; its children have their own."""
        if getattr(self, "_owned", None) is not None:
            os.close(self._owned)  # type: ignore[arg-type]

    def read(self, path: str) -> bytes:
        """A copy of one file's bytes; KeyError where it was not loaded."""
        began = perf_counter()
        begin, end = self.spans[path]
        encoded = self._bytes[begin:end]
        if self.log is not None:
            self.log.append(Read(self.name, perf_counter() - began, get_ident()))
        return encoded

    def names(self, split: str) -> Mapping[str, Sequence[str]]:
        """The names of what was loaded."""
        found: dict[str, list[str]] = {}
        for path in self.spans:
            first, wnid, name = path.split("/")
            if first == split:
                found.setdefault(wnid, []).append(name)
        return found

    def connect(self) -> None:
        """It is mapped already."""

    def own(self, descriptor: int) -> "EncodedImages":
        """Keeps the descriptor open for as long as the object lives, for workers to find."""
        self._owned = descriptor
        return self


def load(source: Source, paths: Iterable[str], threads: int = FILLING_THREADS) -> EncodedImages:
    """Reads all files once, many at a time, into shared memory."""
    source.connect()
    listed = list(paths)
    descriptor = os.memfd_create("encoded images")
    spans, end = {}, 0
    with ThreadPoolExecutor(threads) as pool, os.fdopen(os.dup(descriptor), "wb") as memory:
        for path, encoded in zip(listed, pool.map(source.read, listed), strict=True):
            memory.write(encoded)
            spans[path] = (end, end := end + len(encoded))
    return EncodedImages(f"/proc/{os.getpid()}/fd/{descriptor}", spans).own(descriptor)


def watched(source: Source, log: list[Read]) -> Source:
    """The same source, every read of which goes into a log."""
    if isinstance(source, EncodedImages):
        return EncodedImages(source.opened, source.spans, log)
    if isinstance(source, Files | Objects | Mounted | PackedFiles):
        return replace(source, log=log)
    raise TypeError(f"{source!r} keeps no log")
