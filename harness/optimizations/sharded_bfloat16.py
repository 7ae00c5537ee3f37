"""FSDP's mixed precision: weights are gathered and computed with in bfloat16, gradients summed in float32.

Halves the bytes of every gathering, and on a device with units for bfloat16 computes faster. Unlike autocast it takes
every operation of the model into bfloat16, sums and normalization too, so that losses move further; the loss itself
and the weights that the optimizer keeps stay in float32. Seen by the type of what is gathered. A CPU without units for
bfloat16 computes slower in it, which may cost more than a faster link gives.

    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    fully_shard(model, mp_policy=policy)
"""

from harness.core.optimization import Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="sharded_bfloat16",
    title="Weights gathered in bfloat16 (FSDP)",
    stage=Stage.RANKS,
    numerics=Numerics.CLOSE,
    sets={"gathered_precision": "bfloat16"},
    proof={"gathered_precision": "bfloat16"},
    requires=("ranks", "fully_sharded"),
    sought=False,
)
