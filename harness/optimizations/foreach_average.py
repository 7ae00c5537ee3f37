"""Moving average of the weights by multi-tensor kernels.

A running average of all weights is brought up to date after each step. Tensor by tensor that is one small kernel for
each of several hundred tensors; grouped it is a handful. Pays on a GPU where a step is short.

    torch._foreach_lerp_(averages, weights, 1 - decay)
"""

from harness.core.optimization import Numerics, Optimization, Stage, Timing, trait

OPTIMIZATION = Optimization(
    name="foreach_average",
    title="Multi-tensor moving average of the weights",
    stage=Stage.DEVICE,
    numerics=Numerics.CLOSE,
    sets={"average_kernel": "foreach"},
    proof={"average_kernel": "foreach"},
    alone_on=Timing.COMPUTE,
    needs=(trait("weight_average", "needs a system that averages its weights"),),
)
