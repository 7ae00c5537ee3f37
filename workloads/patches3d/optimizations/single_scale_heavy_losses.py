"""Work out the expensive terms of the loss at full resolution only.

As found, deep supervision applies the whole composite at four scales: skeletons, distances and topology too. At an
eighth of the resolution a sheet of three voxels has no skeleton worth the name. Here the coarse scales keep
cross-entropy and Dice.

It pays by the small share of the coarse scales: together they have a seventh of the voxels, but as many kernels and as
many waits as the full one. Distances still come in every fourth step: calls of the loss are counted, the light ones of
the coarse scales among them. It changes what is learned.

    loss = composite(full, target) + sum(0.5 * (bce(aux, small) + dice(aux, small)) for aux, small in coarse)
"""

from harness.core.optimization import Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="single_scale_heavy_losses",
    title="Expensive loss terms at full resolution only",
    stage=Stage.DEVICE,
    numerics=Numerics.DIFFERENT,
    sets={"heavy_scales": "full"},
    proof={"heavy_scales": "full"},
    alone_on=Timing.COMPUTE,
)
