"""Augment on the device that trains: one `grid_sample` for the geometry, and grey levels in place.

The loader then only cuts patches; what scipy works out on a core becomes a few operations of the device. Patches keep
their size, because the result of `grid_sample` has the shape that it is asked for; so what `fixed_patch_shape` gains by
smaller patches is part of what this gains.

It pays on a GPU that waits for its data; together with `precomputed_preparation` the loader has little left to do. It
hurts where the device is the bottleneck already, and on a CPU that trains as well, which then augments between its
steps instead of beside them. The operations and ranges are those of the host, the random numbers are not, and the blur
is another one: it changes what is learned.

    grid = functional.affine_grid(theta, patches.shape, align_corners=True) + displacement
    patches = functional.grid_sample(patches, grid, align_corners=True)
"""

from harness.core.optimization import Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="device_augmentation",
    title="Augmentation on the device",
    stage=Stage.INPUT,
    numerics=Numerics.DIFFERENT,
    sets={"resampling": "on_device", "patch_shape": "fixed"},
    proof={"resampling": "on_device", "patch_shape": "fixed"},
    excludes={"loader_distance_transform": "the device moves the surface after the loader has measured from it"},
)
