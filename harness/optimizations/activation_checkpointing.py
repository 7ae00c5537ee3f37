"""Activation checkpointing: keep fewer activations in the forward pass and compute them again in the backward pass.

Buys memory with time: about a third more compute for a saving that grows with depth. It pays only where the memory lets
a larger batch or model run at all, or where a larger batch is much more efficient. On a model that fits anyway it is a
loss. Running averages of batch normalisation move twice a batch, and dropout draws its numbers again.

    from torch.utils.checkpoint import checkpoint
    features = checkpoint(stage, features, use_reentrant=False)
"""

from harness.core.optimization import Numerics, Optimization, Stage, Timing, trait

OPTIMIZATION = Optimization(
    name="activation_checkpointing",
    title="Activations computed again instead of kept",
    stage=Stage.DEVICE,
    numerics=Numerics.CLOSE,
    sets={"checkpointing": True},
    proof={"checkpointing": True},
    alone_on=Timing.COMPUTE,
    needs=(trait("checkpointing", "needs a model that is cut into stages for it"),),
    sought=False,
)
