"""The layouts in which HDF5 can store the mel segments, each with its file, told apart by looking at the dataset."""

from pathlib import Path

import h5py
import numpy as np
import numpy.typing as npt

from harness.core.mistake import Mistake

TRAINING, VALIDATION = "TRAINING_DATASET.H5", "VALIDATION_DATASET.H5"
CONTIGUOUS, CHUNKED, COMPRESSED = "contiguous", "chunked", "compressed"
CHUNK_FILES = {CHUNKED: 1, COMPRESSED: 16}  # files whose blocks lie in one chunk
WRITTEN_FILES = 256  # copied at once: whole chunks, about 2.6 MB
MEL, WAVEFORM, LABELS = "segments_mel", "segments_waveform", "labels"


def training_file(folder: Path, layout: str) -> Path:
    """The training split in a layout; raises Mistake where it was not written."""
    path = folder / (TRAINING if layout == CONTIGUOUS else f"TRAINING_DATASET_{layout.upper()}.H5")
    if path.exists():
        return path
    raise Mistake(
        f"There is no {path.name} beside {TRAINING}; write it with h5repack -l {MEL}:CHUNK=..., or leave out "
        f"hdf5_layout={layout}."
    )


def layout_of(mel: h5py.Dataset) -> str:
    """How HDF5 stores a dataset: contiguous, chunked, or chunked and compressed."""
    if mel.chunks is None:
        return CONTIGUOUS
    return COMPRESSED if mel.compression else CHUNKED


def offset_of(stored: h5py.Dataset) -> int:
    """Where the values begin in the file; raises Mistake unless they lie there as one run of bytes."""
    offset: int | None = stored.id.get_offset()
    if offset is not None:
        return offset
    raise Mistake(
        f"{stored.name} in {stored.file.filename} is {layout_of(stored)} and cannot be mapped into memory; store it "
        f"with h5repack -l {stored.name.lstrip('/')}:CONTI -f {stored.name.lstrip('/')}:NONE, or add in_memory_data."
    )


def reserve(split: h5py.Group, name: str, shape: tuple[int, ...], kind: npt.DTypeLike) -> int:
    """A contiguous dataset whose bytes are set aside at once and left unwritten; gives their place in the file.

    Processes can then write parts of it side by side, as parts of a plain file.
    """
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_layout(h5py.h5d.CONTIGUOUS)
    properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    properties.set_obj_track_times(False)  # the same bytes whenever it is written
    kept = h5py.h5t.py_create(np.dtype(kind))
    h5py.h5d.create(split.id, name.encode(), kept, h5py.h5s.create_simple(shape), properties)
    return offset_of(split[name])


def write_copy(folder: Path, layout: str) -> None:
    """The mel segments and labels of the training split once more, in chunks; the waveforms are left out."""
    packing = {"compression": "gzip"} if layout == COMPRESSED else {}
    path = folder / f"TRAINING_DATASET_{layout.upper()}.H5"
    with h5py.File(folder / TRAINING, "r") as source, h5py.File(path, "w", libver="latest") as copy:
        mel = source[MEL]
        chunk = (min(CHUNK_FILES[layout], len(mel)), *mel.shape[1:])
        packed = copy.create_dataset(MEL, mel.shape, mel.dtype, chunks=chunk, **packing)
        for start in range(0, len(mel), WRITTEN_FILES):
            packed[start : start + WRITTEN_FILES] = mel[start : start + WRITTEN_FILES]
        copy.create_dataset(LABELS, data=source[LABELS][:])
        copy.attrs.update(source.attrs)
