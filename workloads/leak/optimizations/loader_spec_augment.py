"""SpecAugment in the loader: neighbouring mel bands of each segment are hidden, item by item.

The report advises to move its masks from the training loop, where they run on the device, into the data set, so that
workers draw them side by side. There they are Python for each item of 128 bytes, in front of a loader that is slow for
that very reason. A price, not an optimization: the real system has SpecAugment switched off, and it changes what is
learned. Use `device_spec_augment` as the reference to see what the place alone is worth: both hide the same bands,
because a mask depends on the segment's number alone.

The widths are those of the real system, but for its time mask of up to 5 frames: torchaudio's TimeMasking(6) blanked
84 % of segments with a single frame when we tried it, so one frame is always left.

    def __getitem__(self, index):
        mel, label = self.read(index)
        mel[:, first:last] = 0
        return mel, label
"""

from harness.core.optimization import Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="loader_spec_augment",
    title="Masks over mel bands, item by item in the loader",
    stage=Stage.INPUT,
    numerics=Numerics.DIFFERENT,
    sets={"spec_augment": "per_item"},
    proof={"spec_augment": "per_item"},
    excludes={"data_on_device": "segments that stay on the device do not pass through the loader"},
    sought=False,
)
