"""A life: the processes of one block alive together, one of them running at a time."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from harness.core.measurement import Arm, Burst, Lost, Ready, Record
from harness.core.plan import Block
from harness.core.protocol import Protocol as Timetable
from harness.plan.schedule import order_of_bursts
from harness.run.arm import ArmLost, LiveArm


class Watcher(Protocol):
    """Is told what happens, to show it."""

    def life_begins(self, block: Block, restart: int, rounds: Mapping[int, int]) -> None:
        """A block's processes start."""

    def arm_begins(self, block: Block, position: int) -> None:
        """An arm is built and warmed up."""

    def recorded(self, block: Block, record: Record) -> None:
        """A record is safe on the disk."""


class BudgetSpent(Exception):
    """The time is up; what was measured is kept."""


@dataclass(slots=True, kw_only=True)
class Life:
    """One life and what it needs from outside."""

    block: Block
    restart: int
    number: int
    timetable: Timetable
    seed: int
    start: Callable[[int], LiveArm]  # position -> a process that is starting
    record: Callable[[Record], None]
    watcher: Watcher
    clock: Callable[[], float]
    check_time: Callable[[], None]  # raises BudgetSpent
    arms: dict[int, LiveArm] = field(default_factory=dict)

    def run(self, rounds: Mapping[int, int]) -> None:
        """Measures what is left for each treatment; returns early when the reference is lost."""
        self.watcher.life_begins(self.block, self.restart, rounds)
        random = Random(f"{self.seed} {self.block.identity} {self.restart} {self.number}")
        # Where in memory and on which core a process settles depends on who settled before it. In another order in
        # every life, that is part of what differs between restarts and is seen in the interval.
        positions = random.sample([0, *rounds], len(rounds) + 1)
        with ExitStack() as closing:
            self._start_all(positions, closing)
            for position in [one for one in positions if one in self.arms]:
                self._begin(position)
            if 0 in self.arms:
                self._alternate({one: count for one, count in rounds.items() if one in self.arms}, random)

    def _start_all(self, positions: list[int], closing: ExitStack) -> None:
        for position in positions:
            self.arms[position] = self.start(position)
            closing.callback(self.arms[position].close)
        for position in positions:
            try:
                self.arms[position].arrive()
            except ArmLost as lost:
                self._lose(position, lost)

    def _begin(self, position: int) -> None:
        self.check_time()
        self.watcher.arm_begins(self.block, position)
        try:
            ready = self.arms[position].begin()
        except ArmLost as lost:
            self._lose(position, lost)
            return
        self._keep(Ready(arm=self._name(position), **ready))

    def _alternate(self, rounds: Mapping[int, int], random: Random) -> None:
        began_s = self.clock()
        discarded = order_of_bursts(dict.fromkeys(rounds, self.timetable.discarded_rounds), random)[1:]
        kept = order_of_bursts(rounds, random)
        for order, position in enumerate((*discarded, *kept)):
            if 0 not in self.arms or len(self.arms) == 1:
                return
            if position == 0:
                self.check_time()
            if position in self.arms:
                self._burst(position, order, began_s, random, keep=order >= len(discarded))

    def _burst(self, position: int, order: int, began_s: float, random: Random, *, keep: bool) -> None:
        at_s = self.clock() - began_s
        # A jittered length keeps bursts from falling into step with whatever else disturbs the machine regularly.
        target_s = self.timetable.burst_s * random.uniform(0.8, 1.2)
        try:
            burst = self.arms[position].burst(target_s)
        except ArmLost as lost:
            self._lose(position, lost)
            return
        if keep:
            self._keep(Burst(arm=self._name(position), order=order, began_s=at_s, **burst))

    def _lose(self, position: int, lost: ArmLost) -> None:
        self._keep(Lost(arm=self._name(position), outcome=lost.outcome, reason=lost.reason, trace=lost.trace))
        self.arms.pop(position).close()

    def _keep(self, record: Record) -> None:
        self.record(record)
        self.watcher.recorded(self.block, record)

    def _name(self, position: int) -> Arm:
        return Arm(block=self.block.identity, restart=self.restart, life=self.number, position=position)
