"""A life: the processes of one block alive together, one of them running at a time."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from harness.core.fault import Fault
from harness.core.measurement import Arm, Burst, Lost, Ready, Record
from harness.core.mistake import Mistake
from harness.core.plain import decode, encode
from harness.core.plan import Block
from harness.core.protocol import Protocol as Timetable
from harness.plan.schedule import order_of_bursts
from harness.run.arm import ArmLost, LiveArm
from harness.run.room import NoRoom, Room


class Watcher(Protocol):
    """Is told what happens, to show it."""

    def life_begins(self, block: Block, restart: int, rounds: Mapping[int, int]) -> None:
        """A block's processes start."""

    def arm_begins(self, block: Block, position: int) -> None:
        """An arm is built and warmed up."""

    def recorded(self, block: Block, record: Record) -> None:
        """A record is safe on the disk."""


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
    room: Room | None = None  # where memory may not hold all arms
    arms: dict[int, LiveArm] = field(default_factory=dict)
    put_off: list[int] = field(default_factory=list)  # treatments for which there was no room

    def run(self, rounds: Mapping[int, int]) -> None:
        """Measures what is left for each treatment for which there is room; returns early when the reference is lost.

        Raises NoRoom when not even one treatment finds room beside the reference.
        """
        self.watcher.life_begins(self.block, self.restart, rounds)
        random = Random(f"{self.seed} {self.block.identity} {self.restart} {self.number}")
        # Where in memory and on which core a process settles depends on who settled before it. In another order in
        # every life, that is part of what differs between restarts and is seen in the interval.
        positions = random.sample([0, *rounds], len(rounds) + 1)
        with ExitStack() as closing:
            self._start_all(positions, closing)
            self._begin_all([one for one in positions if one in self.arms])
            if 0 in self.arms:
                self._alternate({one: count for one, count in rounds.items() if one in self.arms}, random)

    def alone(self, position: int, count: int) -> None:
        """Times so many bursts of one arm that has nobody beside it."""
        self.watcher.life_begins(self.block, self.restart, {position: count} if position else {})
        random = Random(f"{self.seed} {self.block.identity} {self.restart} {self.number}")
        with ExitStack() as closing:
            self._start_all([position], closing)
            if position in self.arms:
                self._begin(position)
            began_s = self.clock()
            for order in range(self.timetable.discarded_rounds + count):
                if position not in self.arms:
                    return
                self.check_time()
                self._burst(position, order, began_s, random, keep=order >= self.timetable.discarded_rounds)

    def _begin_all(self, waiting: list[int]) -> None:
        """Begins one arm after another while there is room; the rest is left for another life."""
        while waiting and (self.room is None or self.room.fits(1)):
            last = self.room is not None and not self.room.fits(2)
            position = 0 if last and 0 in waiting else waiting[0]
            waiting.remove(position)
            self._begin(position)
        for position in waiting:
            self.arms.pop(position).close()
        self.put_off = [position for position in waiting if position]
        if waiting and (0 in waiting or set(self.arms) == {0}):
            raise NoRoom

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
        if self.room is not None:
            self.room.begins()
        try:
            ready = self.arms[position].begin()
        except ArmLost as lost:
            self._lose(position, lost)
            return
        if self.room is not None:
            self.room.begun()
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
        # A jittered length keeps bursts from falling into step with whatever else disturbs the machine regularly.
        target_s = self.timetable.burst_s * random.uniform(0.8, 1.2)
        try:
            burst = self.arms[position].burst(target_s)
        except ArmLost as lost:
            self._lose(position, lost)
            return
        if keep:
            # Steps that lead in, and bursts that the arm threw away, come before what was timed.
            at_s = max(0.0, self.clock() - began_s - burst["wall_s"])
            self._keep(Burst(arm=self._name(position), order=order, began_s=at_s, **burst))

    def _lose(self, position: int, lost: ArmLost) -> None:
        name = self._name(position)
        self._keep(Lost(arm=name, outcome=lost.outcome, reason=lost.reason, trace=lost.trace, kind=lost.kind))
        self.arms.pop(position).close()
        if lost.kind is Fault.DEVICE_LOST:  # every other arm would be lost to it too, and none by its own fault
            raise Mistake(f"{lost.reason}; what was measured is kept, and the same command continues.")

    def _keep(self, record: Record) -> None:
        # An arm answers in plain data. What goes on from here must be what will be read again from the disk.
        record = decode(type(record), encode(record))
        self.record(record)
        self.watcher.recorded(self.block, record)

    def _name(self, position: int) -> Arm:
        return Arm(block=self.block.identity, restart=self.restart, life=self.number, position=position)
