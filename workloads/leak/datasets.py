"""The training data as torch reads it: segment by segment as found, a whole batch at once, or numbers alone."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from harness.core.mistake import Mistake
from harness.core.recipe import Recipe
from harness.core.workload import Size
from workloads.leak.augmentation import Masking
from workloads.leak.layouts import training_file
from workloads.leak.readers import Access, ArrayReader, BlockReader, load, map_memory

ORDER_SEED = 512
CACHED_SHARE = 256 / 39_563  # of file blocks: what the real system kept, a hit rate of 0.6 %

Reader = BlockReader | ArrayReader | Masking


class Order:
    """The numbers (samples,) of all segments in one seeded order; it pickles as their count."""

    def __init__(self, samples: int) -> None:
        self.numbers = np.random.default_rng(ORDER_SEED).permutation(samples)

    def __len__(self) -> int:
        """Segments in all files."""
        return len(self.numbers)

    def __reduce__(self) -> tuple[type["Order"], tuple[int]]:
        """A worker that is spawned shuffles for itself: the real size has 25 MB of numbers."""
        return Order, (len(self.numbers),)


class Segments(Dataset[tuple[Tensor, ...]]):
    """Pairs of a mel segment (1, mels, frames) in float32 and its class number (), one by one."""

    def __init__(self, order: Order, reader: Reader) -> None:
        self.order = order
        self.reader = reader

    def __len__(self) -> int:
        """Segments in all files."""
        return len(self.order)

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        """The pair at a place in the order."""
        mel, label = self.reader.segment(int(self.order.numbers[index]))
        return torch.tensor(mel, dtype=torch.float32), torch.tensor(label)


class SegmentBatches(Dataset[tuple[Tensor, ...]]):
    """The same pairs, gathered a batch at a time: inputs (B, 1, mels, frames) in float32 and class numbers (B,)."""

    collated = True

    def __init__(self, order: Order, reader: ArrayReader | Masking) -> None:
        self.order = order
        self.reader = reader

    def __len__(self) -> int:
        """Segments in all files."""
        return len(self.order)

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        """The pair at a place in the order, for who asks for one alone."""
        return tuple(part[0] for part in self.__getitems__([index]))

    def __getitems__(self, indices: list[int]) -> tuple[Tensor, ...]:
        """The finished batch, so that DataLoader has nothing left to collate."""
        mel, labels = self.reader.segments(self.order.numbers[indices])
        return torch.from_numpy(mel.astype(np.float32)), torch.from_numpy(labels.astype(np.int64))


class SegmentNumbers(Dataset[tuple[Tensor, ...]]):
    """Numbers of segments (B,) in int64 and nothing else: the segments wait on the device."""

    collated = True

    def __init__(self, order: Order) -> None:
        self.order = order

    def __len__(self) -> int:
        """Segments in all files."""
        return len(self.order)

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        """The number at a place in the order."""
        return (torch.tensor(self.order.numbers[index]),)

    def __getitems__(self, indices: list[int]) -> tuple[Tensor, ...]:
        """The numbers of a batch."""
        return (torch.from_numpy(self.order.numbers[indices]),)


class Numbered(Dataset[tuple[Tensor, ...]]):
    """Segments with their number () as a third part, for masks that are drawn on the device."""

    def __init__(self, segments: Segments) -> None:
        self.segments = segments

    def __len__(self) -> int:
        """Segments in all files."""
        return len(self.segments)

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        """The pair at a place in the order, and its number."""
        return *self.segments[index], torch.tensor(self.segments.order.numbers[index])


class NumberedBatches(Dataset[tuple[Tensor, ...]]):
    """Batches of segments with their numbers (B,) as a third part."""

    collated = True

    def __init__(self, segments: SegmentBatches) -> None:
        self.segments = segments

    def __len__(self) -> int:
        """Segments in all files."""
        return len(self.segments)

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        """The pair at a place in the order, and its number."""
        return tuple(part[0] for part in self.__getitems__([index]))

    def __getitems__(self, indices: list[int]) -> tuple[Tensor, ...]:
        """The finished batch."""
        return *self.segments.__getitems__(indices), torch.from_numpy(self.segments.order.numbers[indices])


def dataset(folder: Path, size: Size, recipe: Recipe) -> Dataset[tuple[Tensor, ...]]:
    """The training segments in one seeded order over all files, read as the recipe says."""
    shape, masks = size.shape, recipe.choice("spec_augment")
    order = Order(shape["files"] * shape["longs"] * shape["shorts"])
    if recipe.choice("data_on_device"):
        if masks == "per_item":
            raise Mistake("Segments that stay on the device cannot be masked by the loader: use device_spec_augment.")
        return SegmentNumbers(order)
    path = training_file(folder, str(recipe.choice("hdf5_layout")))
    if recipe.batched_fetch:
        arrays = load(path) if recipe.in_memory_data else map_memory(path)
        batches = SegmentBatches(order, Masking(arrays) if masks == "per_item" else arrays)
        return NumberedBatches(batches) if masks == "on_device" else batches
    reader = _one_by_one(path, size, recipe)
    segments = Segments(order, Masking(reader) if masks == "per_item" else reader)
    return Numbered(segments) if masks == "on_device" else segments


def _one_by_one(path: Path, size: Size, recipe: Recipe) -> BlockReader | ArrayReader:
    if recipe.in_memory_data:
        return load(path)
    if recipe.choice("segment_read") == "memory_map":
        return map_memory(path)
    return BlockReader(path, max(1, round(size.shape["files"] * CACHED_SHARE)), access(recipe))


def access(recipe: Recipe) -> Access:
    """How the recipe opens the file."""
    chunk_cache_mib: Any = recipe.choice("chunk_cache_mib")
    return Access(
        chunk_cache_mib=chunk_cache_mib,
        swmr=bool(recipe.choice("swmr")),
        file_index_cache=bool(recipe.choice("file_index_cache")),
    )
