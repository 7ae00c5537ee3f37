"""How much longer work takes after a pause, by how the pause was spent: what a shared processor's caches lose.

    python -m benchmarks.cold_caches

Prints the median milliseconds of reading scattered memory, of following Python objects and of arithmetic that needs
none, at once and behind pauses that hash, look at the clock or sleep. See docs/decisions/emulated-devices.md.
"""

import time
from collections.abc import Callable
from statistics import median

import numpy as np

from harness.measure.emulated import Spinning, sleeping

PAUSES_S = (0.0, 0.03, 0.1, 0.5)
TIMES = 12  # each
BLOCKS, READ, BLOCK = 4_000, 256, 6_400  # float32 arrays of 25 KiB, 100 MB of them; how many are read at once


def _clock(until: float) -> None:
    while time.perf_counter() < until:
        pass


def works() -> dict[str, Callable[[], object]]:
    """What a loader's host does, by name."""
    random = np.random.default_rng(0)
    blocks = [random.random(BLOCK, dtype=np.float32) for _ in range(BLOCKS)]
    objects = [{str(key * one): float(key) for key in range(50)} for one in range(1_000)]
    return {
        "scattered memory": lambda: [blocks[one].copy() for one in random.integers(0, BLOCKS, READ)],
        "Python objects": lambda: sum(sum(one.values()) for one in objects),
        "arithmetic": lambda: sum(one * one for one in range(60_000)),
    }


def after_ms(work: Callable[[], object], pause: Callable[[float], None], pause_s: float) -> float:
    """Median milliseconds of the work, each time behind a pause."""
    taken_s = []
    for _ in range(TIMES):
        pause(time.perf_counter() + pause_s)
        began = time.perf_counter()
        work()
        taken_s.append(time.perf_counter() - began)
    return 1000 * median(taken_s)


def main() -> None:
    """Prints a line for each work and way to pause."""
    pauses = {"hashing": Spinning(), "looking at the clock": _clock, "asleep": sleeping}
    print(f"{'':40}" + "".join(f"{1000 * one:6.0f} ms" for one in PAUSES_S))
    for name, work in works().items():
        for way, pause in pauses.items():
            found = "".join(f"{after_ms(work, pause, one):9.2f}" for one in PAUSES_S)
            print(f"{f'{name}, {way}':40}{found}", flush=True)


if __name__ == "__main__":
    main()
