"""Let the trainer itself compute with several CPU threads.

PyTorch takes one thread for each core unless told otherwise; here an arm takes one unless this is on. Several pay for
large operations on a CPU while the other cores are idle. They hurt where loader workers need those cores: two pools of
threads on two cores wait for each other, and a step beside a busy neighbour may take many times as long: in four of
nine comparisons here one replicate, disturbed so and left out of the ratio, was 2 to 4 times slower. A system that
sets more threads than there are cores is slowed down in the same way. On a GPU the host only queues work, so little
changes. Sums are added up in another order, so losses agree closely and not to the last bit. The arm's process starts
with the same number in `OMP_NUM_THREADS`, `MKL_NUM_THREADS` and `OPENBLAS_NUM_THREADS`, which loader workers inherit:
NumPy heeds it there, while torch has one thread in each unless `worker_threads` says otherwise.

    # OMP_NUM_THREADS=2 MKL_NUM_THREADS=2 OPENBLAS_NUM_THREADS=2 python train.py
    torch.set_num_threads(len(os.sched_getaffinity(0)))
"""

from harness.core.optimization import LEVEL, SEVERAL_CORES, Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="trainer_threads",
    title="Several threads for the trainer",
    stage=Stage.LAUNCH,
    numerics=Numerics.CLOSE,
    sets={"threads": LEVEL},
    proof={"threads": LEVEL},
    levels=(2, 4, 8),
    usual=lambda environment: environment.cores,
    needs=(SEVERAL_CORES,),
)
