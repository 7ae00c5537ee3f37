"""Train the class head on leak or no leak instead of on all classes.

The binary mode of the real system: two outputs instead of five, 617,987 parameters instead of 618,758. Another task,
and the same work for the machine but for 771 weights; measured to show that the size of the head decides nothing.

    target = (labels == LEAK).long()
    logits = nn.Linear(256, 2)(features)
"""

from harness.core.optimization import Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="binary_classes",
    title="Two classes: leak or not",
    stage=Stage.DEVICE,
    numerics=Numerics.DIFFERENT,
    sets={"classes": "binary"},
    proof={"class_outputs": 2},
    sought=False,
)
