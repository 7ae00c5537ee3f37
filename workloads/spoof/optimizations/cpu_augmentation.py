"""Augment every training clip in the worker: its pitch is shifted or its time stretched. A price, not a gain.

Robustness is bought with a phase vocoder for each item, which costs more than decoding and log-mel together. The real
system offers it; whoever switches it on should know what it does to the feed, and that a feature cache is then out of
reach while the log-mel can still move to the device.

It makes a trained model stronger against voices it has not heard, and every epoch longer wherever the feed is the
bottleneck. Workers hide it only while they are many enough.

    if index % 2:
        sound = librosa.effects.time_stretch(sound, rate=random.uniform(0.9, 1.1))
    else:
        sound = librosa.effects.pitch_shift(sound, sr=16000, n_steps=random.uniform(-2, 2))
"""

from harness.core.optimization import Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="cpu_augmentation",
    title="Pitch or tempo of every clip changed in the worker",
    stage=Stage.INPUT,
    numerics=Numerics.DIFFERENT,
    sets={"augmentation": True},
    proof={"augmentation": True},
    sought=False,
)
