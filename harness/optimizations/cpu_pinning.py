"""Keep the trainer on one core and its loader workers on the others.

The scheduler moves processes between cores, and each move costs what lay in the core's caches. Pinned apart, the
trainer is never put behind a worker. That may pay where workers keep all cores busy, and on machines whose memory
belongs to sockets. It hurts where it takes away choice: the trainer cannot use a core that is idle, and with two cores
all workers share one. Without workers only the trainer is pinned.

    first, *others = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {first})    # before torch starts its threads; and in the worker_init_fn of the loader:
    os.sched_setaffinity(0, others)
"""

from harness.core.optimization import SEVERAL_CORES, Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="cpu_pinning",
    title="Trainer and workers on cores of their own",
    stage=Stage.LAUNCH,
    numerics=Numerics.EXACT,
    sets={"pinned_cores": True},
    proof={"pinned_cores": True},
    needs=(SEVERAL_CORES,),
    excludes={"trainer_threads": "several threads are of no use to a trainer that is kept to one core"},
)
