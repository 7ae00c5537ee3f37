"""Share batches between worker and trainer by named files instead of by file descriptors.

A tensor that leaves a worker stays in shared memory, and only a handle travels. By default that is an open file
descriptor; `file_system` sends the name of a file in `/dev/shm`. It is advised where a loader ends with "too many open
files", since descriptors are limited. Speed hardly differs. A process called `torch_shm_manager` removes the names; it
leads a session of its own, so that it outlives a killed training by a moment and cleans up. Kill it too, and the
files stay until the machine reboots. Every process must set it, the workers too where they are spawned.

    torch.multiprocessing.set_sharing_strategy("file_system")
"""

from harness.core.optimization import LEVEL, Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="sharing_strategy",
    title="Batches shared by file name",
    stage=Stage.INPUT,
    numerics=Numerics.EXACT,
    sets={"sharing_strategy": LEVEL},
    proof={"sharing_strategy": LEVEL, "worker_sharing": LEVEL},
    levels=("file_system",),
    requires=("workers",),
    sought=False,  # a way around an error, and no gain
)
