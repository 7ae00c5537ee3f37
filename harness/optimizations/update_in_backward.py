"""Update in the backward pass: each weight is updated as soon as its gradient is complete, which is then dropped.

The gradients of a model never lie in memory together, which saves as much as the weights take; and an update begins
while the backward pass still runs. Pays in memory for large models trained with small batches. In time it loses what
grouped kernels gain, because every weight has an optimizer of its own. Impossible where gradients are wanted together:
to clip them, to add them up over several passes, to look for overflows.

    def update(weight):
        optimizers[weight].step(); weight.grad = None
    weight.register_post_accumulate_grad_hook(update)
"""

from harness.core.optimization import Need, Numerics, Optimization, Stage, Timing

EACH_ALONE = Need(
    missing="needs a system that neither clips its gradients nor averages its weights",
    met=lambda _, workload: workload.traits.isdisjoint({"clipping", "weight_average"}),
)

OPTIMIZATION = Optimization(
    name="update_in_backward",
    title="Weights updated during the backward pass",
    stage=Stage.DEVICE,
    numerics=Numerics.EXACT,
    sets={"update_in_backward": True},
    # Each weight's update looks for a GPU, which must take no longer than in a training without the harness.
    proof={"update_in_backward": True, "gpu_check": "CUDA"},
    alone_on=Timing.COMPUTE,
    needs=(EACH_ALONE,),
    sought=False,  # buys memory with time
)
