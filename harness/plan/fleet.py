"""A fleet: kinds of machines, how many of each, and what is measured on them; and how long that takes."""

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from statistics import median

from harness.core.codec import document, entries
from harness.core.mistake import Mistake

SCATTER = 0.2  # standard deviation of the log of what a shard takes, over what the cost model says
SIMULATED = 200
MOST_MACHINES = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One plan in parts: the words of `run`, and into how many shards it is cut."""

    words: str
    shards: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Machines that are alike, by a name of one's own."""

    name: str
    count: int
    measure: tuple[Measure, ...]
    # A run that was made on one, whose environment is planned for; None: this machine's.
    run: str | None = field(default=None, metadata={"since": "0.3.0"})
    per_hour: float | None = field(default=None, metadata={"since": "0.3.0"})  # of one machine, in any currency


def parsed(text: str, file: str) -> tuple[Kind, ...]:
    """The kinds of a file of tables `[[machine]]`; raises Mistake for whatever is not understood."""
    kinds = entries(document(text, file, {"machine"}), "machine", Kind, file)
    if not kinds:
        raise Mistake(f"{file} must hold tables [[machine]].")
    for number, one in enumerate(kinds, 1):
        if not 1 <= one.count <= MOST_MACHINES or not one.measure or any(part.shards < 1 for part in one.measure):
            raise Mistake(f"{file}, machine {number} needs a count and shards of 1 at least, and something to measure.")
    if len({one.name for one in kinds}) < len(kinds):
        raise Mistake(f"{file} names a kind of machine twice; give each a name of its own.")
    return kinds


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """How shards on machines of one kind are likely to go, in seconds; of many simulations the median."""

    total_s: float  # of all machines together
    longest_s: float  # shard
    span_s: float  # from the first shard's start to the last one's end
    idle: float  # share of the machines' time until then in which they have nothing to do
    perfect_s: float  # the span if work could be cut at will, but for the longest shard


def course(lengths_s: Sequence[float], machines: int, seed: int = 0) -> Course:
    """An engine that hands the next shard, the longest first, to whichever machine is free."""
    random, ordered = Random(seed), sorted(lengths_s, reverse=True)
    taken = [[one * math.exp(random.gauss(0.0, SCATTER)) for one in ordered] for _ in range(SIMULATED)]
    spans, totals = [_span(one, machines) for one in taken], [math.fsum(one) for one in taken]
    total_s = median(totals)
    return Course(
        total_s=total_s,
        longest_s=ordered[0],
        span_s=median(spans),
        idle=median(1 - total / (span * machines) for total, span in zip(totals, spans, strict=True)),
        perfect_s=max(total_s / machines, ordered[0]),
    )


def _span(lengths_s: Iterable[float], machines: int) -> float:
    free = [0.0] * machines
    for one in lengths_s:
        heapq.heapreplace(free, free[0] + one)
    return max(free)
