"""The campaign: all blocks of a plan, continued from whatever is recorded, within a time budget."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from harness.core.measurement import Lost, Record
from harness.core.plan import Block, Plan
from harness.plan.outstanding import next_life, outstanding, settled
from harness.run.arm import LiveArm
from harness.run.life import BudgetSpent, Life, Watcher

# Seconds for each arm of a life, until lives of the same workload have told better.
GUESS_S = {"fixed": 3.0, "per_round": 0.4}
GUESS_STEPS = 11  # in the life of an arm
USUAL_STEP_S = 0.3
UNSEEN = 1.25  # a workload of which nothing is known may take so much longer than those that were seen

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
    step_s: Mapping[str, float] = field(default_factory=dict)  # workload -> about a step's seconds, where it is known
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
        return [
            (block, restart)
            for block in self.plan.blocks
            for restart in range(self.plan.protocol.restarts)
            if self._left(block, restart)
        ]

    def _run_block(self, block: Block) -> None:
        restarts = range(self.plan.protocol.restarts)
        for restart in restarts:
            taken_on = self._worth_beginning(block, restart, lives=len(restarts) - restart)
            while rounds := {one: count for one, count in self._left(block, restart).items() if one in taken_on}:
                self._live(block, restart, rounds)

    def _worth_beginning(self, block: Block, restart: int, lives: int) -> list[int]:
        """Treatments of a restart for which the time suffices, in this life and those that must follow it.

        A treatment with a restart missing would give no estimate. So fewer are taken on when time is short, and a later
        restart takes on none that the first has not.
        """
        left = self._left(block, restart)
        first = {one.arm.position for one in self.records if one.arm.block == block.identity and one.arm.restart == 0}
        wanted = [one for one in sorted(left) if restart == 0 or one in first]
        return wanted[: self._treatments_in_time(block, lives)]

    def _left(self, block: Block, restart: int) -> dict[int, int]:
        return outstanding(block, restart, self.records, self.plan.protocol)

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

    def _treatments_in_time(self, block: Block, lives: int) -> int:
        """How many treatments can get all their missing restarts before the time is up."""
        if self.deadline_s is None:
            return len(block.comparisons)
        workload = block.reference.workload
        # Workloads that nothing is known of yet keep a share of what is left that buys them as many arms.
        waiting = {one.reference.workload for one in self.plan.blocks} - self._begun() - {workload}
        arm_s, left_s = self._arm_s(workload), self.deadline_s - self.clock()
        share = arm_s / (arm_s + sum(self._arm_s(one) for one in waiting))
        fair = int(left_s * share / (lives * arm_s)) - 1
        possible = int(left_s / (lives * arm_s)) - 1
        return max(0, fair, min(1, possible))

    def _arm_s(self, workload: str) -> float:
        """Seconds for each arm of a life: as measured, or a guess that is as far off as those before it were."""
        if workload in self.arm_s:
            return self.arm_s[workload]
        off = [seconds / self._guess_s(name) for name, seconds in self.arm_s.items()]
        return self._guess_s(workload) * (sum(off) / len(off) if off else UNSEEN)

    def _guess_s(self, workload: str) -> float:
        step_s = self.step_s.get(workload) or USUAL_STEP_S
        return GUESS_S["fixed"] + GUESS_S["per_round"] * self.plan.protocol.rounds + GUESS_STEPS * step_s

    def _begun(self) -> set[str]:
        workloads = {block.identity: block.reference.workload for block in self.plan.blocks}
        return {workloads[record.arm.block] for record in self.records}
