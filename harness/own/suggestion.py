"""How many loader workers pay: loaders with several numbers of them take turns, and each rate gets an interval."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from scipy import stats
from torch.utils.data import DataLoader

from harness.core.mistake import Mistake
from harness.core.parallel import usable_cores
from harness.own.items import Source, first_batch, source_of, untouched

ROUNDS = 4  # each number of workers is started anew in each: what differs between them makes the interval
LEAST_BATCHES = 8  # of a turn
LEAST_S = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Batches a second of a loader with its 95 % confidence interval, and the seconds until the first batch."""

    workers: int
    rate: float
    low: float
    high: float
    first_s: float
    rounds: tuple[float, ...]  # the rate of each round


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """How many workers to take, why, and every rate that was measured."""

    workers: int
    reason: str
    batch: int
    rates: tuple[Rate, ...]

    def __str__(self) -> str:
        """The answer, then a line for each number of workers."""
        lines = [f"num_workers={self.workers}: {self.reason}."]
        for one in self.rates:
            each = ", ".join(f"{self.batch * bound:,.0f}" for bound in (one.low, one.high))
            told = f"  {one.workers} workers: {self.batch * one.rate:,.0f} samples/s [{each}]"
            lines.append(f"{told}, first batch after {one.first_s:.2g} s")
        return "\n".join(lines)


def suggest_workers(
    dataset: Any,
    *,
    batch: int | None = None,
    step_s: float | None = None,
    workers: Sequence[int] | None = None,
    collate: Callable[[list[Any]], Any] | None = None,
    rounds: int = ROUNDS,
) -> Suggestion:
    """Measures a loader with several numbers of workers and says how many to take.

    `dataset` may be a loader. With `step_s`, the seconds of a step, fewest workers that surely keep up with it are
    taken; else the fewest whose rate is not surely below the best. Raises Mistake for data that cannot be indexed.
    """
    from harness.own.job import Job

    source = source_of(Job(dataset=dataset, batch=batch, collate=collate))
    if not isinstance(source.batch, int) or not 0 < source.batch <= len(source.dataset):
        raise Mistake(f"The batch is {source.batch!r} of {len(source.dataset)} items; give batch= of at most as many.")
    if rounds < 2:
        raise Mistake("One round has no interval; give rounds=2 or more.")
    with untouched(source.dataset):
        first_batch(source)
    chosen = tuple(dict.fromkeys(workers)) if workers is not None else usual()
    if not chosen or min(chosen) < 0:
        raise Mistake("Name numbers of workers from 0 on, such as workers=(0, 2, 4).")
    rates = measured(source, chosen, rounds)
    return answer(rates, source.batch, step_s)


def usual() -> tuple[int, ...]:
    """None, one, and doubled up to the usable cores."""
    cores = usable_cores()
    return tuple(dict.fromkeys((0, *(2**power for power in range(1 + int(math.log2(max(1, cores))))), cores)))


def measured(source: Source, numbers: Sequence[int], rounds: int) -> tuple[Rate, ...]:
    """The rate of each number of workers, in turns of a seeded order."""
    order, found = np.random.default_rng(0), {number: list[tuple[float, float]]() for number in numbers}
    for _ in range(rounds):
        for number in order.permutation(np.array(numbers)).tolist():
            with untouched(source.dataset):
                found[number].append(turn(source, number))
    return tuple(_rate(number, turns) for number, turns in found.items())


def turn(source: Source, workers: int) -> tuple[float, float]:
    """Batches a second of a fresh loader beyond those that it has ready, and the seconds until its first."""
    loader = DataLoader(
        source.dataset, batch_size=source.batch, shuffle=True, drop_last=True, num_workers=workers,
        collate_fn=source.collate,
    )  # fmt: skip
    ready, began = 2 * workers, perf_counter()
    taken, start, first_s = 0, began, 0.0
    while True:
        for _ in loader:
            taken += 1
            now = perf_counter()
            first_s = first_s or now - began
            if taken == ready + 1:
                start = now
            timed = taken - ready - 1
            whole = timed % max(1, workers) == 0  # workers finish side by side: part of a group would come for nothing
            if whole and timed >= LEAST_BATCHES and now - start > LEAST_S:
                return timed / (now - start), first_s


def _rate(workers: int, turns: Sequence[tuple[float, float]]) -> Rate:
    """The mean of log rates with Student's interval, rounds as its unit."""
    logs = np.log([rate for rate, _ in turns])
    half = stats.t.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / math.sqrt(len(logs))
    middle = float(logs.mean())
    return Rate(
        workers=workers, rate=math.exp(middle), low=math.exp(middle - half), high=math.exp(middle + half),
        first_s=float(np.median([first for _, first in turns])), rounds=tuple(rate for rate, _ in turns),
    )  # fmt: skip


def _is_surely_faster(one: Rate, other: Rate) -> bool:
    """By rounds, in which both met the same machine: of two rates whose intervals overlap one may well be faster."""
    differences = np.log(one.rounds) - np.log(other.rounds)
    half = stats.t.ppf(0.975, len(differences) - 1) * differences.std(ddof=1) / math.sqrt(len(differences))
    return one is not other and bool(differences.mean() > half)


def answer(rates: Sequence[Rate], batch: int, step_s: float | None) -> Suggestion:
    """The fewest workers that do, by intervals."""
    by_number = sorted(rates, key=lambda one: one.workers)
    best = max(rates, key=lambda one: one.rate)
    if step_s is not None:
        enough = next((one for one in by_number if one.workers and one.low > 1 / step_s), None)
        if enough is not None:
            words = (
                f"the fewest that surely keep up with a step of {1000 * step_s:.3g} ms, if nothing trains beside them"
            )
            return Suggestion(workers=enough.workers, reason=words, batch=batch, rates=tuple(by_number))
    chosen = next(one for one in by_number if not _is_surely_faster(best, one))
    words = f"no other number is surely faster than {batch * chosen.rate:,.0f} samples/s"
    if step_s is not None:
        words += f", though a step of {1000 * step_s:.3g} ms takes more"
    elif chosen.workers == 0:
        words += "; a step that takes turns with it would still wait for every batch"
    return Suggestion(workers=chosen.workers, reason=words, batch=batch, rates=tuple(by_number))
