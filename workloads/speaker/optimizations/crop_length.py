"""Train on shorter or longer crops of the utterances: so many frames of ten milliseconds, in place of 200.

The network's work goes with the length, and so does that of the front end and of whatever travels. Reading does not:
as found the whole utterance and whole noises are read whatever is cut from them. A sample is one crop of whatever
length, as many of them to a step as before, so that twice the samples a second at half the length is no more speech.

It pays where the device sets the pace. Shorter crops tell less of a voice and are known to cost accuracy, longer ones
fit less into memory; either changes what is learned, and its error rate must be measured before the time is compared.
The evaluation keeps its crops of 300 frames.

    audio = audio[begin : begin + frames * 160 + 240]
"""

from harness.core.optimization import LEVEL, Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="crop_length",
    title="Crops of another length",
    stage=Stage.DEVICE,
    numerics=Numerics.DIFFERENT,
    sets={"crop_length": LEVEL},
    proof={"crop_length": LEVEL},
    levels=(100, 300),
    sought=False,
)
