"""Train a larger network of the family: ResNetSE34V2 with 8.0 million parameters, or ResNetSE152 with 76.6 million.

Not an optimization but a condition: what pays for a network of 1.4 million parameters, whose kernels are so small that
starting them costs most, need not pay for one that keeps the device busy. ResNetSE34L takes 1.43 GFLOP and 17.5 MiB of
saved activations for a crop of two seconds, ResNetSE34V2 takes 7.4 and 64, ResNetSE152 takes 57 and 506: a batch of
100 then needs 49 GiB, and `activation_checkpointing` has something to save.

The report advises the other way, from ResNetSE152 down to ResNetSE34L. That is faster and is another model: its error
rate must be measured before the time is compared. Published for VoxCeleb1-O are 2.18 % (34L, trained with the angular
prototypical loss) and 1.02 % (34V2).

    model: ResNetSE34V2     # encoder_type ASP, n_mels 64, log_input True
"""

from harness.core.optimization import LEVEL, Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="larger_network",
    title="Train a larger network of the family",
    stage=Stage.DEVICE,
    numerics=Numerics.DIFFERENT,
    sets={"architecture": LEVEL},
    proof={"architecture": LEVEL},
    levels=("resnetse34v2", "resnetse152"),
    sought=False,
)
