"""Start method: how loader processes come into being.

`fork` copies the trainer's memory pages lazily and starts in milliseconds, but is unsafe once CUDA or threads are in
use. `spawn` begins a fresh interpreter, which imports everything again and gets the data set pickled; `forkserver`
forks from a clean process. Workers do the same work afterwards: what differs is their start, so this shows where epochs
are short and workers are not kept. A data set that holds its data in memory is pickled into every spawned worker.

    DataLoader(dataset, num_workers=4, multiprocessing_context="spawn")
"""

from harness.core.optimization import LEVEL, Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="start_method",
    title="How loader processes start",
    stage=Stage.LAUNCH,
    numerics=Numerics.EXACT,
    sets={"start_method": LEVEL},
    proof={"start_method": LEVEL},
    levels=("spawn", "forkserver"),
    timed_on=Timing.EPOCH,
    requires=("workers",),
    sought=False,
)
