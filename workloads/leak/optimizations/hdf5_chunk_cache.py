"""Give HDF5 a larger cache for the chunks of a dataset.

HDF5 reads a chunked dataset a whole chunk at a time, unpacks the chunk if it is compressed, and keeps the chunks used
last. When neighbouring items share a chunk and the cache is too small to hold it until they are asked for, each item
pays for reading and unpacking it again; a cache as large as the working set ends that.

It does nothing for a *contiguous* dataset, which has no chunks and never enters this cache: that is how this
workload's data is stored, as in the real system, and `h5dump -H -p FILE` would have said so. On the same data in
16-file gzip chunks (`hdf5_layout=compressed`), 32 MiB make the loader many times as fast at size quick, where they hold
all chunks; of the real 405 MB they hold a twelfth. It does nothing either when the process already has the file open
with another cache. It hurts memory: each worker may fill a cache of its own for each dataset. As in the real system's
review, 521 slots and a preemption of 0.75 are set with the size. The default is 1 MiB in 521 slots before HDF5 2.0.
HDF5 2.0's default is 8 MiB in 8191 slots, so setting 521 makes it worse.

    file = h5py.File(path, "r", rdcc_nbytes=32 * 1024**2, rdcc_nslots=521, rdcc_w0=0.75)
    assert file["segments_mel"].chunks is not None, "contiguous: the cache is never used"
"""

from harness.core.optimization import LEVEL, Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="hdf5_chunk_cache",
    title="Larger HDF5 chunk cache",
    stage=Stage.INPUT,
    numerics=Numerics.EXACT,
    sets={"chunk_cache_mib": LEVEL},
    levels=(32, 64),  # MiB
    proof={"chunk_cache_mib": LEVEL, "chunk_cache_slots": 521, "chunk_cache_w0": 0.75},
    alone_on=Timing.LOADER,
    excludes={
        "in_memory_data": "data in memory is no longer read through HDF5",
        "batched_fetch": "whole batches are gathered from the file's own bytes, past HDF5",
        "memory_map": "segments are read from the file's own bytes, past HDF5",
        "data_on_device": "segments that stay on the device are no longer read through HDF5",
    },
    pointless_where={"layout contiguous": "which has no chunks to cache"},
)
