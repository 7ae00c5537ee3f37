"""The campaign: all blocks of a plan, continued from whatever is recorded, within a time budget."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from harness.core.measurement import Lost, Record
from harness.core.plan import Block, Plan
from harness.plan.outstanding import next_life, outstanding, settled
from harness.run.arm import LiveArm
from harness.run.life import BudgetSpent, Life, Watcher

# Seconds for each arm of a life, until lives of the same workload have told better.
GUESS_S = {"fixed": 5.0, "per_round": 0.3}

Start = Callable[[Block, int, int], LiveArm]  # block, restart, position


@dataclass(slots=True, kw_only=True)
class Campaign:
    """A plan being measured."""

    plan: Plan
    records: list[Record]
    start: Start
    append: Callable[[Record], None]  # to the disk
    watcher: Watcher
    clock: Callable[[], float]
    deadline_s: float | None = None  # on that clock
    arm_s: dict[str, float] = field(default_factory=dict)  # workload -> measured seconds for each arm of a life

    def run(self) -> bool:
        """Measures until nothing is left or the time is up; tells whether nothing is left."""
        try:
            for block in self.plan.blocks:
                self._run_block(block)
        except BudgetSpent:
            return False
        return not self.unfinished()

    def unfinished(self) -> list[tuple[Block, int]]:
        """Blocks and restarts that still need bursts."""
        protocol = self.plan.protocol
        return [
            (block, restart)
            for block in self.plan.blocks
            for restart in range(protocol.restarts)
            if outstanding(block, restart, self.records, protocol)
        ]

    def _run_block(self, block: Block) -> None:
        restarts = range(self.plan.protocol.restarts)
        left = [one for one in restarts if outstanding(block, one, self.records, self.plan.protocol)]
        if left and not self._time_for(block, lives=len(left)):
            return  # a smaller block further on may still fit
        for restart in restarts:
            while rounds := outstanding(block, restart, self.records, self.plan.protocol):
                self._live(block, restart, rounds)

    def _live(self, block: Block, restart: int, rounds: Mapping[int, int]) -> None:
        began_s = self.clock()
        Life(
            block=block,
            restart=restart,
            number=next_life(block, restart, self.records),
            timetable=self.plan.protocol,
            seed=self.plan.seed,
            start=lambda position: self.start(block, restart, position),
            record=self._keep,
            watcher=self.watcher,
            clock=self.clock,
            check_time=self._check_time,
        ).run(rounds)
        self.arm_s[block.reference.workload] = (self.clock() - began_s) / (len(rounds) + 1)

    def _keep(self, record: Record) -> None:
        if isinstance(record, Lost):
            record = settled(record, self.records, self.plan.protocol)
        self.append(record)
        self.records.append(record)

    def _check_time(self) -> None:
        if self.deadline_s is not None and self.clock() > self.deadline_s:
            raise BudgetSpent

    def _time_for(self, block: Block, lives: int) -> bool:
        """Whether all missing lives of a block fit: with a restart missing it would give no estimate."""
        if self.deadline_s is None:
            return True
        arms = len(block.comparisons) + 1
        guess_s = GUESS_S["fixed"] + GUESS_S["per_round"] * self.plan.protocol.rounds
        arm_s = self.arm_s.get(block.reference.workload, guess_s)
        return self.clock() + lives * arms * arm_s <= self.deadline_s
