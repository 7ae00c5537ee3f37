"""Two ways to a segment: through HDF5 block by block, as the real system reads, or from arrays by number."""

import os
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import numpy.typing as npt

from workloads.leak.signals import LONGS, SHORTS, LabelArray

MEBIBYTE = 1024**2
SEGMENTS = LONGS * SHORTS  # in one file

MelArray = npt.NDArray[np.float16]
Segment = tuple[MelArray, int]  # mel (1, 64, 1) and class number


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A handle with its datasets, and the process it belongs to."""

    process: int
    handle: h5py.File
    mel: h5py.Dataset
    labels: h5py.Dataset


class BlockReader:
    """Reads the whole block of a file, 80 segments, for the one asked for, and keeps the blocks used last.

    A handle that crosses into a forked process can read garbage, so each process opens its own on first use.
    """

    def __init__(self, path: Path, kept_blocks: int, chunk_cache_mib: int | None) -> None:
        self.path = path
        self.kept_blocks = kept_blocks
        self.chunk_cache_mib = chunk_cache_mib
        self.reads = self.hits = 0
        self._blocks: OrderedDict[int, MelArray] = OrderedDict()
        self._opened: OpenFile | None = None

    def __reduce__(self) -> tuple[type["BlockReader"], tuple[Path, int, int | None]]:
        """Pickles as what it was made of: never a handle."""
        return BlockReader, (self.path, self.kept_blocks, self.chunk_cache_mib)

    def segment(self, number: int) -> Segment:
        """One segment for a block read, unless the block is kept, and a scalar read of the label."""
        file, within = divmod(number, SEGMENTS)
        long, short = divmod(within, SHORTS)
        opened = self.opened()
        return self._block(opened.mel, file)[long, short][np.newaxis], int(opened.labels[file])

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
        cache = {} if self.chunk_cache_mib is None else {"rdcc_nbytes": self.chunk_cache_mib * MEBIBYTE}
        handle = h5py.File(self.path, "r", swmr=True, libver="latest", **cache)
        return OpenFile(os.getpid(), handle, handle["segments_mel"], handle["labels"])

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


@dataclass(frozen=True, slots=True)
class ArrayReader:
    """All segments (segments, 1, 64, 1) and labels (files,) as arrays, which `source` makes from the path."""

    path: Path
    mel: MelArray
    labels: LabelArray
    source: Callable[[Path], "ArrayReader"]

    def __reduce__(self) -> tuple[Callable[[Path], "ArrayReader"], tuple[Path]]:
        """Pickles as its file alone, else a memory map would travel as a copy of all its bytes."""
        return self.source, (self.path,)

    def segment(self, number: int) -> Segment:
        """One segment, without a copy."""
        return self.mel[number], int(self.labels[number // SEGMENTS])

    def segments(self, numbers: npt.NDArray[np.int64]) -> tuple[MelArray, LabelArray]:
        """Many segments and their labels, gathered at once."""
        return self.mel[numbers], self.labels[numbers // SEGMENTS]


def load(path: Path) -> ArrayReader:
    """Everything read into memory."""
    with h5py.File(path, "r", libver="latest") as file:
        mel, labels = file["segments_mel"][:], file["labels"][:]
    return ArrayReader(path, _by_segment(mel), labels, load)


def map_memory(path: Path) -> ArrayReader:
    """The file's own bytes as arrays; raises ValueError where HDF5 does not store them contiguously."""
    with h5py.File(path, "r", libver="latest") as file:
        mel, labels = _mapped(file["segments_mel"]), _mapped(file["labels"])
    return ArrayReader(path, _by_segment(mel), labels, map_memory)


def layout(mel: h5py.Dataset) -> str:
    """How HDF5 stores a dataset."""
    return "contiguous" if mel.chunks is None else "chunked"


def _mapped(stored: h5py.Dataset) -> np.memmap:
    offset = stored.id.get_offset()
    if offset is None:
        raise ValueError(f"{stored.name} in {stored.file.filename} is {layout(stored)} and cannot be mapped")
    return np.memmap(stored.file.filename, stored.dtype, "r", offset, stored.shape)


def _by_segment(mel: MelArray) -> MelArray:
    return mel.reshape(-1, 1, *mel.shape[-2:])
