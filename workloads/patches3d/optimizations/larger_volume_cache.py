"""Keep more prepared volumes in each loader process.

As found, a process keeps fifty of 806 volumes. Patches come from volumes at random, so that a cache which keeps a
sixteenth of them is hit once in sixteen times, however long training lasts; the hit rate is the share that is kept. It
takes all of them in memory for the preparation to disappear, and that is where `precomputed_preparation` gets without
any memory.

It pays in proportion to the share. It costs memory in every worker for itself: a volume of 320 voxels a side takes
164 MB as float32 with its labels, so that half of the real set takes 66 GB a worker. Without persistent workers the
cache is lost at the end of each epoch. The arms here repeat one short epoch. "all" shows a full cache. "half" hits 60 %
here, 50 % in long training, and 100 % at `quick` beside an even number of workers: an epoch then has one item less, and
half of the volumes are all that it touches. Whole epochs are timed: a shorter window may hold misses or hits alone.

    cache = VolumeCache(load, capacity=len(identifiers) // 2)
"""

from harness.core.optimization import LEVEL, Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="larger_volume_cache",
    title="More prepared volumes kept in memory",
    stage=Stage.INPUT,
    numerics=Numerics.EXACT,
    sets={"volume_cache": LEVEL},
    proof={"volume_cache": LEVEL},
    timed_on=Timing.EPOCH,
    levels=("half", "all"),
    pointless_where={"preparation precomputed": "volumes are maps of files, and opening one costs next to nothing"},
)
