"""A neighbour: works on so many cores for five seconds, rests for ten, as long as the process that started it lives.

python -m benchmarks.precision.neighbour CORES
"""

import os
import sys
from threading import Thread
from time import monotonic, sleep

import numpy as np

WORKS_S, RESTS_S = 5.0, 10.0
NUMBERS = 4_000_000  # 32 MB for each core: more than caches hold


def main(cores: int) -> None:
    """Works and rests until it is left alone."""
    parent = os.getppid()
    while os.getppid() == parent:
        threads = [Thread(target=work, args=(monotonic() + WORKS_S,)) for _ in range(cores)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        sleep(RESTS_S)


def work(until_s: float) -> None:
    """Goes through memory again and again; numpy lets go of the interpreter's lock meanwhile."""
    values = np.ones(NUMBERS)
    while monotonic() < until_s:
        np.sqrt(values, out=values)


if __name__ == "__main__":
    main(int(sys.argv[1]))
