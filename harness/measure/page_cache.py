"""The page cache: a data folder's files thrown out of it before a window, and read back in afterwards."""

import ctypes
import mmap
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

COLD = 0.1  # at most this share of the bytes may stay
CHUNK_BYTES = 1 << 24


class StillWarm(RuntimeError):
    """The system kept the files in memory though it was asked to drop them."""


@dataclass(frozen=True, slots=True)
class ColdFiles:
    """The files that a window must read from storage."""

    files: tuple[Path, ...]

    def drop(self) -> float:
        """Asks the system to forget the files; gives the share of their bytes that it kept all the same."""
        for path in self.files:
            with path.open("rb") as file:
                os.fdatasync(file.fileno())  # what is not written yet cannot be dropped
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return resident_share(self.files)

    def fill(self) -> None:
        """Reads the files once, so that the next arm finds them in memory."""
        buffer = bytearray(CHUNK_BYTES)
        for path in self.files:
            with path.open("rb", buffering=0) as file:
                while file.readinto(buffer):
                    pass

    @contextmanager
    def dropped(self) -> Iterator[None]:
        """The files are dropped before the block and read back after it; raises StillWarm where they cannot be."""
        kept = self.drop()
        if kept >= COLD:
            self.fill()
            raise StillWarm(f"{kept:.0%} of the data stayed in the page cache; some process may have it mapped")
        try:
            yield
        finally:
            self.fill()


def cold_files(folder: Path) -> ColdFiles:
    """All files of a folder that hold anything."""
    return ColdFiles(tuple(sorted(one for one in folder.rglob("*") if one.is_file() and one.stat().st_size)))


def resident_share(files: Iterable[Path]) -> float:
    """Share of the files' pages that lie in memory, as `mincore` tells it; looking does not read them."""
    counts = [_pages(path) for path in files]
    return sum(resident for resident, _ in counts) / max(1, sum(pages for _, pages in counts))


def _pages(path: Path) -> tuple[int, int]:
    """Pages of a file in memory, and all its pages."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        states = np.zeros(-(-len(mapped) // mmap.PAGESIZE), np.uint8)
        address = np.frombuffer(mapped, np.uint8).ctypes.data
        mincore, pointer = ctypes.CDLL(None, use_errno=True).mincore, ctypes.c_void_p
        if mincore(pointer(address), ctypes.c_size_t(len(mapped)), pointer(states.ctypes.data)):
            raise OSError(ctypes.get_errno(), "mincore failed", str(path))
    return int((states & 1).sum()), len(states)  # the other bits are undefined
