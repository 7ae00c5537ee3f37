"""Stage times that are told to a workload, and the batches to which they belong.

Nothing here needs torch: what a batch costs is decided by its place in the epoch alone.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from random import Random
from typing import Any, Literal

from harness.core.workload import Parts, Size, Workload

VARIABLE = "SPEEDMATRIX_ORACLE"  # environment variable: JSON of Told
Kind = Literal["sleep", "compute"]
Pattern = Literal["equal", "ragged", "halves", "every_other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """What the loader and the step of one arm do. Durations in seconds, of a batch where nothing else is said."""

    batch: int = 4
    epoch_steps: int = (
        15  # shares no divisor with loader workers: else each of them would load the same batches for ever
    )
    load_s: float = 0.0
    load: Kind = "sleep"  # computing is counted in CPU time of the thread, so that company shows
    slices: int = 4  # a batch is loaded in so many parts: a pause can end one sleep, not all of them
    load_pattern: Pattern = "equal"
    stall_every: int = 0  # batches of the epoch: the first of so many has one slow item
    stall_s: float = 0.0
    late_s: float = 0.0  # in the first load of every process: files are opened
    first_loads: int = 0  # of every process, which take `first_load_s` each beyond the rest
    first_load_s: float = 0.0
    unread_s: float = 0.0  # beyond the rest where the process has not loaded this batch before: it keeps what it read,
    keeps: int = 0  # so many batches of it, those that it loaded last, fewer than an epoch has; 0: all
    stays: bool = False  # whether those are the ones that it loaded first
    step_s: float = 0.0
    step: Kind = "sleep"
    step_pattern: Pattern = "equal"
    step_stall_every: int = 0  # steps of the process, whatever their samples, as a checkpoint or a collection
    step_stall_s: float = 0.0
    step_stall_phase: int = 0
    warm_steps: int = 0  # of the process, which take up to `warm_s` longer, falling to nothing
    warm_s: float = 0.0
    idle_s: float = 0.0  # where a step begins so long after the last one ended,
    cold_steps: int = 0  # so many steps from there on
    cold_s: float = 0.0  # take so much longer
    evaluation_s: float = 0.0  # of an evaluation between two epochs; one that ends a training takes twice as long
    swing: float = 0.0  # everything takes up to so much longer or shorter, by the machine's clock
    swing_period_s: float = 1.0
    process_spread: float = 0.0  # standard deviation of the log of a process's own pace
    ahead: int = 0  # batches that a thread of the data set loads before they are asked for
    server: int = 0  # batches that a process outside the arm's group holds ready
    helpers: int = 0  # processes that the arm keeps, each with 20 MB
    heap: int = 0  # lists that the model holds
    objects: int = 0  # that a batch consists of while it is loaded: many grow old before they are dropped
    collect_every: int = 0  # steps after which Python's collector goes through the heap of the process
    operators: int = 0  # of PyTorch in every step, beyond its time, whose work is divided among PyTorch's threads
    threads: int = 0  # that every step gives PyTorch, whatever the recipe says, and leaves to whoever comes next
    false_clock: bool = False  # the time of day runs at twice its pace
    copy: int = 0  # tells copies apart; nothing reads it

    @property
    def samples(self) -> int:
        """Samples of an epoch."""
        return self.batch * self.epoch_steps

    def item_s(self, rank: int) -> float:
        """Seconds of loading the item at that place of the epoch."""
        position, within = divmod(rank % self.samples, self.batch)
        stalls = self.stall_every and position % self.stall_every == 0 and within == 0
        return self.load_s / self.batch * self._weight(self.load_pattern, position) + (self.stall_s if stalls else 0.0)

    def batch_s(self, position: int) -> float:
        """Seconds of loading the batch at that place of the epoch."""
        first = position % self.epoch_steps * self.batch
        return sum(self.item_s(rank) for rank in range(first, first + self.batch))

    def pass_s(self, position: int) -> float:
        """Seconds of a forward and backward pass over the batch at that place."""
        return self.step_s * self.step_weight(position)

    def step_weight(self, position: int) -> float:
        """By how much the batch at that place takes longer than the mean in a step."""
        return self._weight(self.step_pattern, position)

    def _weight(self, pattern: Pattern, position: int) -> float:
        position %= self.epoch_steps
        if pattern == "halves":
            return 0.4 if position < self.epoch_steps // 2 else 1.6
        if pattern == "ragged":
            return _ragged(self.epoch_steps)[position]
        if pattern == "every_other":
            return _every_other(self.epoch_steps)[position]
        return 1.0


@cache
def _ragged(count: int) -> tuple[float, ...]:
    """Weights from a seventh to several times the mean, without order, with the mean 1."""
    drawn = [0.15 + 4 * ((0.5 + 0.618034 * (one + 1)) % 1.0) ** 4 for one in range(count)]
    return tuple(one * count / sum(drawn) for one in drawn)


@cache
def _every_other(count: int) -> tuple[float, ...]:
    """Half or all of some weight, with the mean 1: of four dear batches, three lie at even places."""
    chance = Random(0)
    drawn = [2 if chance.random() < (0.25 if one % 2 else 0.75) else 1 for one in range(count)]
    return tuple(one * count / sum(drawn) for one in drawn)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The stages of every variant by name; the arm's recipe says which one it is."""

    variants: Mapping[str, Stages]

    def to_json(self) -> str:
        """For the environment."""
        return json.dumps({"variants": {name: asdict(one) for name, one in self.variants.items()}})


PLAIN = "baseline"


def read_told() -> Told:
    """What the environment tells, or nothing but an instant workload."""
    if VARIABLE not in os.environ:
        return Told(variants={PLAIN: Stages()})
    data: dict[str, Any] = json.loads(os.environ[VARIABLE])
    return Told(variants={name: Stages(**fields) for name, fields in data["variants"].items()})


def changed(stages: Stages, **fields: Any) -> Stages:
    """The same stages but for some fields."""
    return replace(stages, **fields)


def slower(stages: Stages, times: float) -> Stages:
    """The same stages on a machine that takes so many times as long for everything."""
    return replace(stages, **{name: times * value for name, value in asdict(stages).items() if name.endswith("_s")})


def workload_of(plain: Stages, parts: Callable[[], Parts], path: str | None = None) -> Workload:
    """The workload whose plain steps have these stages."""
    size = Size(
        batch=plain.batch,
        epoch_steps=plain.epoch_steps,
        evaluation_items=1,
        data_bytes=0,
        shape={},
        original_epoch_steps=plain.epoch_steps,
        step_s=plain.step_s + plain.load_s,
    )
    return Workload(
        name="oracle",
        title="Known times",
        origin="invented",
        parameters=2,
        traits=frozenset(),
        own={"variant": PLAIN, "scored": 2},
        sizes={"quick": size},
        parts=parts,
        path=path,
    )
