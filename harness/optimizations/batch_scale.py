"""Larger batch: two or four of the usual batches go through the model in one piece, for one update.

Larger batches fill a device better, and there are fewer updates for the same data. What is measured is that alone: the
reference takes as many samples for each of its updates, in usual batches whose gradients it adds up. A ratio to the
usual batch would compare trainings that learn differently for every sample. Pays on a device that the usual batch
leaves half idle; nothing where the loader is slower than the step. Costs memory, and batch normalisation sees others.

    loader = DataLoader(dataset, batch_size=2 * 64)     # against two batches of 64 for one optimizer.step()
"""

from harness.core.optimization import LEVEL, Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="batch_scale",
    title="Several usual batches in one piece",
    stage=Stage.DEVICE,
    numerics=Numerics.DIFFERENT,
    sets={"batch_scale": LEVEL},
    proof={"micro_batches": 1, "whole_batches": True},
    levels=(2, 4),
    excludes={"gradient_accumulation": "one takes a batch in one piece, the other in several"},
    sought=False,
)
