"""The campaign: all blocks of a plan, continued from whatever is recorded, within a time budget."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from harness.core.optimization import PARTS_OF_A_STEP, Timing
from harness.core.plan import Block, Plan
from harness.core.protocol import FEWEST_REPLICATES
from harness.core.records import Lost, Place, Precisions, Ready, Record, Window, is_apart
from harness.plan.cost import USUAL, Forecast, Pace
from harness.plan.schedule import (
    Further,
    by_replicate,
    failures,
    forget_what_was_shared,
    further,
    leads_seen,
    next_attempt,
    outstanding,
    settled,
)
from harness.run.arm import BudgetSpent, LiveArm
from harness.run.replicate import Attempt, Bytes, NoRoom, Room
from harness.run.watching import Watcher

Start = Callable[[Block, int, int], LiveArm]  # block, replicate, position


def unknown(_plan: Plan, _records: Sequence[Record]) -> Precisions:
    """Of a plan whose replicates are fixed, nobody asks how widely its comparisons are known."""
    return {}


@dataclass(slots=True, kw_only=True)
class Campaign:
    """A plan being measured: the replicates that all comparisons have, then those that the widest still need."""

    plan: Plan
    records: list[Record]
    start: Start
    append: Callable[[Record], None]  # to the disk
    watcher: Watcher
    clock: Callable[[], float]
    run_name: str = ""  # whose windows have an order and samples that are not those of another run of the same plan
    deadline_s: float | None = None  # on that clock
    plan_ends_s: float | None = None  # where a later run goes on with the plan: when its time is up for good
    paces: Mapping[str, Pace] = field(default_factory=dict)  # by workload, where they are known
    # Workload -> seconds for each arm of a replicate with one treatment, by those that were measured.
    arm_s: dict[str, float] = field(default_factory=dict)
    precisions: Callable[[Plan, Sequence[Record]], Precisions] = unknown  # the analysis, which is not imported here
    free: Callable[[], Bytes] | None = None  # memory of the host, then of the device; None where it has no end
    cores: int = 1  # on which arms may begin side by side
    attempts: int = 0  # begun by this campaign
    windows: int = 0  # recorded by it
    _room: dict[str, int] = field(init=False, default_factory=dict)  # block -> treatments that fitted
    # Block -> position -> what an arm took of each kind of memory.
    _sizes: defaultdict[str, dict[int, Bytes]] = field(init=False, default_factory=lambda: defaultdict(dict))
    _begun_anew: set[str] = field(init=False, default_factory=set)  # blocks, once each, to learn what a reference takes
    # Treatments, by block and position, that found no memory beside others and are timed alone.
    _alone: set[tuple[str, int]] = field(init=False, default_factory=set)
    _turns: dict[tuple[str, int], int] = field(init=False, default_factory=dict)  # by block and replicate: see Arm.turn
    _kept: defaultdict[tuple[str, int], list[Record]] = field(init=False)
    _over: set[Place] = field(init=False)  # arms that are given up: later replicates do without them
    _forecast: Forecast = field(init=False)

    def __post_init__(self) -> None:
        """Sorts what is recorded; raises ValueError where looks are planned and nobody can tell widths."""
        if self.plan.protocol.target is not None and self.precisions is unknown:
            raise ValueError("a plan with a target needs the precisions of its comparisons")
        self._kept, self._over = by_replicate(self.records), failures(self.records)
        self._forecast = Forecast(plan=self.plan, kept=self._kept, paces=self.paces, arm_s=self.arm_s)

    def run(self) -> bool:
        """Measures until nothing is left or the time is up; tells whether nothing is left."""
        try:
            for blocks in (self._first_blocks(), self.plan.blocks):
                while self._run_turn(blocks):
                    pass
                while self._run_due(blocks):
                    pass
            while self._run_further():
                pass
        except BudgetSpent:
            return False
        return not self.unfinished()

    def unfinished(self) -> list[tuple[Block, int]]:
        """Blocks and replicates that still need windows."""
        return [*self._unmeasured(), *((one.block, one.replicate) for one in self._further())]

    def _unmeasured(self) -> Iterator[tuple[Block, int]]:
        """What is left of the replicates that all have."""
        for block in self.plan.blocks:
            for replicate in range(block.replicates_in(self.plan.protocol)):
                if self._left(block, replicate):
                    yield block, replicate

    def _further(self) -> tuple[Further, ...]:
        if self.plan.protocol.target is None:
            return ()
        return further(self.plan, self._kept, self.precisions(self.plan, self.records))

    def _shortened(self, block: Block, replicate: int, positions: Sequence[int]) -> Sequence[int]:
        """Treatments for which a single round fits in of the replicate that gives the one before it a meaning."""
        if not 0 < replicate < FEWEST_REPLICATES:
            return ()
        begun = [one for one in positions if self._forecast.timed(block, one) == replicate]
        return self._fitting(replace(block, rounds=1), begun, self._left_s(), replicate)

    def _first_blocks(self) -> list[Block]:
        """Those to begin with: of each workload the first with more replicates than others have, and parts of steps."""
        firsts = {block.reference.workload: block for block in reversed(self.plan.blocks) if block.replicates}
        return [one for one in self.plan.blocks if firsts and (one in firsts.values() or one.timing in PARTS_OF_A_STEP)]

    def _run_turn(self, blocks: Sequence[Block]) -> bool:
        """Measures a block of each workload, the replicates that all have; tells whether any of it could begin.

        The workloads whose ratios cost least come first. A block of which nothing could be timed gives way to the next.
        Blocks with more replicates than others get the first of those whenever every workload has had its turn.
        """
        before = self.attempts
        self._run_due(blocks, FEWEST_REPLICATES + 1)
        waiting = {block.reference.workload: block for block in reversed(blocks) if self._left(block, 0)}
        costs_s = {name: self._forecast.replicate_s(block, (1,)) for name, block in waiting.items()}
        names = sorted(self._forecast.workloads, key=lambda name: costs_s.get(name, 0.0))
        for number, name in enumerate(names):
            timed, after = self.windows, [waiting[one] for one in names[number + 1 :] if one in waiting]
            for block in blocks:
                if block.reference.workload == name and self.windows == timed:
                    for replicate in range(FEWEST_REPLICATES if block.replicates else self.plan.protocol.replicates):
                        self._measure(block, replicate, *self._worth_beginning(block, replicate, after))
        return self.attempts > before

    def _run_due(self, blocks: Iterable[Block], end: int | None = None) -> bool:
        """Measures one more replicate of blocks with more than others have; tells whether any of it could begin."""
        before = self.attempts
        for block in (one for one in blocks if one.replicates):
            for replicate in self._due(block)[:1]:
                wanted = self._worth_beginning(block, replicate)
                if end is None or (replicate < end and self._leaves_parts(blocks, block, wanted, replicate)):
                    self._measure(block, replicate, *wanted)
        return self.attempts > before

    def _leaves_parts(self, blocks: Iterable[Block], block: Block, positions: Sequence[int], replicate: int) -> bool:
        """Whether a further replicate leaves time for a part of the steps of each workload that has had none."""
        parts = [one for one in blocks if one.timing in PARTS_OF_A_STEP]
        begun = {one.reference.workload for one in parts if self._kept.get((one.identity, 0))}
        firsts = {one.reference.workload: one for one in reversed(parts) if one.reference.workload not in begun}
        parts_s = FEWEST_REPLICATES * sum(self._forecast.replicate_s(one, (1,)) for one in firsts.values())
        return self._replicate_s(block, positions, replicate) + parts_s <= self._left_s()

    def _due(self, block: Block) -> list[int]:
        """What is left of the replicates that others do not have, for treatments that have begun."""
        begun = {one.arm.position for one in self._kept.get((block.identity, 0), [])}
        later = range(FEWEST_REPLICATES, block.replicates_in(self.plan.protocol))
        return [replicate for replicate in later if begun & self._left(block, replicate).keys()]

    def _run_further(self) -> bool:
        """Adds the replicates of one look for which the time suffices; tells whether there were any."""
        before = self.attempts
        for one in self._further():
            self._measure(
                one.block, one.replicate, *self._fitting(one.block, one.positions, self._left_s(), one.replicate)
            )
        return self.attempts > before

    def _measure(self, block: Block, replicate: int, *taken_on: int) -> None:
        while rounds := {one: count for one, count in self._left(block, replicate).items() if one in taken_on}:
            own = self._apart(block)
            # Those that share a process first; what one of them did to it is known before the others are tried.
            together = {one: count for one, count in rounds.items() if one not in own} or rounds
            now = replace(block, shared=block.shared and together.keys().isdisjoint(own))
            beside = [one for one in together if (block.identity, one) not in self._alone]
            fitting = {one: together[one] for one in beside[: self._most_beside(block, beside)]}
            if fitting:
                self._live(now, replicate, fitting)
            else:
                self._in_turn(replace(block, shared=False), replicate, rounds)

    def _most_beside(self, block: Block, positions: Sequence[int]) -> int | None:
        """How many treatments found room beside their reference; None where each is asked anew, by what it took."""
        room, known = self._room.get(block.identity), self._sizes[block.identity]
        return None if room and {0, *positions} <= known.keys() else room

    def _apart(self, block: Block) -> frozenset[int]:
        """Treatments of a block that get processes of their own although the others share one."""
        if not block.shared:
            return frozenset()
        kept = (records for (identity, _), records in self._kept.items() if identity == block.identity)
        found = [record for records in kept for record in records]
        return frozenset(one for one in range(1, len(block.comparisons) + 1) if is_apart(one, found))

    def _worth_beginning(self, block: Block, replicate: int, after: Sequence[Block] = ()) -> Sequence[int]:
        """Treatments of a replicate for which the time suffices, in this life and those that must follow it.

        A treatment with too few replicates would give no estimate. So fewer are begun when time is short, and a later
        replicate takes on none that the first has not.
        """
        if replicate == 0:
            if block.replicates:  # others follow while there is time: as few as give an estimate decide who begins
                return self._in_time(block, FEWEST_REPLICATES, after)
            count = self.plan.protocol.replicates
            return self._in_time(block, count, after) or self._in_time(block, FEWEST_REPLICATES, after)
        first = {one.arm.position for one in self._kept.get((block.identity, 0), [])}
        wanted = [one for one in sorted(self._left(block, replicate)) if one in first]
        return self._fitting(block, wanted, self._left_s(), replicate) or self._shortened(block, replicate, wanted)

    def _left(self, block: Block, replicate: int) -> dict[int, int]:
        same = self._kept.get((block.identity, replicate), [])
        return outstanding(block, replicate, same, self.plan.protocol, self._over)

    def _live(self, block: Block, replicate: int, rounds: Mapping[int, int]) -> None:
        began_s, attempt = self.clock(), self._attempt(block, replicate)
        try:
            attempt.run(rounds)
        except NoRoom:
            self._alone |= {(block.identity, position) for position in attempt.alone_next}
            sizes = self._sizes[block.identity]
            if sizes and 0 not in sizes and block.identity not in self._begun_anew:
                self._begun_anew.add(block.identity)  # what began was large: now the reference does
            elif not attempt.alone_next:
                self._room[block.identity] = 0
            return
        except BudgetSpent:
            # Arms take at least as long as those that were broken off: whoever goes on must not guess less.
            if self.clock() - began_s > self._forecast.replicate_s(block, tuple(rounds), replicate):
                self._forecast.learn(block, tuple(rounds), self.clock() - began_s, replicate, attempt.imports_s)
            raise
        self._alone |= {(block.identity, position) for position in attempt.alone_next}
        if attempt.put_off:
            self._room[block.identity] = len(rounds) - len(attempt.put_off)
        if min(rounds.values()) == (block.rounds or self.plan.protocol.rounds):
            taken_on = [one for one in rounds if one not in attempt.put_off]
            alive = [one for one in taken_on if one in attempt.arms]
            if alive and 0 in attempt.arms and not attempt.timed_out:  # which says nothing of replicates to come
                self._forecast.learn(block, alive, self.clock() - began_s, replicate, attempt.imports_s)

    def _in_turn(self, block: Block, replicate: int, rounds: Mapping[int, int]) -> None:
        """One arm after another, each alive alone, in the opposite order in every second replicate.

        What an earlier run has timed so counts for itself alone: the reference is timed anew beside what is left.
        """
        same = self._kept[block.identity, replicate]
        turn = self._turns.setdefault((block.identity, replicate), next_attempt(block, replicate, same))
        for position in sorted({0, *rounds}, reverse=replicate % 2 == 1):
            began_s = self.clock()
            own = (one for one in same if one.arm.position == position and one.arm.turn == turn)
            done = sum(isinstance(one, Window) for one in own)
            if (count := (block.rounds or self.plan.protocol.rounds) - done) > 0 and self._left(block, replicate):
                attempt = self._attempt(block, replicate, turn)
                attempt.alone(position, count)
                if position in attempt.arms:  # what was lost says nothing of replicates to come
                    self._forecast.learn(block, (position,), 2 * (self.clock() - began_s), replicate)

    def _attempt(self, block: Block, replicate: int, turn: int | None = None) -> Attempt:
        self.attempts += 1
        return Attempt(
            block=block,
            replicate=replicate,
            number=next_attempt(block, replicate, self._kept.get((block.identity, replicate), [])),
            turn=turn,
            timetable=self.plan.protocol.of(block.timing),
            seed=f"{self.plan.seed} {self.run_name}".strip(),
            first=Random(f"{self.run_name} {block.identity}").random() if self.run_name else 0.0,
            start=lambda position: self.start(block, replicate, position),
            record=self._keep,
            watcher=self.watcher,
            clock=self.clock,
            check_time=self._check_time,
            room=Room(free=self.free, sizes=self._sizes[block.identity]) if self.free else None,
            cores=self.cores,
            reference_first=block.identity in self._begun_anew and 0 not in self._sizes[block.identity],
            rests=self.paces.get(block.reference.workload, USUAL).rests,
            leads=leads_seen(self._kept.get((block.identity, one), []) for one in range(replicate)),
        )

    def _keep(self, record: Record) -> None:
        same = self._kept[record.arm.block, record.arm.replicate]
        if isinstance(record, Lost):
            of_block = [one for (block, _), found in self._kept.items() if block == record.arm.block for one in found]
            record = settled(record, of_block, self.plan.protocol)
            self._over |= failures([record])
        self.append(record)
        self.windows += isinstance(record, Window)
        self.records.append(record)
        same.append(record)
        if (isinstance(record, Lost) and record.arm.shared) or (isinstance(record, Ready) and not record.arm.shared):
            forget_what_was_shared(record.arm.block, self._kept)

    def _check_time(self) -> None:
        if self._left_s() < 0:
            raise BudgetSpent

    def _left_s(self) -> float:
        return math.inf if self.deadline_s is None else self.deadline_s - self.clock()

    def _plan_left_s(self) -> float:
        """Seconds in which the plan may still be measured, by this run and those that go on with it."""
        return self._left_s() if self.plan_ends_s is None else max(self._left_s(), self.plan_ends_s - self.clock())

    def _in_time(self, block: Block, replicates: int, after: Sequence[Block]) -> Sequence[int]:
        """Treatments of a block that can get so many replicates in time, where workloads after it have some too.

        Of a part of a step each has as many as the others. Of whole steps, which cost too unlike for that, each has a
        share of the time that buys as many arms.
        """
        wanted, left_s = sorted(self._left(block, 0)), self._plan_left_s()
        most_s = min(left_s / replicates, self._left_s())
        if block.timing in PARTS_OF_A_STEP:
            if not self._worth_a_part(block.reference.workload, block):
                return ()
            share = self._fitting(block, self._as_many_of_each([block, *after], left_s / replicates), most_s)
        else:
            own_s, *others_s = (self._first_s(one, 1) for one in (block, *after))
            fair_s = left_s * own_s / (own_s + sum(others_s))
            share = self._fitting(block, wanted, min(fair_s / replicates, self._left_s()))
        # Of single ones some cost less than what comes first.
        return share or next(filter(None, (self._fitting(block, (one,), most_s) for one in wanted)), ())

    def _as_many_of_each(self, blocks: Sequence[Block], time_s: float) -> Sequence[int]:
        """Treatments of the first of these blocks: as many as all of them can have in so much time."""
        wanted = sorted(self._left(blocks[0], 0))
        counts = range(len(wanted), 0, -1)
        return next((wanted[:one] for one in counts if sum(self._first_s(of, one) for of in blocks) <= time_s), ())

    def _first_s(self, block: Block, count: int) -> float:
        """Seconds of a replicate of so many of the treatments that a block has left; of one where steps are whole."""
        wanted = sorted(self._left(block, 0))
        return self._forecast.replicate_s(block, wanted[: count if block.timing in PARTS_OF_A_STEP else 1])

    def _worth_a_part(self, workload: str, block: Block) -> bool:
        """Whether a part of a step comes to something: steps are timed first, where the plan times them first.

        Where none of them gave a ratio and nothing is left of them, a part still has its own.
        """
        same = [one for one in self.plan.blocks if one.reference == block.reference]
        if self._forecast.has_ratio_of(workload) or same[0].timing in PARTS_OF_A_STEP:
            return True
        whole = [one for one in same if one.timing is Timing.STEP]
        replicates = ((one, replicate) for one in whole for replicate in range(one.replicates_in(self.plan.protocol)))
        return not any(self._left(*one) for one in replicates)

    def _fitting(
        self, block: Block, positions: Sequence[int], time_s: float, replicate: int | None = None
    ) -> Sequence[int]:
        """As many of the treatments as can be measured in so much time, beside their reference."""
        counts = range(len(positions), 0, -1)
        return next(
            (positions[:one] for one in counts if self._replicate_s(block, positions[:one], replicate) <= time_s),
            (),
        )

    def _replicate_s(self, block: Block, positions: Sequence[int], replicate: int | None) -> float:
        """Seconds of one replicate of these treatments, in as many lives as memory makes of it."""
        room = max(1, self._room.get(block.identity, len(positions)))
        lives = [positions[first : first + room] for first in range(0, len(positions), room)]
        return sum(self._forecast.replicate_s(block, one, replicate) for one in lives)

    @property
    def left_s(self) -> float:
        """About the seconds that it is going to go on: until the time is up, or nothing is left that all have."""
        places = ((block, self._left(block, replicate), replicate) for block, replicate in self._unmeasured())
        expected_s = sum(self._replicate_s(block, sorted(left), one) for block, left, one in places)
        if not expected_s and self.plan.protocol.target is not None:
            return max(0.0, self._left_s())  # further replicates narrow intervals
        return max(0.0, min(self._left_s(), expected_s))
