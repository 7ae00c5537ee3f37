"""Read and augment in float32 instead of float64.

`soundfile.read` gives float64 unless told otherwise, and numpy stays there. The files hold 16 bits, and the model takes
float32, so that half of the bytes that augmentation moves carry nothing.

It pays where the work is bound by memory: mixing, and whole files that are decoded only to be cut. It gains less on a
convolution, and nothing where opening files costs most. It hurts nowhere at this length of signal; sums over very long
ones lose digits.

    speech, rate = soundfile.read(path, dtype="float32")
"""

from harness.core.optimization import Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="float32_augmentation",
    title="Augment in float32 instead of float64",
    stage=Stage.INPUT,
    numerics=Numerics.CLOSE,
    sets={"sample_type": "float32"},
    proof={"sample_type": "float32"},
    alone_on=Timing.LOADER,
)
