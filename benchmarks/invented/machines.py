"""Invented machines and workloads: what disturbs every arm, whatever it is, and steps that cost unlike.

A machine disturbs all arms alike, so a ratio that was put in is the true one at every moment. What the steps of a
workload wait for takes the same seconds in every arm, and the ratio that was put in is that of expected totals.
"""

import math
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy import signal

from benchmarks.invented.rehearsal import REPLICATE_NOISE, Delays, Waits

Array = NDArray[np.float64]

GRID_S = 0.1  # within which a disturbance stays as it is
STRETCH = 6000  # points of the grid that are invented at a time
DELAYS = Delays(imports_s=5.0, warm_up_s=10.0, resume_s=0.3)
SPIKE = 0.7  # log of how much slower a spoilt tenth of a second is


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A wandering of log time that returns to zero: an Ornstein-Uhlenbeck process."""

    deviation: float
    memory_s: float

    def __str__(self) -> str:
        return f"wanders by {100 * self.deviation:g} % (standard deviation) with a memory of {self.memory_s:g} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """Somebody else's load that comes and goes; its times are exponential with these means."""

    on_s: float
    off_s: float
    slower: float  # log time, while it is there

    def __str__(self) -> str:
        times = f"for {self.on_s:g} s and goes for {self.off_s:g} s in the mean (exponential times)"
        return f"a neighbour comes {times}, and costs {100 * math.expm1(self.slower):.0f} % while it is there"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rare:
    """A step that waits now and then, whichever it is: an object that comes late, a collection of garbage."""

    every: int  # steps in the mean
    wait: float  # in usual steps

    def __str__(self) -> str:
        return f"one step in {self.every}, at random, waits for as long as {self.wait:g} usual steps take"

    @property
    def mean(self) -> float:
        """Of all steps."""
        return self.wait / self.every

    def waits(self, generator: Generator) -> Waits:
        """Of one arm."""
        return lambda _first, steps: _listed(self.wait * (generator.random(steps) < 1 / self.every))


@dataclass(frozen=True, slots=True, kw_only=True)
class Periodic:
    """A step at a fixed place that waits, such as one with a checkpoint; in all arms it is the same one."""

    every: int
    wait: float

    def __str__(self) -> str:
        place = f"every {self.every}th step, at a fixed place in the epoch,"
        return f"{place} waits for as long as {self.wait:g} usual steps take"

    @property
    def mean(self) -> float:
        """Of all steps."""
        return self.wait / self.every

    def waits(self, _: Generator) -> Waits:
        """Of one arm."""
        return lambda first, steps: _listed(self.wait * (np.arange(first, first + steps) % self.every == 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoSpeeds:
    """Steps that wait and steps that do not, in runs, such as samples from two kinds of files."""

    share: float  # of the steps that wait
    wait: float
    run: float  # of them, in a row, in the mean

    def __str__(self) -> str:
        return (
            f"{100 * self.share:g} % of all steps, {self.run:g} in a row in the mean, wait for as long as "
            f"{self.wait:g} usual steps take"
        )

    @property
    def mean(self) -> float:
        """Of all steps."""
        return self.share * self.wait

    def waits(self, generator: Generator) -> Waits:
        """Of one arm: runs have no memory, so that between windows only who is in one needs to be known."""
        ends = (1 / (self.run * (1 - self.share) / self.share), 1 / self.run)  # of a run of usual steps, of slow ones
        slow = bool(generator.random() < self.share)

        def drawn(_first: int, steps: int) -> list[float]:
            nonlocal slow
            found: list[float] = []
            while len(found) < steps:
                length = min(int(generator.geometric(ends[slow])), steps - len(found) + 1)
                found += [self.wait * slow] * length
                slow ^= len(found) <= steps
            return found[:steps]

        return drawn


@dataclass(frozen=True, slots=True, kw_only=True)
class HeavyTail:
    """Waits without a usual size: a few take much of the time, and none stays the longest for long."""

    mean: float
    power: float  # with which the tail falls; above 2 the variance is finite

    def __str__(self) -> str:
        return (
            f"every step waits, in the mean for as long as {self.mean:g} usual steps take, by a Pareto law whose tail "
            f"falls with the power {self.power:g}"
        )

    def waits(self, generator: Generator) -> Waits:
        """Of one arm."""
        return lambda _first, steps: _listed(self.mean * (self.power - 1) * generator.pareto(self.power, steps))


def _listed(array: NDArray[Any]) -> list[float]:
    return [float(one) for one in array]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What disturbs a machine, and what steps cost there."""

    name: str
    drifts: tuple[Drift, ...]
    workload: Rare | Periodic | TwoSpeeds | HeavyTail | None = None
    neighbour: Neighbour | None = None
    spikes: float = 0.0  # share of moments that are spoilt
    heat: float = 0.0  # log time that a hot machine loses
    heating_s: float = 120.0  # time constant of getting hot at work, and of cooling down without
    luck: float = REPLICATE_NOISE  # standard deviation of log time by which processes differ for life

    def __str__(self) -> str:
        told = [f"time for a step {drift}" for drift in self.drifts]
        if self.heat:
            told.append(
                f"heat costs up to {100 * math.expm1(self.heat):.0f} %, gained at work and lost without, "
                f"with a time constant of {self.heating_s:g} s"
            )
        if self.neighbour:
            told.append(str(self.neighbour))
        if self.spikes:
            told.append(f"{100 * self.spikes:g} % of all tenths of a second take {math.exp(SPIKE):.1f} times as long")
        if self.workload:
            told.append(str(self.workload))
        return "; ".join(told)


RESTLESS = Drift(deviation=0.02, memory_s=0.15)  # steps differ, and neighbouring ones are alike
WORLDS = (
    World(name="quiet GPU", drifts=(RESTLESS,)),
    World(name="thermal ramp and drift", drifts=(RESTLESS, Drift(deviation=0.015, memory_s=200.0)), heat=0.06),
    World(
        name="neighbour 40 s on, 80 s off",
        drifts=(RESTLESS,),
        neighbour=Neighbour(on_s=40.0, off_s=80.0, slower=0.26),
    ),
    World(
        name="shared 2-core",
        drifts=(RESTLESS, Drift(deviation=0.03, memory_s=60.0)),
        neighbour=Neighbour(on_s=5.0, off_s=10.0, slower=0.22),
        spikes=0.01,
    ),
    World(name="rare long stalls", drifts=(RESTLESS,), workload=Rare(every=500, wait=60.0)),
    World(name="periodic stalls", drifts=(RESTLESS,), workload=Periodic(every=40, wait=20.0)),
    World(name="steps of two speeds", drifts=(RESTLESS,), workload=TwoSpeeds(share=0.3, wait=1.0, run=8.0)),
    World(name="heavy tail", drifts=(RESTLESS,), workload=HeavyTail(mean=0.4, power=2.5)),
)


@dataclass(slots=True, kw_only=True)
class Machine:
    """A machine of one world, cold and idle at first; its disturbances are invented as time passes."""

    world: World
    generator: np.random.Generator
    _slowness: Array = field(default_factory=lambda: np.empty(0))  # log time, on the grid from `_first` on
    _first: int = 0
    _levels: list[float] = field(default_factory=list)  # where each drift stands at the end of that
    _beside: bool | None = None  # whether the neighbour is there then
    _heat: float = 0.0  # from 0, cold, to 1
    _worked_until_s: float = 0.0

    def slowed(self, work_s: float, now_s: float, _: Random) -> float:
        """Seconds that undisturbed `work_s` take from `now_s` on; moments must not go backwards."""
        cooled = self._heat * math.exp(-(now_s - self._worked_until_s) / self.world.heating_s)
        span_s = 1.5 * work_s + 1.0
        while True:
            edges, rates = self._ahead(now_s, span_s, cooled)
            done = np.cumsum(np.diff(edges) * rates)
            if done[-1] >= work_s:
                break
            span_s *= 2
        last = int(np.searchsorted(done, work_s))
        wall_s = float(edges[last + 1] - (done[last] - work_s) / rates[last]) - now_s
        self._heat = 1 - (1 - cooled) * math.exp(-wall_s / self.world.heating_s)
        self._worked_until_s = now_s + wall_s
        return wall_s

    def _ahead(self, now_s: float, span_s: float, cooled: float) -> tuple[Array, Array]:
        """Edges of the grid from now on, and how fast work goes between them."""
        first = int(now_s / GRID_S)
        points = int(span_s / GRID_S) + 1
        self._invent(first, first + points)
        edges = GRID_S * np.arange(first, first + points + 1, dtype=np.float64)
        edges[0] = now_s
        heat = 1 - (1 - cooled) * np.exp((now_s - edges[:-1]) / self.world.heating_s)
        slowness = self._slowness[first - self._first : first - self._first + points]
        return edges, np.asarray(np.exp(-slowness - self.world.heat * heat), dtype=np.float64)

    def _invent(self, first: int, end: int) -> None:
        while self._first + len(self._slowness) < end:
            known = self._slowness[max(0, first - self._first) :]
            self._first += len(self._slowness) - len(known)
            self._slowness = np.concatenate([known, self._stretch()])

    def _stretch(self) -> Array:
        slowness = self._drifts() + self._neighbour()
        return slowness + SPIKE * (self.generator.random(STRETCH) < self.world.spikes)

    def _drifts(self) -> Array:
        if not self._levels:
            self._levels = [float(self.generator.normal(0.0, one.deviation)) for one in self.world.drifts]
        total = np.zeros(STRETCH)
        for index, drift in enumerate(self.world.drifts):
            kept = math.exp(-GRID_S / drift.memory_s)
            pushes = self.generator.normal(0.0, drift.deviation * math.sqrt(1 - kept**2), STRETCH)
            path, _ = signal.lfilter([1.0], [1.0, -kept], pushes, zi=[kept * self._levels[index]])
            self._levels[index] = float(path[-1])
            total += path
        return total

    def _neighbour(self) -> Array:
        neighbour = self.world.neighbour
        if neighbour is None:
            return np.zeros(STRETCH)
        if self._beside is None:
            share = neighbour.on_s / (neighbour.on_s + neighbour.off_s)
            self._beside = bool(self.generator.random() < share)
        # An exponential time has no memory, so at the end of a stretch only who is there needs to be known.
        means = (neighbour.on_s, neighbour.off_s) if self._beside else (neighbour.off_s, neighbour.on_s)
        turns = int(2 * STRETCH * GRID_S / sum(means)) + 50
        changes = np.cumsum(self.generator.exponential(1.0, 2 * turns) * np.tile(means, turns))
        changed = np.searchsorted(changes, np.arange(1, STRETCH + 1) * GRID_S) % 2 == 1
        there = changed != self._beside
        self._beside = bool(there[-1])
        return np.asarray(neighbour.slower * there, dtype=np.float64)
