"""Rotate, zoom, displace and stretch in one interpolation instead of four.

Each geometric operation of the augmentation interpolates the whole patch, and its labels once more. But all of them
together are one map from places in the result to places in the source, which can be worked out first and followed once.
The displacement is so smooth that every fourth voxel of it is enough, which saves most of its filter too.

It pays where augmentation is what an item costs, so after `precomputed_preparation`; alone it gains nothing, because
the filter is what an item costs then. The geometry has the same ranges, but a patch is blurred by one linear
interpolation and not by four, and the displacement is another one: it changes what is learned, if anything for the
better, since thin sheets stay sharper.

    places = matrix @ np.indices(shape) + offset + displacement
    patch = scipy.ndimage.map_coordinates(volume, places, order=1)
"""

from harness.core.optimization import Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="composed_resample",
    title="One interpolation for all of the geometry",
    stage=Stage.INPUT,
    numerics=Numerics.DIFFERENT,
    sets={"resampling": "once"},
    proof={"resampling": "once"},
    alone_on=Timing.LOADER,
)
