"""Let each loader worker compute with several threads.

A loader sets every worker to one thread, because several workers with a pool each are more threads than cores. More
may pay where few workers run heavy tensor operations, such as resampling, on a machine with idle cores. One more
worker mostly uses a core better. It hurts where workers times threads exceed the cores. A worker that was forked from
a trainer with several threads hangs as soon as it computes with several itself, because GNU's OpenMP waits for threads
that a fork does not copy: such a stack is refused, and works with `start_method=spawn`.

    def settle(worker: int) -> None:
        torch.set_num_threads(2)

    DataLoader(dataset, num_workers=2, worker_init_fn=settle)
"""

from harness.core.optimization import LEVEL, SEVERAL_CORES, Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="worker_threads",
    title="Several threads for each worker",
    stage=Stage.INPUT,
    numerics=Numerics.CLOSE,
    sets={"worker_threads": LEVEL},
    proof={"worker_threads": LEVEL},
    levels=(2, 4),
    needs=(SEVERAL_CORES,),
    requires=("workers",),
)
