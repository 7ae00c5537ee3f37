"""Train by comparing utterances with each other, instead of with a direction for every speaker.

The angular prototypical loss asks of each utterance which speaker of the batch it belongs to; it has two parameters
where the angular margin softmax has 512 for every speaker, 3,067,392 for 5,991. The softmax + prototypical loss is
their sum, with a plain softmax. A sample is then two crops of one speaker from two utterances, each augmented by
itself: **a sample holds twice the audio**, and samples per second must not be compared with the other objective's.

A condition rather than an optimization: it changes what is learned. With gradient accumulation each part of the batch
is compared only within itself, which makes the task easier.

    python trainSpeakerNet.py --trainfunc angleproto --nPerSpeaker 2
"""

from harness.core.optimization import LEVEL, Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="metric_learning",
    title="Compare utterances with each other",
    stage=Stage.DEVICE,
    numerics=Numerics.DIFFERENT,
    sets={"objective": LEVEL},
    proof={"objective": LEVEL},
    levels=("angular_prototypical", "softmax_prototypical"),
    sought=False,
)
