"""A bucket that is mounted as a folder with a cache on a local disk, as the real system mounts its own.

`mountpoint-s3 --cache` asks the store twice at once before it opens a file, whether the name is an object (HEAD) or a
folder (LIST), because what it knew is a minute old at most and an epoch takes longer. Bytes that it has not cached are
fetched (GET) and written to the cache; after the first epoch they are read from there.

Requests are real ones to the store on loopback, which answers in two milliseconds; of the two at once only the HEAD is
sent. Each then waits until the time is over that was drawn for it from what others measured at S3. Nothing here is
taken from the times that the real training took, so that those can be held against it.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from math import exp, log
from pathlib import Path
from random import Random
from statistics import NormalDist
from threading import get_ident
from time import perf_counter, sleep

import numpy as np

from harness.core.workload import ADDRESS
from workloads.imagenet.storage import OBJECT_S, Objects, Read

MIB = 2**20
GET_BYTES, GET_BYTES_PER_S = MIB // 8, 82 * MIB  # of the objects whose times were measured, on one connection


@dataclass(frozen=True)
class Latency:
    """Times of one kind of request, by the share of requests that took no longer.

    Between two known shares times are log-normal; none is drawn beyond the first and the last.
    """

    seconds: Mapping[float, float]

    def drawn(self, share: float) -> float:
        """Seconds of a request whose time exceeds that of such a share of requests."""
        places, logarithms = self._curve
        return exp(float(np.interp(NormalDist().inv_cdf(share), places, logarithms)))

    @cached_property
    def _curve(self) -> tuple[list[float], list[float]]:
        return [NormalDist().inv_cdf(share) for share in self.seconds], [log(one) for one in self.seconds.values()]


# The log of a mount: github.com/awslabs/mountpoint-s3/issues/1296, 297 requests of each kind.
HEAD = Latency({0.1: 0.01146, 0.5: 0.01427, 0.9: 0.01805, 0.99: 0.03456, 0.999: 0.15872})
LIST = Latency({0.1: 0.01011, 0.5: 0.01312, 0.9: 0.01651, 0.99: 0.04147, 0.999: 0.04224})
# 128 KiB in us-east-1: github.com/sirupsen/napkin-math/pull/39. Its author withdrew it when more requests brought the
# 99th percentile near 80 ms. The tenth is not told: as far below the median as the ninetieth is above.
GET = Latency({0.1: 0.026**2 / 0.040, 0.5: 0.026, 0.9: 0.040, 0.99: 0.073})


@dataclass(frozen=True, slots=True)
class Mounted:
    """The folder that a mount shows of an object store.

    `kept` is the mount's cache: a folder that files are read from if they are there, and else written to where the
    mount `fills` it. None: every file is fetched, as in a first epoch.
    """

    objects: Objects
    kept: Path | None = None
    fills: bool = False
    log: list[Read] | None = None
    name: str = "s3"

    def read(self, path: str) -> bytes:
        """The bytes of a file: looked up, then read from the cache or fetched."""
        began, draws = perf_counter(), _draws_of(os.getpid())
        self.objects.look_up(path)
        _until(began + max(HEAD.drawn(draws.random()), LIST.drawn(draws.random())))
        kept = self.kept / path if self.kept else None
        is_kept = kept is not None and kept.exists()
        encoded = kept.read_bytes() if is_kept and kept else self.fetch(path)
        if kept and self.fills and not is_kept:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(encoded)
        if self.log is not None:
            source = "kept" if is_kept else self.name
            self.log.append(Read(source, perf_counter() - began, get_ident()))
        return encoded

    def names(self, split: str) -> Mapping[str, Sequence[str]]:
        """What the store lists."""
        return self.objects.names(split)

    def connect(self) -> None:
        """Makes the client."""
        self.objects.connect()

    def fetch(self, path: str) -> bytes:
        """The bytes of a file that need not be looked up, as a copying tool asks for them."""
        began = perf_counter()
        encoded = self.objects.read(path)
        _until(began + GET.drawn(_draws_of(os.getpid()).random()) + (len(encoded) - GET_BYTES) / GET_BYTES_PER_S)
        return encoded


def _until(moment: float) -> None:
    sleep(max(0.0, moment - perf_counter()))


@cache
def _draws_of(_process: int) -> Random:
    """Draws of a process, apart from those of the training: every process and every run has others."""
    return Random()


def find_store(folder: Path, s3_state: object) -> Objects | Mounted | None:
    """The object store that the launcher started, if it did, in the state that a recipe asks for."""
    address = os.environ.get(ADDRESS)
    if not address:
        return None
    if s3_state in OBJECT_S:
        return Objects(address, OBJECT_S[str(s3_state)])
    # What a mount has cached after an epoch lies in the files that the store serves: they need not be copied.
    return Mounted(Objects(address, 0.0), kept=folder if s3_state == "later_epochs" else None)
