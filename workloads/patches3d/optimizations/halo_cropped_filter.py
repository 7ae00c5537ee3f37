"""Cut the patch first, with one voxel around it, and filter no more than that.

A 3x3x3 median of a place needs its 26 neighbours and nothing else, so a patch can be filtered alone, with one voxel
around it, to the same bits. What remains for the whole volume is to read it, to look for the surface and to
normalise.

Normalisation needs the mean and the deviation of the filtered volume, which now nobody has filtered. Here they are
taken from the unfiltered one: the deviation is then larger by the noise that the filter would have removed, patches
are scaled down accordingly, and so this changes what is learned. Where one pass beforehand is possible,
`precomputed_preparation` does better and changes nothing. It hurts where many patches are cut from each volume that is
read: every one is filtered anew, also those that hit the cache.

    around = tuple(slice(max(0, s.start - 1), s.stop + 1) for s in box)
    patch = scipy.ndimage.median_filter(image[around], size=3)[inner]
"""

from harness.core.optimization import Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="halo_cropped_filter",
    title="Median filter on the patch and one voxel around it",
    stage=Stage.INPUT,
    numerics=Numerics.DIFFERENT,
    sets={"preparation": "halo"},
    proof={"preparation": "halo"},
    alone_on=Timing.LOADER,
)
