"""Cut the sound before the log-mel instead of cutting the features after it.

The model sees four seconds; the log-mel of an eight-second clip is half wasted. Cutting 64,600 samples first gives 404
frames and no more. But it is another input: the reference of the dB scale becomes the loudest value of the cut instead
of the clip's, which moves a quiet cut up by many dB and lifts what lay below the floor of -80 dB, and the edges see
zeros where there was speech. Whoever wants the saving without the change has to keep each clip's loudest value.

It pays where clips are much longer than the cut. With clips of 3.4 s on average it hurts: most of them are shorter, are
now repeated as sound and cost a transform of four seconds each.

    sound = numpy.tile(sound, -(-64600 // len(sound)))     # short clips are repeated
    start = random.randrange(len(sound) - 64600 + 1)
    features = log_mel(sound[start : start + 64600])
"""

from harness.core.optimization import Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="crop_before_mel",
    title="Sound cut before the log-mel",
    stage=Stage.INPUT,
    numerics=Numerics.DIFFERENT,
    sets={"cut": "sound"},
    proof={"cut": "sound"},
    alone_on=Timing.LOADER,
    excludes={"no_tiling": "clips of one length, seen whole, leave nothing to cut"},
)
