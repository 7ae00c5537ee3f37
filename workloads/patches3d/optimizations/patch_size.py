"""Train on larger or smaller patches: so many percent of the usual side in each direction.

Work and memory go with the volume: 125 percent a side are 1.95 times the voxels, 150 percent 3.4 times. At the real
72 x 136 x 136, which save 9.8 GiB of activations in float32, that is 19 and 33 GiB. As found the loader's work hardly
changes, since a whole volume is filtered for each patch, whatever is cut from it.

A price, not an optimization: larger patches show more of what surrounds a voxel, and networks of this kind are known to
gain from them as far as memory allows. Smaller ones make a step cheaper and the rim of a patch, where less is known, a
larger part of it. A sample is one patch of whatever size; the validation keeps its own. Below 100 percent the small
sizes of this suite do not go, because no side may fall below 16 voxels nor the longest below 48.

    patch = volume[begin : begin + depth * percent // 100, ...]
"""

from harness.core.optimization import LEVEL, Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="patch_size",
    title="Patches of another size",
    stage=Stage.DEVICE,
    numerics=Numerics.DIFFERENT,
    sets={"patch_size": LEVEL},
    proof={"patch_size": LEVEL},
    levels=(125, 150),
    sought=False,
)
