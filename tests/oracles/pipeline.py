"""The truth by construction: how long batches take in a training whose stages are known.

A loader without workers and the step take turns. Workers load side by side: batch k goes to worker k mod n, is asked
for when batch k - n * prefetch is taken, and batches are taken in their order. Everything is added up event by event.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from tests.oracles.stages import Stages

CYCLES = 24  # epochs of each worker, the second half of which counts: then the queue is steady, and groups are whole
SHUFFLED_CYCLES = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Loader:
    """The options of a recipe that decide how batches come."""

    workers: int = 0
    prefetch: int = 2
    passes: int = 1  # micro-batches of a step
    shuffled: bool = False  # batches come in another order in every epoch


def seconds_per_sample(stages: Stages, loader: Loader) -> float:
    """Mean seconds over whole epochs, in the long run."""
    cycles = SHUFFLED_CYCLES if loader.shuffled else CYCLES
    count = cycles * max(1, loader.workers) * stages.epoch_steps * loader.passes
    ends = _alone(stages, loader, count) if loader.workers == 0 else _ahead(stages, loader, count)
    half = ends[count // 2 - 1]
    return (ends[-1] - half) / ((count - count // 2) * stages.batch / loader.passes)


def _alone(stages: Stages, loader: Loader, count: int) -> list[float]:
    ends, clock = [], 0.0
    for number, fetch in enumerate(_order(stages, loader, count)):
        clock += _load_s(stages, fetch, loader) + stages.pass_s(fetch // loader.passes) + _stall_s(stages, number)
        ends.append(clock)
    return ends


def _ahead(stages: Stages, loader: Loader, count: int) -> list[float]:
    in_flight = loader.workers * loader.prefetch
    taken: list[float] = []
    ends: list[float] = []
    free = [0.0] * loader.workers
    clock = 0.0
    for number, fetch in enumerate(_order(stages, loader, count)):
        worker = number % loader.workers
        asked = taken[number - in_flight] if number >= in_flight else 0.0
        begun = max(asked, free[worker])
        free[worker] = begun + _load_s(stages, fetch, loader)
        clock = max(clock, free[worker])
        taken.append(clock)
        clock += stages.pass_s(fetch // loader.passes) + _stall_s(stages, number)
        ends.append(clock)
    return ends


def _order(stages: Stages, loader: Loader, count: int) -> Iterator[int]:
    """The place of every fetch in an epoch, epoch by epoch."""
    chance, places = Random(0), list(range(stages.epoch_steps * loader.passes))
    for _ in range(count // len(places)):
        if loader.shuffled:
            chance.shuffle(places)
        yield from places


def _load_s(stages: Stages, number: int, loader: Loader) -> float:
    """Seconds of loading one fetch: a batch, or a part of one that is taken in several passes."""
    items = stages.batch // loader.passes
    is_kept = not stages.keeps or (stages.stays and number < stages.keeps)  # when it comes round again
    again_s = 0.0 if is_kept else stages.unread_s
    return again_s + sum(stages.item_s(number * items + item) for item in range(items))


def _stall_s(stages: Stages, number: int) -> float:
    every = stages.step_stall_every
    return stages.step_stall_s if every and (number + 1) % every == stages.step_stall_phase else 0.0
