"""Train on smaller views of the same images.

The work of a convolutional network goes with the area: ResNet-50 takes 8.2 GFLOP forward at 224 and 4.2 at 160. The
loader hardly gains, because the whole image is read and decoded whatever is shown of it. "Smaller images load faster"
is said of it and is hardly so, unless the files themselves are made smaller.

It pays where the model sets the pace, and it changes what is learned: small objects vanish, and a network that was
trained at one size is usually best at a slightly larger one. Levels are sides at the size `standard`, where the real
system shows 224; smaller sizes show the same share of theirs.

    transforms.RandomResizedCrop(160)
"""

from harness.core.optimization import LEVEL, Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="image_size",
    title="Smaller views",
    stage=Stage.DEVICE,
    numerics=Numerics.DIFFERENT,
    sets={"image_size": LEVEL},
    levels=(160, 192),
    proof={"image_size": LEVEL},
)
