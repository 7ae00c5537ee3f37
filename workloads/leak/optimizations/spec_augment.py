"""SpecAugment: hide some neighbouring mel bands of each segment, item by item in the loader or in one go on the device.

A price, not an optimization: the real system has it switched off, and it changes what is learned. The report advises to
move it from the training loop, where it runs on the device, into the data set, so that workers do it in parallel. There
it is Python for each item of 128 bytes, in front of a loader that is slow for that very reason; on the device it is a
handful of kernels for the whole batch. Both ways draw the same masks here, because a mask depends on the segment's
number alone. The widths are those of the real system, but for its time mask of up to 5 frames: torchaudio's
TimeMasking(6) blanked 84 % of segments with a single frame when we tried it, so one frame is always left.

    keep = (bands < first[:, None]) | (bands >= last[:, None])
    inputs = inputs * keep[:, None, :, None]
"""

from harness.core.optimization import LEVEL, Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="spec_augment",
    title="Masks over mel bands",
    stage=Stage.INPUT,
    numerics=Numerics.DIFFERENT,
    sets={"spec_augment": LEVEL},
    levels=("per_item", "on_device"),
    proof={"spec_augment": LEVEL},
    sought=False,
)
