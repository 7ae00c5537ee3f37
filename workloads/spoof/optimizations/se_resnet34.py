"""Train the deeper SE-ResNet with blocks 3-4-6-3: 22,159,555 parameters. A condition, not a gain.

The model's own file offers it. Counted: 7.53 GFLOP forward a clip instead of 3.64. The feed costs nothing more, so that
what it costs weighs half.

It makes optimizations of the device worth more and those of the feed worth less than with the model that was found.

    model = SEResNet(blocks=(3, 4, 6, 3))
"""

from harness.core.optimization import Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="se_resnet34",
    title="The deeper SE-ResNet, 3-4-6-3 blocks",
    stage=Stage.DEVICE,
    numerics=Numerics.DIFFERENT,
    sets={"model": "se_resnet34"},
    proof={"model": "se_resnet34"},
    sought=False,
)
