"""Take each segment from the file's own bytes, mapped into memory, instead of through HDF5.

A contiguous HDF5 dataset is one run of bytes at a known offset, so numpy can map it: an item becomes a copy of 128
bytes, without HDF5's lock, selection and conversion, and without reading the other 79 segments of the file. Labels are
a small array in memory. Pages are shared by all workers and the kernel reads ahead. It cannot remove the Python around
each item, the two small tensors and their collation, which remain most of the cost: `batched_fetch` does. It does not
work for chunks, and hurts where a slow disk answers each first touch of a page.

    offset = file["segments_mel"].id.get_offset()
    mel = numpy.memmap(path, numpy.float16, "r", offset, file["segments_mel"].shape)
"""

from harness.core.optimization import Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="memory_map",
    title="Segments read from a memory map",
    stage=Stage.INPUT,
    numerics=Numerics.EXACT,
    sets={"segment_read": "memory_map"},
    proof={"segment_read": "memory_map"},
    alone_on=Timing.LOADER,
    excludes={
        "in_memory_data": "data in memory are not read again",
        "batched_fetch": "whole batches are gathered from a memory map already",
    },
)
