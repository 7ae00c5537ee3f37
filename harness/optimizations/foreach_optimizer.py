"""Foreach optimizer: each operation of the update runs once over a list of all parameters.

Fewer kernel launches on a GPU, where it is PyTorch's default: our baseline loops over the tensors, so that who sets
nothing has this gain already. On a CPU there is no launch to save, and no difference was seen. Takes about as much
memory as the weights beside, at its peak.

    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
"""

from harness.core.optimization import Numerics, Optimization, Stage, Timing, kernel

OPTIMIZATION = Optimization(
    name="foreach_optimizer",
    title="Optimizer over lists of tensors",
    stage=Stage.DEVICE,
    numerics=Numerics.CLOSE,
    sets={"optimizer_kernel": "foreach"},
    proof={"optimizer_kernel": "foreach"},
    alone_on=Timing.COMPUTE,
    needs=(kernel("foreach"),),
)
