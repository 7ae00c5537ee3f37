"""Gradient accumulation: a batch is taken in several smaller ones whose gradients add up before the update.

A means to fit a batch into memory, not to be faster: the same samples go through smaller, less efficient kernels. The
samples of one update stay the same here, so that the comparison is fair. Batch normalisation sees the smaller batches,
and a loss that weighs classes takes its mean within each.

    for part in range(4):
        (criterion(model(inputs[part]), targets[part]) / 4).backward()
    optimizer.step()
"""

from harness.core.optimization import LEVEL, Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="gradient_accumulation",
    title="Gradients accumulated over micro-batches",
    stage=Stage.DEVICE,
    numerics=Numerics.DIFFERENT,
    sets={"micro_batches": LEVEL},
    proof={"micro_batches": LEVEL},
    levels=(2, 4, 8),
)
