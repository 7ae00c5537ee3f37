"""The campaign: all blocks of a plan, continued from whatever is recorded, within a time budget."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from harness.core.bracket import alone
from harness.core.measurement import Burst, Lost, Record
from harness.core.plan import Block, Plan
from harness.core.precision import Precisions
from harness.core.protocol import Protocol
from harness.plan.looks import Further, further
from harness.plan.outstanding import by_restart, next_life, outstanding, settled
from harness.run.arm import BudgetSpent, LiveArm
from harness.run.life import Life, Watcher
from harness.run.room import Bytes, NoRoom, Room

# Seconds for each arm of a life, until lives of the same workload have told better.
START_S = 3.0
GUESS_STEPS = 11  # in the life of an arm
USUAL_STEP_S = 0.3
LEAST_S = 1.0  # in less no process starts
UNSEEN = 1.25  # a workload of which nothing is known may take so much longer than those that were seen

Start = Callable[[Block, int, int], LiveArm]  # block, restart, position


def guess_s(protocol: Protocol, step_s: float) -> float:
    """Seconds that an arm of a life is guessed to take."""
    return START_S + protocol.turns_s(step_s) + GUESS_STEPS * step_s


def unknown(_plan: Plan, _records: Sequence[Record]) -> Precisions:
    """Of a plan whose restarts are fixed, nobody asks how widely its comparisons are known."""
    return {}


@dataclass(slots=True, kw_only=True)
class Campaign:
    """A plan being measured: the restarts that all comparisons have, then those that the widest still need."""

    plan: Plan
    records: list[Record]
    start: Start
    append: Callable[[Record], None]  # to the disk
    watcher: Watcher
    clock: Callable[[], float]
    deadline_s: float | None = None  # on that clock
    step_s: Mapping[str, float] = field(default_factory=dict)  # workload -> about a step's seconds, where it is known
    arm_s: dict[str, float] = field(default_factory=dict)  # workload -> measured seconds for each arm of a life
    precisions: Callable[[Plan, Sequence[Record]], Precisions] = unknown  # the analysis, which is not imported here
    free: Callable[[], Bytes] | None = None  # memory of the host, then of the device; None where it has no end
    lives: int = 0  # begun by this campaign
    bursts: int = 0  # recorded by it
    _room: dict[str, int] = field(init=False, default_factory=dict)  # block -> treatments that fitted
    _kept: defaultdict[tuple[str, int], list[Record]] = field(init=False)

    def __post_init__(self) -> None:
        """Sorts what is recorded; raises ValueError where looks are planned and nobody can tell widths."""
        if self.plan.protocol.target is not None and self.precisions is unknown:
            raise ValueError("a plan with a target needs the precisions of its comparisons")
        self._kept = by_restart(self.records)

    def run(self) -> bool:
        """Measures until nothing is left or the time is up; tells whether nothing is left."""
        try:
            self._run_blocks()
            if not self.lives and self._left_s() > LEAST_S:
                self._run_first()
                self._run_blocks()
            while self._run_further():
                pass
        except BudgetSpent:
            return False
        return not self.unfinished()

    def unfinished(self) -> list[tuple[Block, int]]:
        """Blocks and restarts that still need bursts."""
        return [*self._unmeasured(), *((one.block, one.restart) for one in self._further())]

    def _unmeasured(self) -> Iterator[tuple[Block, int]]:
        """What is left of the restarts that all have."""
        for block in self.plan.blocks:
            for restart in range(self.plan.protocol.restarts):
                if self._left(block, restart):
                    yield block, restart

    def _further(self) -> tuple[Further, ...]:
        if self.plan.protocol.target is None:
            return ()
        return further(self.plan, self._kept, self.precisions(self.plan, self.records))

    def _run_blocks(self) -> None:
        for block in self.plan.blocks:
            restarts = range(self.plan.protocol.restarts)
            for restart in restarts:
                taken_on = self._worth_beginning(block, restart, lives=len(restarts) - restart)
                self._measure(block, restart, *taken_on)

    def _run_first(self) -> None:
        """Takes on one treatment although the time seems too short: it may be cheaper than it is guessed to be.

        If it is not, the clock ends it, and the same command continues. Where it is known, time is left to others.
        """
        first = next(self._unmeasured(), None)
        if first is None or first[0].reference.workload in self.arm_s:
            return
        block, begun = first
        position = min(self._left(block, begun))
        for restart in range(begun, self.plan.protocol.restarts):
            self._measure(block, restart, position)

    def _run_further(self) -> bool:
        """Adds the restarts of one look for which the time suffices; tells whether there were any."""
        before = self.lives
        for one in self._further():
            self._measure(one.block, one.restart, *one.positions[: self._beside_reference(one.block, lives=1)])
        return self.lives > before

    def _measure(self, block: Block, restart: int, *taken_on: int) -> None:
        while rounds := {one: count for one, count in self._left(block, restart).items() if one in taken_on}:
            fitting = dict(list(rounds.items())[: self._room.get(block.identity)])
            if fitting:
                self._live(block, restart, fitting)
            else:
                self._in_turn(block, restart, rounds)

    def _worth_beginning(self, block: Block, restart: int, lives: int) -> list[int]:
        """Treatments of a restart for which the time suffices, in this life and those that must follow it.

        A treatment with a restart missing would give no estimate. So fewer are taken on when time is short, and a later
        restart takes on none that the first has not.
        """
        left = self._left(block, restart)
        first = {one.arm.position for one in self._kept.get((block.identity, 0), [])}
        wanted = [one for one in sorted(left) if restart == 0 or one in first]
        return wanted[: self._treatments_in_time(block, lives)]

    def _left(self, block: Block, restart: int) -> dict[int, int]:
        return outstanding(block, restart, self._kept.get((block.identity, restart), []), self.plan.protocol)

    def _live(self, block: Block, restart: int, rounds: Mapping[int, int]) -> None:
        began_s, life = self.clock(), self._life(block, restart)
        try:
            life.run(rounds)
        except NoRoom:
            self._room[block.identity] = 0
            return
        except BudgetSpent:
            # An arm takes at least as long as those that were broken off: whoever goes on must not guess less.
            so_far_s = (self.clock() - began_s) / (len(rounds) + 1)
            if so_far_s > self._arm_s(block.reference.workload):
                self.arm_s[block.reference.workload] = so_far_s
            raise
        if life.put_off:
            self._room[block.identity] = len(rounds) - len(life.put_off)
        self.arm_s[block.reference.workload] = (self.clock() - began_s) / (len(rounds) - len(life.put_off) + 1)

    def _in_turn(self, block: Block, restart: int, rounds: Mapping[int, int]) -> None:
        """One arm after another, each alive alone, in the opposite order in every second restart."""
        for position in sorted({0, *rounds}, reverse=restart % 2 == 1):
            began_s, same = self.clock(), self._kept.get((block.identity, restart), [])
            done = len(alone((one for one in same if isinstance(one, Burst)), position))
            if (count := (block.rounds or self.plan.protocol.rounds) - done) > 0 and self._left(block, restart):
                self._life(block, restart).alone(position, count)
                self.arm_s[block.reference.workload] = self.clock() - began_s

    def _life(self, block: Block, restart: int) -> Life:
        self.lives += 1
        return Life(
            block=block,
            restart=restart,
            number=next_life(block, restart, self._kept.get((block.identity, restart), [])),
            timetable=self.plan.protocol,
            seed=self.plan.seed,
            start=lambda position: self.start(block, restart, position),
            record=self._keep,
            watcher=self.watcher,
            clock=self.clock,
            check_time=self._check_time,
            room=Room(free=self.free) if self.free else None,
        )

    def _keep(self, record: Record) -> None:
        same = self._kept[record.arm.block, record.arm.restart]
        if isinstance(record, Lost):
            record = settled(record, same, self.plan.protocol)
        self.append(record)
        self.bursts += isinstance(record, Burst)
        self.records.append(record)
        same.append(record)

    def _check_time(self) -> None:
        if self._left_s() < 0:
            raise BudgetSpent

    def _left_s(self) -> float:
        return math.inf if self.deadline_s is None else self.deadline_s - self.clock()

    def _treatments_in_time(self, block: Block, lives: int) -> int:
        """How many treatments can get all their missing restarts before the time is up."""
        if self.deadline_s is None:
            return len(block.comparisons)
        workload = block.reference.workload
        # Workloads that nothing is known of yet keep a share of what is left that buys them as many arms.
        waiting = {one.reference.workload for one in self.plan.blocks} - self._begun() - {workload}
        arm_s = self._arm_s(workload)
        share = arm_s / (arm_s + sum(self._arm_s(one) for one in waiting))
        fair = int(self._left_s() * share / (lives * arm_s)) - 1
        return max(0, fair, min(1, self._beside_reference(block, lives)))

    def _beside_reference(self, block: Block, lives: int) -> int:
        """How many treatments the whole time that is left would buy so many lives of, with their reference."""
        if self.deadline_s is None:
            return len(block.comparisons)
        return max(0, int(self._left_s() / (lives * self._arm_s(block.reference.workload))) - 1)

    def _arm_s(self, workload: str) -> float:
        """Seconds for each arm of a life: as measured, or a guess that is as far off as those before it were."""
        if workload in self.arm_s:
            return self.arm_s[workload]
        off = [seconds / self._guess_s(name) for name, seconds in self.arm_s.items()]
        return self._guess_s(workload) * (sum(off) / len(off) if off else UNSEEN)

    def _guess_s(self, workload: str) -> float:
        step_s = self.step_s.get(workload) or USUAL_STEP_S
        return guess_s(self.plan.protocol, step_s)

    def _begun(self) -> set[str]:
        workloads = {block.identity: block.reference.workload for block in self.plan.blocks}
        return {workloads[block] for (block, _), kept in self._kept.items() if kept}
