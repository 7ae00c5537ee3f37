"""FSDP: each rank holds a part of every weight, gradient and state, and gathers weights when it computes with them.

Saves memory, divided by the number of ranks, so that models train which no device holds whole. Costs one or two
gatherings of all weights for every update, where DistributedDataParallel sends gradients alone: `each_pass` frees the
weights after the forward pass and gathers them again, `kept` holds them until the backward pass is through, and
`bfloat16` holds them likewise, gathered and computed in that type: half the bytes, and gradients still summed in
float32. Unlike autocast it takes every operation of the model into bfloat16, sums and normalization too, so that losses
move further; the loss itself and what the optimizer keeps stay in float32. All scatter the sums of gradients. Each
repeated block is gathered by itself, then what else a child of the model has. Where a model fits,
DistributedDataParallel is usually faster. Seen by the collectives of each pass and their types. Tried over gloo.

    for block in model.blocks:
        fully_shard(block, reshard_after_forward=False)     # FSDP2, torch.distributed.fsdp
    fully_shard(model)                                      # then the optimizer, on model.parameters()
    # in bfloat16: fully_shard(…, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32))
"""

from harness.core.optimization import LEVEL, Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="fully_sharded",
    title="Weights, gradients and states shared out (FSDP)",
    stage=Stage.RANKS,
    numerics=Numerics.CLOSE,
    sets={"sharded_weights": LEVEL},
    proof={"sharded_weights": LEVEL},
    levels=("each_pass", "kept", "bfloat16"),
    requires=("ranks",),
    sought=False,
)
