"""Linear learning rate: it grows as the batch does, so that as many samples move the weights as far.

With twice the batch there are half as many updates, and each moves the weights twice as far (Goyal et al., 2017,
arXiv 1706.02677). It holds for SGD up to some batch and after a warm-up; for Adam the square root is often better. No
step becomes faster by it: what changes is what is learned, so its score decides.

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * batch / 256)
"""

from harness.core.optimization import Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="linear_learning_rate",
    title="Learning rate in proportion to the batch",
    stage=Stage.DEVICE,
    numerics=Numerics.DIFFERENT,
    sets={"learning_rate_rule": "linear"},
    proof={"learning_rate_rule": "linear"},
    requires=("batch_scale",),
    sought=False,
)
