"""Filter, crop and normalise every volume once, before training, and read patches from the result.

As found, each miss of the volume cache reads a whole volume, filters all of it with a 3x3x3 median, crops it and
normalises it, to cut one patch of a twenty-fifth of it; of sixteen patches fifteen miss. None of this depends on
chance, so it can be done once. The median of bytes is a byte: the filtered volume takes no more room than the raw one,
and two numbers of each volume are enough to normalise a patch to the same bits. The rest of an item is augmentation,
see `composed_resample` and `device_augmentation`.

It pays whenever volumes do not all stay in memory. It costs the set's size once more on disk (after cropping) and one
pass over it; whoever changes the filter has to do that pass again. On storage over a network a memory map fetches page
by page, and chunked files may do better.

    python -m workloads.patches3d.precompute FOLDER
    volume = np.load(f"prepared/{identifier}.npy", mmap_mode="r")
    patch = (volume[0][box].astype(np.float32) - mean) / deviation
"""

from harness.core.optimization import Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="precomputed_preparation",
    title="Volumes filtered, cropped and measured once, before training",
    stage=Stage.INPUT,
    numerics=Numerics.EXACT,
    sets={"preparation": "precomputed"},
    proof={"preparation": "precomputed"},
    alone_on=Timing.LOADER,
    supersedes=("uint8_median", "halo_cropped_filter", "larger_volume_cache"),
)
