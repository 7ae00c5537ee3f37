"""Give HDF5 a larger cache for the chunks of a dataset.

HDF5 reads a chunked dataset a whole chunk at a time, unpacks the chunk if it is compressed, and keeps the chunks used
last. When neighbouring items share a chunk and the cache is too small to hold it until they are asked for, each item
pays for reading and unpacking it again; a cache as large as the working set ends that.

It does nothing for a *contiguous* dataset, which has no chunks and never enters this cache: that is how this
workload's data is stored, as in the real system, and `h5dump -H -p FILE` would have said so. It does nothing either
when items are drawn at random from far more chunks than fit, or when the process already has the file open with
another cache. It hurts memory: each dataset of each loader worker may fill a cache of its own. HDF5's default is
1 MiB before version 2.0 and 8 MiB since.

    file = h5py.File(path, "r", rdcc_nbytes=32 * 1024**2)
    assert file["segments_mel"].chunks is not None, "contiguous: the cache is never used"
"""

from harness.core.optimization import LEVEL, Claim, Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="hdf5_chunk_cache",
    title="Larger HDF5 chunk cache",
    stage=Stage.INPUT,
    numerics=Numerics.EXACT,
    sets={"chunk_cache_mib": LEVEL},
    levels=(32, 64),  # MiB
    proof={"chunk_cache_mib": LEVEL},
    excludes={
        "in_memory_data": "data in memory is no longer read through HDF5",
        "batched_fetch": "whole batches are gathered from the file's own bytes, past HDF5",
    },
    pointless_where={"layout contiguous": "which has no chunks to cache"},
    claims=(
        Claim(
            name="chunk_cache",
            metric="training steps per second",
            gain=(1.3, 1.4),
            where="batch 5632, 8 workers; claimed for the group of HDF5 and memory changes together",
            source="eviltwinkie/AILH_MASTER, DOCS/PERFORMANCE_ANALYSIS.md",
        ),
    ),
)
