"""Persistent workers: loader processes that live on from one epoch to the next.

Saves their start at every epoch and keeps what they have cached or opened. Pays in proportion to how short the epochs
are; nothing inside an epoch changes. Costs the workers' memory during evaluation.

    DataLoader(dataset, batch_size=..., num_workers=4, persistent_workers=True)
"""

from harness.core.optimization import Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="persistent_workers",
    title="Workers kept across epochs",
    stage=Stage.INPUT,
    numerics=Numerics.EXACT,
    sets={"persistent_workers": True},
    proof={"persistent_workers": True},
    timed_on=Timing.EPOCH,
    requires=("workers",),
)
