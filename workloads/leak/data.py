"""The files of the real system: one HDF5 file a split, contiguous, with mel segments, waveforms and labels."""

import json
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np

from harness.core.workload import Size
from workloads.leak.mel import FFT_SAMPLES, HOP_SAMPLES, MELS, log_mel
from workloads.leak.signals import (
    CLASSES,
    FILE_SAMPLES,
    LONG_SAMPLES,
    LONGS,
    SAMPLE_RATE,
    SHORT_SAMPLES,
    SHORTS,
    draw_labels,
    record,
)

TRAINING, VALIDATION = "TRAINING_DATASET.H5", "VALIDATION_DATASET.H5"
SEEDS = {TRAINING: 2048, VALIDATION: 4096}
SLAB_FILES = 32  # made at once: bounds the memory to about 40 MB whatever the size
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


def prepare(folder: Path, size: Size) -> Iterator[float]:
    """Write both splits into the folder; yields the share that is done, from 0 to 1."""
    counts = {TRAINING: size.shape["files"], VALIDATION: size.shape["validation_files"]}
    done = 0
    yield 0.0
    for name, files in counts.items():
        for written in write_split(folder / name, files, SEEDS[name]):
            done += written
            yield done / sum(counts.values())


def write_split(path: Path, files: int, seed: int) -> Iterator[int]:
    """Write one split, the same bytes for the same seed; yields how many files each slab added."""
    labels = draw_labels(files, np.random.default_rng(seed))
    with h5py.File(path, "w", libver="latest") as split:
        split.attrs["labels_json"] = json.dumps(CLASSES)
        split.attrs["config_json"] = json.dumps(CONFIG)
        # Neither chunks nor compression: HDF5 then lays a dataset out as one contiguous run of bytes.
        mel = split.create_dataset("segments_mel", (files, LONGS, SHORTS, MELS, 1), np.float16)
        waveform = split.create_dataset("segments_waveform", (files, LONGS, SHORTS, SHORT_SAMPLES), np.float32)
        split.create_dataset("labels", data=labels)
        for start in range(0, files, SLAB_FILES):
            slab = slice(start, min(start + SLAB_FILES, files))
            sound = record(labels[slab], np.random.default_rng((seed, start)))
            waveform[slab], mel[slab] = sound, log_mel(sound)
            yield slab.stop - slab.start
