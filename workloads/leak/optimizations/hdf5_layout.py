"""Store the mel segments in chunks, plain or compressed, instead of as one contiguous run.

A condition rather than an optimization: the real file is contiguous, and advice about HDF5 chunks means nothing there.
`chunked` keeps each file's block of 10 KB as one chunk. `compressed` packs sixteen blocks into one gzip chunk, so each
block that is asked for costs sixteen to be unpacked, unless the chunk cache still holds them. To see when a chunk cache
matters, make this the reference:

    ./speedmatrix run leak --reference hdf5_layout=compressed --only hdf5_chunk_cache

In a file of one's own, after a look with `h5dump -H -p FILE`:

    file.create_dataset("segments_mel", data=mel, chunks=(16, *mel.shape[1:]), compression="gzip")
"""

from harness.core.optimization import LEVEL, Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="hdf5_layout",
    title="HDF5 file in chunks",
    stage=Stage.INPUT,
    numerics=Numerics.EXACT,
    sets={"hdf5_layout": LEVEL},
    levels=("chunked", "compressed"),
    proof={"layout": LEVEL},
    alone_on=Timing.LOADER,
    excludes={
        "batched_fetch": "chunks cannot be mapped into memory",
        "memory_map": "chunks cannot be mapped into memory",
        "data_on_device": "segments that stay on the device are read from the file once, whatever its layout",
    },
    sought=False,
)
