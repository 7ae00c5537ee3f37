"""The training data as torch reads it: segment by segment as found, or a whole batch at once."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import Dataset

from harness.core.recipe import Recipe, Value
from harness.core.workload import Size
from workloads.leak.data import TRAINING
from workloads.leak.readers import MEBIBYTE, SEGMENTS, ArrayReader, BlockReader, layout, load, map_memory

ORDER_SEED = 512
CACHED_SHARE = 256 / 39_563  # of file blocks: what the real system kept, a hit rate of 0.6 %


class Segments(Dataset[tuple[Tensor, Tensor]]):
    """Pairs of a mel segment (1, 64, 1) in float32 and its class number (), one by one."""

    def __init__(self, order: npt.NDArray[np.int64], reader: BlockReader | ArrayReader) -> None:
        self.order = order
        self.reader = reader

    def __len__(self) -> int:
        """Segments in all files."""
        return len(self.order)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        """The pair at a place in the order."""
        mel, label = self.reader.segment(int(self.order[index]))
        return torch.tensor(mel, dtype=torch.float32), torch.tensor(label)


class SegmentBatches(Dataset[tuple[Tensor, Tensor]]):
    """The same pairs, gathered a batch at a time: inputs (B, 1, 64, 1) in float32 and class numbers (B,)."""

    collated = True

    def __init__(self, order: npt.NDArray[np.int64], reader: ArrayReader) -> None:
        self.order = order
        self.reader = reader

    def __len__(self) -> int:
        """Segments in all files."""
        return len(self.order)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        """The pair at a place in the order, for who asks for one alone."""
        inputs, targets = self.__getitems__([index])
        return inputs[0], targets[0]

    def __getitems__(self, indices: list[int]) -> tuple[Tensor, Tensor]:
        """The finished batch, so that DataLoader has nothing left to collate."""
        mel, labels = self.reader.segments(self.order[indices])
        return torch.from_numpy(mel.astype(np.float32)), torch.from_numpy(labels.astype(np.int64))


def dataset(folder: Path, size: Size, recipe: Recipe) -> Segments | SegmentBatches:
    """The training segments in one seeded order over all files, read as the recipe says."""
    path, files = folder / TRAINING, size.shape["files"]
    order = np.random.default_rng(ORDER_SEED).permutation(files * SEGMENTS)
    if recipe.batched_fetch:
        return SegmentBatches(order, load(path) if recipe.in_memory_data else map_memory(path))
    return Segments(order, load(path) if recipe.in_memory_data else _block_reader(path, files, recipe))


def effective(training: Any) -> Mapping[str, Value]:
    """How Segments or SegmentBatches really read: told by the open handle, or by the arrays that they hold."""
    reader = training.reader
    facts = _of_handle(reader) if isinstance(reader, BlockReader) else _of_arrays(reader)
    return {**facts, "batched_fetch": bool(getattr(training, "__getitems__", None))}


def _of_handle(reader: BlockReader) -> dict[str, Value]:
    opened = reader.opened()
    _, _, chunk_cache_bytes, _ = opened.handle.id.get_access_plist().get_cache()
    return {
        "layout": layout(opened.mel),
        "chunk_cache_mib": chunk_cache_bytes // MEBIBYTE,
        "in_memory_data": False,
        "block_cache_hit_rate": reader.hit_rate,
    }


def _of_arrays(reader: ArrayReader) -> dict[str, Value]:
    with h5py.File(reader.path, "r", libver="latest") as file:
        stored = layout(file["segments_mel"])
    return {
        "layout": stored,
        "chunk_cache_mib": None,  # HDF5 is out of the way
        "in_memory_data": not isinstance(reader.mel, np.memmap),
        "block_cache_hit_rate": None,
    }


def _block_reader(path: Path, files: int, recipe: Recipe) -> BlockReader:
    chunk_cache_mib = recipe.choice("chunk_cache_mib")
    if not (chunk_cache_mib is None or isinstance(chunk_cache_mib, int)):
        raise TypeError(f"chunk_cache_mib is {chunk_cache_mib!r}, not a number")
    return BlockReader(path, max(1, round(files * CACHED_SHARE)), chunk_cache_mib)
