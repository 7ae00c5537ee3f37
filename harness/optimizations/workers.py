"""Loader workers: processes that prepare the next batches while the step runs.

Pays when preparing a batch takes a noticeable part of the step and cores are free: the step then waits only for what
the workers cannot keep up with. Does nothing when the step is the bottleneck; hurts when workers and trainer share too
few cores, or when copying finished batches between processes costs more than making them. `workers=auto` leaves one of
the cores that may be used here to the trainer, and takes eight at most.

    DataLoader(dataset, batch_size=..., num_workers=4)
"""

from harness.core.optimization import LEVEL, Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="workers",
    title="Loader worker processes",
    stage=Stage.INPUT,
    numerics=Numerics.EXACT,
    sets={"workers": LEVEL},
    proof={"workers": LEVEL},
    levels=(1, 2, 4, 8, 16),
    # On few cores the trainer keeps one for itself; beyond eight workers batches queue up rather than come sooner.
    usual=lambda environment: max(1, min(8, environment.cores - 1)),
    supersedes=("trainer_threads", "worker_threads"),  # where everything is on, a core goes to each worker
)
