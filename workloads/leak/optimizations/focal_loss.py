"""Focal loss for the class head: samples count less, the surer the model already is of them.

One of the three losses that the real system offers for unequal classes, with gamma 2 and a weight of 0.75 for LEAK. It
changes what is learned, and costs a softmax and a power more than cross entropy over a handful of classes: nothing that
could be noticed beside three convolutions.

    p = logits.softmax(1).gather(1, target[:, None]).squeeze(1)
    loss = (alpha[target] * (1 - p) ** 2 * -p.log()).mean()
"""

from harness.core.optimization import Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="focal_loss",
    title="Focal loss",
    stage=Stage.DEVICE,
    numerics=Numerics.DIFFERENT,
    sets={"class_loss": "focal"},
    proof={"class_loss": "focal"},
    sought=False,
)
