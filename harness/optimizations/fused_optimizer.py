"""Fused optimizer: one kernel updates all parameters at once.

Replaces a chain of small operations for every tensor. Pays when a model has many small tensors and the step is short;
vanishes beside a long backward pass. Our baseline loops over the tensors; against PyTorch's default on a GPU see the
rows over `foreach_optimizer`.

    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
"""

from harness.core.optimization import Numerics, Optimization, Stage, Timing, kernel

OPTIMIZATION = Optimization(
    name="fused_optimizer",
    title="Optimizer in one fused kernel",
    stage=Stage.DEVICE,
    numerics=Numerics.CLOSE,
    sets={"optimizer_kernel": "fused"},
    proof={"optimizer_kernel": "fused"},
    alone_on=Timing.COMPUTE,
    needs=(kernel("fused"),),
    supersedes=("foreach_optimizer",),
)
