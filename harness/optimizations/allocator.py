"""Serve host memory with jemalloc or tcmalloc instead of the C library's allocator.

Both keep caches for each thread and give memory back in their own time, which helps programs that allocate and free
large blocks in every step from several threads. Promised most for training and serving on CPUs; on a GPU the host
allocates little. `tuned_malloc` asks less of a machine: glibc itself, told to keep what was freed.

    LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libjemalloc.so.2 python train.py
"""

from harness.core.environment import PACKAGES, STEMS
from harness.core.optimization import LEVEL, Need, Numerics, Optimization, Stage


def _installed(*names: str) -> Need:
    """The need of at least one of these libraries; whether an environment has any is unknown where nobody looked."""
    packages = " or ".join(PACKAGES[name] for name in names)
    return Need(
        missing=f"needs the library of {' or '.join(names)}: apt-get install {packages}",
        met=lambda environment, _: environment.allocators is None or not {*names}.isdisjoint(environment.allocators),
    )


OPTIMIZATION = Optimization(
    name="allocator",
    title="Another allocator of host memory",
    stage=Stage.LAUNCH,
    numerics=Numerics.EXACT,
    sets={"malloc": LEVEL},
    proof={"malloc": LEVEL},
    levels=tuple(STEMS),
    usual=lambda environment: next(iter(environment.allocators or STEMS)),
    needs=(_installed(*STEMS),),
    level_needs={name: _installed(name) for name in STEMS},
)
