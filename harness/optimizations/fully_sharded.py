"""FSDP: each rank holds a part of every weight, gradient and state, and gathers weights when it computes with them.

Saves memory, divided by the number of ranks, so that models train which no device holds whole. Costs one or two
gatherings of all weights for every update, where DistributedDataParallel sends gradients alone: `each_pass` frees the
weights after the forward pass and gathers them again, `kept` holds them until the backward pass is through. Both
scatter the sums of gradients. Where a model fits, DistributedDataParallel is usually faster. Seen by the collectives of
each pass. Tried over gloo in float32, and with `sharded_bfloat16`.

    for block in model.blocks:
        fully_shard(block, reshard_after_forward=False)     # FSDP2, torch.distributed.fsdp
    fully_shard(model)                                      # then the optimizer, on model.parameters()
"""

from harness.core.optimization import LEVEL, Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="fully_sharded",
    title="Weights, gradients and states shared out (FSDP)",
    stage=Stage.RANKS,
    numerics=Numerics.CLOSE,
    sets={"sharded_weights": LEVEL},
    proof={"sharded_weights": LEVEL},
    levels=("each_pass", "kept"),
    requires=("ranks",),
    sought=False,
)
