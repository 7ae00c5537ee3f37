"""Decode to float32 instead of float64 and leave everything else as it is.

The reader's default is float64, which nothing after it needs: the model gets float32. Half the bytes go through the
transform and the filters. What stays is most of the cost: one clip at a time, filters made anew for each.

It pays little, and hurts nowhere but in the last digits of very quiet bands.

    sound, rate = soundfile.read(path, dtype="float32")
"""

from harness.core.optimization import Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="float32_mel",
    title="Log-mel of a clip in float32, otherwise as found",
    stage=Stage.INPUT,
    numerics=Numerics.CLOSE,
    sets={"features": "float32"},
    proof={"features": "float32", "mel_drift_below_0.1_db": True},
    alone_on=Timing.LOADER,
)
