"""Channels-last for volumes: tensors of five dimensions lie in memory with the channels of a voxel side by side.

The counterpart of channels_last for 3-D convolutions. Tensor cores and oneDNN want this layout; with 16-bit types it
pays most. Hurts where layers between have no kernel for it: instance norms and interpolations hand on the old layout,
every convolution behind one copies its input, and volumes are large. Kernels of one voxel follow their input.

    model = model.to(memory_format=torch.channels_last_3d)
    patches = patches.to(memory_format=torch.channels_last_3d)
"""

from harness.core.optimization import CUDA, SEVERAL_ITEMS, Need, Numerics, Optimization, Stage, Timing, trait

# Seen with torch 2.11: one thread computes a single volume by a kernel that knows the old layout alone.
SEVERAL_ON_CPU = Need(
    missing="takes one volume at a time, for which it needs a CUDA device",
    met=lambda environment, workload: any(one.met(environment, workload) for one in (CUDA, SEVERAL_ITEMS)),
)

OPTIMIZATION = Optimization(
    name="channels_last_3d",
    title="Channels-last memory format of volumes",
    stage=Stage.DEVICE,
    numerics=Numerics.CLOSE,
    sets={"channels_last_3d": True},
    proof={"memory_format_3d": "channels_last_3d"},
    alone_on=Timing.COMPUTE,
    needs=(trait("convolutions_3d", "needs 3-D convolutions"), SEVERAL_ON_CPU),
)
