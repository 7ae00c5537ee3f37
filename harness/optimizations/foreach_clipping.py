"""Gradient clipping by multi-tensor kernels: the norm of all gradients in a few launches instead of one a tensor.

Clipping reads every gradient twice, once for the norm and once to scale it. With a kernel for each tensor a model of
some hundred tensors launches several hundred; grouped, a handful. Pays where the model is many small tensors on a GPU;
nothing on a large tensor or a CPU. PyTorch's default on both; our baseline has it off.

    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
"""

from harness.core.optimization import Numerics, Optimization, Stage, Timing, trait

OPTIMIZATION = Optimization(
    name="foreach_clipping",
    title="Multi-tensor gradient clipping",
    stage=Stage.DEVICE,
    numerics=Numerics.CLOSE,
    sets={"clip_kernel": "foreach"},
    proof={"clip_kernel": "foreach"},
    alone_on=Timing.COMPUTE,
    needs=(trait("clipping", "needs a system that clips its gradients"),),
)
