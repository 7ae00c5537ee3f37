"""SpecAugment on the device: neighbouring mel bands of a whole batch are hidden in one go.

A handful of kernels for all segments of a batch, whose masks come from a hash of their numbers. A price, not an
optimization: the real system has SpecAugment switched off, and it changes what is learned. What it costs is little on a
GPU; on a CPU it takes its time from the step. `loader_spec_augment` draws the same masks in the loader.

    keep = (bands < first[:, None]) | (bands >= last[:, None])
    inputs = inputs * keep[:, None, :, None]
"""

from harness.core.optimization import Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="device_spec_augment",
    title="Masks over mel bands, a batch at a time on the device",
    stage=Stage.DEVICE,
    numerics=Numerics.DIFFERENT,
    sets={"spec_augment": "on_device"},
    proof={"spec_augment": "on_device"},
    sought=False,
)
