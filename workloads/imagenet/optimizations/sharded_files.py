"""Pack the training files into a few large ones, and read each image by its offset.

Millions of small files are hard on whoever must list, open and copy them: each open walks a path and asks the file
system for permissions and places, over a network with an answer to wait for each time. Packed into tar files of some
100 MB, as WebDataset and its kin do, the set is a few dozen files that stay open. An index of offsets keeps every image
within reach, so that samples come in the same order as before, with the same bits.

It pays on network and parallel file systems and on spinning disks, and when the set is copied or listed. On a local
disk whose files the kernel still caches nearly nothing can be gained, and that is the case that is measured here: to
open and read a file takes far less than to make a sample of it. Read straight from an object store, shards are fetched
whole and kept. With samples in one order over all of them the first batch asks for nearly every shard, so that this is
the local copy once more, and `local_copy` stands under it. Trainers that stream one shard after another and shuffle
within a buffer see another order of samples, which is another training. `ram_cache` reads no file at all.

It costs a second copy of the set, which is written anew when files change.

    place = index[path]                                     # offset and length, read once from the tar headers
    encoded = os.pread(shard, place.length, place.offset)
"""

from harness.core.optimization import Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="sharded_files",
    title="Training files packed into shards",
    stage=Stage.INPUT,
    numerics=Numerics.EXACT,
    sets={"packing": "shards", "storage": "local"},  # a shard that was fetched whole and kept is a local one
    proof={"packing": "shards"},
    alone_on=Timing.LOADER,
    requires=("local_copy",),
    excludes={"ram_cache": "what lies in memory is read from no file"},
)
