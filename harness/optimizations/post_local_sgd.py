"""Local SGD: ranks update their own weights, and average them every fourth step instead of reducing gradients.

Sends a quarter of the bytes, and none behind the backward pass. It is another training: between two averages the models
differ. A real training begins it after some epochs; here it begins at once, so that it can be measured.

    model.register_comm_hook(PostLocalSGDState(None, None, 0, post_local_gradient_allreduce=False), post_localSGD_hook)
    averager = PeriodicModelAverager(period=4)
    averager.average_parameters(model.parameters())  # after optimizer.step(), before zero_grad(): it averages weights
    # that have a gradient alone, and gives them other memory, of which a moving average must be told
"""

from harness.core.optimization import Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="post_local_sgd",
    title="Weights averaged every fourth step",
    stage=Stage.RANKS,
    numerics=Numerics.DIFFERENT,
    sets={"communication_hook": "post_local_sgd"},
    proof={"communication_hook": "post_local_sgd"},
    requires=("ranks",),
    excludes={
        "zero_redundancy_optimizer": "the rank that updates a weight would know the gradient of its own samples alone"
    },
)
