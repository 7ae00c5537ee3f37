"""Yardsticks: our training split against a neutral one of the real types, read the slowest and the fastest way."""

from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory

import h5py
import numpy as np

from harness.core.workload import Size, Yardstick
from workloads.leak.classes import CLASSES
from workloads.leak.datasets import Order, SegmentBatches, Segments
from workloads.leak.layouts import CONTIGUOUS, LABELS, MEL, TRAINING, training_file
from workloads.leak.readers import Access, BlockReader, load

SLAB_FILES = 1_000  # drawn at once: 20 MB
BLOCK_SHAPE = (40, 2, 64, 1)
BLOCK_BYTES = 40 * 2 * 64 * 2  # read for each segment of 128 bytes
SINGLES = 512  # segments of one call: enough for a stable mean
BATCH = 5632


def yardsticks(folder: Path, size: Size) -> Iterator[Yardstick]:
    """A segment read alone, and a real batch of them gathered at once.

    The neutral split holds as many files as ours, at `standard` as many as the real one: caches see the same amount.
    """
    with TemporaryDirectory() as temporary:
        ours, neutral = training_file(folder, CONTIGUOUS), write_neutral(Path(temporary) / TRAINING, size)
        block_bytes = _block_bytes(ours)
        batches, neutral_batches = _batches(ours), _batches(neutral)
        yield Yardstick(
            what="512 segments read one by one",
            mean_bytes=SINGLES * block_bytes,
            target_bytes=SINGLES * BLOCK_BYTES,
            work=_singles(ours),
            like=_singles(neutral),
            published_ms=SINGLES * 0.060,
        )
        yield Yardstick(
            what="a batch of 5632, gathered at once",
            mean_bytes=BATCH * block_bytes / (BLOCK_SHAPE[0] * BLOCK_SHAPE[1]),
            target_bytes=BATCH * 128,
            work=batches,
            like=neutral_batches,
            published_ms=0.34,
        )


def write_neutral(path: Path, size: Size) -> Path:
    """A contiguous split of random values in the real types and shapes."""
    generator, files = np.random.default_rng(0), size.shape["files"]
    with h5py.File(path, "w", libver="latest") as split:
        mel = split.create_dataset(MEL, (files, *BLOCK_SHAPE), np.float16)
        for start in range(0, files, SLAB_FILES):
            slab = (min(SLAB_FILES, files - start), *BLOCK_SHAPE)
            mel[start : start + SLAB_FILES] = generator.standard_normal(slab, dtype=np.float32)
        split.create_dataset(LABELS, data=generator.integers(0, len(CLASSES), files).astype(np.int16))
    return path


def _block_bytes(path: Path) -> float:
    with h5py.File(path, "r", libver="latest") as split:
        return float(split[MEL].id.get_storage_size() / len(split[MEL]))


def _segments(path: Path) -> int:
    with h5py.File(path, "r", libver="latest") as split:
        files, longs, shorts = split[MEL].shape[:3]
    return int(files * longs * shorts)


def _singles(path: Path) -> Callable[[], object]:
    """The next segments of the shuffled order, one by one and never kept."""
    segments = Segments(Order(_segments(path)), BlockReader(path, kept_blocks=0, access=Access()))
    indices = cycle(range(len(segments)))
    return lambda: [segments[next(indices)] for _ in range(SINGLES)]


def _batches(path: Path) -> Callable[[], object]:
    """The same whole batch again; a small split gives some of its segments several times."""
    batches = SegmentBatches(Order(_segments(path)), load(path))
    indices = (np.arange(BATCH) % len(batches)).tolist()
    return lambda: batches.__getitems__(indices)
