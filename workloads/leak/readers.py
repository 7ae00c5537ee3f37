"""Two ways to a segment: through HDF5 block by block, as the real system reads, or from arrays by number."""

import os
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from workloads.leak.layouts import LABELS, MEL, offset_of
from workloads.leak.signals import LabelArray

MEBIBYTE = 1024**2
CHUNK_CACHE_SLOTS, CHUNK_CACHE_W0 = 521, 0.75  # what the real system's review asks for beside the size

MelArray = npt.NDArray[np.float16]
Segment = tuple[MelArray, int]  # mel (1, mels, frames) and class number


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How a file is opened."""

    chunk_cache_mib: int | None = None  # None leaves HDF5's own default
    swmr: bool = True  # single writer, multiple readers: as found, though nobody writes
    file_index_cache: bool = False  # the number of files and their numbers are kept in a list


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A handle with its datasets, and the process it belongs to."""

    process: int
    handle: h5py.File
    mel: h5py.Dataset
    labels: h5py.Dataset
    shorts: int  # short segments in a long one
    segments: int  # in a file
    file_indices: list[int] | None


class BlockReader:
    """Reads the whole block of a file, all its segments, for the one asked for, and keeps the blocks used last.

    A handle that crosses into a forked process can read garbage, so each process opens its own on first use.
    """

    def __init__(self, path: Path, kept_blocks: int, access: Access) -> None:
        self.path = path
        self.kept_blocks = kept_blocks
        self.access = access
        self.reads = self.hits = 0
        self._blocks: OrderedDict[int, MelArray] = OrderedDict()
        self._opened: OpenFile | None = None

    def __reduce__(self) -> tuple[type["BlockReader"], tuple[Path, int, Access]]:
        """Pickles as what it was made of: never a handle."""
        return BlockReader, (self.path, self.kept_blocks, self.access)

    def segment(self, number: int) -> Segment:
        """One segment for a block read, unless the block is kept, and a scalar read of the label."""
        opened = self.opened()
        file, within = divmod(number, opened.segments)
        long, short = divmod(within, opened.shorts)
        mel = self._block(opened.mel, file)[long, short]
        return mel.reshape(1, *mel.shape[-2:]), int(opened.labels[file])

    def opened(self) -> OpenFile:
        """The open file of this process."""
        if self._opened is None or self._opened.process != os.getpid():
            self._opened = self._reopened()
        return self._opened

    @property
    def hit_rate(self) -> float | None:
        """The share of reads in this process that found their block kept."""
        return self.hits / self.reads if self.reads else None

    def _reopened(self) -> OpenFile:
        if self._opened is not None:
            self._opened.handle.close()  # else HDF5 would find the file open and share the parent's descriptor
        self._blocks.clear()
        self.reads = self.hits = 0
        access = self.access
        handle = h5py.File(self.path, "r", swmr=access.swmr, libver="latest", **_chunk_cache(access))
        mel, labels = handle[MEL], handle[LABELS]
        longs, shorts = mel.shape[1:3]
        indices = list(range(len(labels))) if access.file_index_cache else None
        return OpenFile(os.getpid(), handle, mel, labels, shorts, longs * shorts, indices)

    def _block(self, mel: h5py.Dataset, file: int) -> MelArray:
        self.reads += 1
        block = self._blocks.pop(file, None)
        if block is None:
            block = mel[file]
        else:
            self.hits += 1
        self._blocks[file] = block
        if len(self._blocks) > self.kept_blocks:
            self._blocks.popitem(last=False)
        return block


def _chunk_cache(access: Access) -> dict[str, Any]:
    if access.chunk_cache_mib is None:
        return {}
    return {
        "rdcc_nbytes": access.chunk_cache_mib * MEBIBYTE,
        "rdcc_nslots": CHUNK_CACHE_SLOTS,
        "rdcc_w0": CHUNK_CACHE_W0,
    }


@dataclass(frozen=True, slots=True)
class ArrayReader:
    """All segments (segments, 1, mels, frames) and labels (files,) as arrays, which `source` makes from the path."""

    path: Path
    mel: MelArray
    labels: LabelArray
    source: Callable[[Path], "ArrayReader"]

    def __reduce__(self) -> tuple[Callable[[Path], "ArrayReader"], tuple[Path]]:
        """Pickles as its file alone, else a memory map would travel as a copy of all its bytes."""
        return self.source, (self.path,)

    @property
    def file_segments(self) -> int:
        """Segments in one file."""
        return len(self.mel) // len(self.labels)

    def segment(self, number: int) -> Segment:
        """One segment, without a copy."""
        return self.mel[number], int(self.labels[number // self.file_segments])

    def segments(self, numbers: npt.NDArray[np.int64]) -> tuple[MelArray, LabelArray]:
        """Many segments and their labels, gathered at once."""
        return self.mel[numbers], self.labels[numbers // self.file_segments]


def load(path: Path) -> ArrayReader:
    """Everything read into memory."""
    with opened_as_found(path) as file:
        mel, labels = file[MEL][:], file[LABELS][:]
    return ArrayReader(path, _by_segment(mel), labels, load)


def map_memory(path: Path) -> ArrayReader:
    """The file's own bytes as arrays; raises Mistake where HDF5 does not store them contiguously."""
    with opened_as_found(path) as file:
        mel, labels = _mapped(file[MEL]), file[LABELS][:]
    return ArrayReader(path, _by_segment(mel), labels, map_memory)


def opened_as_found(path: Path) -> h5py.File:
    """The file in the mode that nearly all readers open it in: HDF5 refuses another one while it is open."""
    return h5py.File(path, "r", swmr=True, libver="latest")


def _mapped(stored: h5py.Dataset) -> np.memmap:
    return np.memmap(stored.file.filename, stored.dtype, "r", offset_of(stored), stored.shape)


def _by_segment(mel: MelArray) -> MelArray:
    return mel.reshape(-1, 1, *mel.shape[-2:])
