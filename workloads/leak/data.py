"""The files of the real system: one HDF5 file a split, contiguous, with mel segments, waveforms and labels.

A contiguous dataset is one run of bytes, so the processes that make the recordings write theirs straight to its place.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from harness.core.parallel import spread
from harness.core.workload import Size
from workloads.leak.classes import CLASSES
from workloads.leak.layouts import (
    CHUNKED,
    COMPRESSED,
    LABELS,
    MEL,
    TRAINING,
    VALIDATION,
    WAVEFORM,
    reserve,
    write_copy,
)
from workloads.leak.mel import FFT_SAMPLES, HOP_SAMPLES, MELS, log_mel
from workloads.leak.signals import (
    FILE_SAMPLES,
    LONG_SAMPLES,
    LONGS,
    SAMPLE_RATE,
    SHORT_SAMPLES,
    SHORTS,
    draw_labels,
    record,
)

SEEDS = {TRAINING: 2048, VALIDATION: 4096}
SLAB_FILES = 32  # made at once: bounds the memory of a process to about 40 MB whatever the size
CONFIG = {
    "sample_rate": SAMPLE_RATE,
    "duration_sec": FILE_SAMPLES / SAMPLE_RATE,
    "long_window": LONG_SAMPLES,
    "short_window": SHORT_SAMPLES,
    "n_fft": FFT_SAMPLES,
    "hop_length": HOP_SAMPLES,
    "n_mels": MELS,
    "center": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Slab:
    """Neighbouring files of a split: which recordings they are, and where their values belong."""

    path: Path
    seed: int
    start: int  # number of the first file
    labels: tuple[int, ...]
    mel_offset: int  # bytes from the beginning of the HDF5 file to the first value of the dataset
    waveform_offset: int | None  # None where the split goes without waveforms


def prepare(folder: Path, size: Size) -> Iterator[float]:
    """Write both splits into the folder, then the training split's other layouts; yields the share that is done."""
    yield 0.0
    slabs = [
        *lay_out(folder / TRAINING, size.shape["files"], waveforms=bool(size.shape["training_waveforms"])),
        *lay_out(folder / VALIDATION, size.shape["validation_files"], waveforms=True),
    ]
    for share in spread(write_slab, slabs):
        yield 0.9 * share
    write_copy(folder, CHUNKED)
    yield 0.92
    write_copy(folder, COMPRESSED)
    yield 1.0


def lay_out(path: Path, files: int, *, waveforms: bool) -> Iterator[Slab]:
    """Make one split with labels and with room for the rest; gives the slabs that fill it."""
    seed = SEEDS[path.name]
    labels = draw_labels(files, np.random.default_rng(seed))
    waveform = None
    with h5py.File(path, "w", libver="latest") as split:
        split.attrs["labels_json"] = json.dumps(CLASSES)
        split.attrs["config_json"] = json.dumps(CONFIG)
        mel = reserve(split, MEL, (files, LONGS, SHORTS, MELS, 1), np.float16)
        if waveforms:
            waveform = reserve(split, WAVEFORM, (files, LONGS, SHORTS, SHORT_SAMPLES), np.float32)
        split.create_dataset(LABELS, data=labels)
    for start in range(0, files, SLAB_FILES):
        part = tuple(labels[start : start + SLAB_FILES].tolist())
        yield Slab(path=path, seed=seed, start=start, labels=part, mel_offset=mel, waveform_offset=waveform)


def write_slab(slab: Slab) -> None:
    """Make the recordings of a slab and write them to their place."""
    sound = record(np.array(slab.labels, np.int16), np.random.default_rng((slab.seed, slab.start)))
    _write_files(slab, slab.mel_offset, log_mel(sound))
    if slab.waveform_offset is not None:
        _write_files(slab, slab.waveform_offset, sound)


def _write_files(slab: Slab, offset: int, values: np.ndarray) -> None:
    with slab.path.open("r+b") as file:
        file.seek(offset + slab.start * values[0].nbytes, os.SEEK_SET)
        file.write(np.ascontiguousarray(values).data)
