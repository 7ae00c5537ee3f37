"""Memory that does not hold all arms of a block: fewer live together, or one after the other."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest
from rich.console import Console

from benchmarks.invented.rehearsal import Effects, RehearsedArm, Slowed, VirtualClock, drifting
from harness.analyze.estimate import Estimate
from harness.analyze.matrix import Matrix, build_matrix
from harness.cli.measuring import Progress
from harness.core.configuration import Comparison
from harness.core.optimization import Timing
from harness.core.plan import Block, Plan
from harness.core.protocol import Protocol
from harness.core.records import Fault, Lost, Ready, Record, Window
from harness.plan.schedule import blocks, by_replicate, outstanding
from harness.run.arm import ArmLost
from harness.run.execution import Campaign
from harness.run.replicate import Attempt, Room
from tests.analyze.synthetic import ENVIRONMENT, comparison, config, plan

EFFECTS = Effects({"workers": 1.5, "amp": 1.2, "pin_memory": 1.0, "chunk_cache": 1.1})
ARM = 10  # bytes of each arm
PLAN = replace(
    plan(),
    protocol=Protocol(rounds=4),
    blocks=blocks([comparison(name) for name in EFFECTS.named], treatments=4),
)


@dataclass(slots=True)
class Memory:
    """So many bytes, of which every arm that lives takes some."""

    size: int
    taken: int = 0
    most: int = 0  # arms at once

    def free(self) -> tuple[int, ...]:
        return (self.size - self.taken,)

    def take(self, count: int) -> None:
        self.taken += count
        assert self.taken <= self.size, "the kernel would have killed somebody"
        self.most = max(self.most, self.taken // ARM)


@dataclass(slots=True, kw_only=True)
class LargeArm:
    """A rehearsed arm that takes memory while it lives."""

    arm: RehearsedArm
    memory: Memory
    takes: int = field(default=0)

    begins_beside = False

    def arrive(self) -> None:
        self.arm.arrive()

    def begin(self) -> dict[str, Any]:
        self.memory.take(ARM)
        self.takes = ARM
        return self.arm.begin()

    def settle(self, steps: int, offset: int) -> int:
        return self.arm.settle(steps, offset)

    def window(self, lead: int, steps: int, start: int) -> dict[str, Any]:
        return self.arm.window(lead, steps, start)

    def close(self) -> None:
        self.memory.take(-self.takes)
        self.takes = 0


def measured(
    the_plan: Plan, size: int, before: Sequence[Record] = (), slowed: Slowed = drifting
) -> tuple[Memory, list[Record], bool]:
    memory, clock, random, records = Memory(size), VirtualClock(), Random(5), list(before)

    def start(block: Block, _replicate: int, position: int) -> LargeArm:
        config = block.reference if position == 0 else block.comparisons[position - 1].treatment
        chance = Random(random.random())
        arm = RehearsedArm(
            config=config, timing=block.timing, effects=EFFECTS, clock=clock, random=chance, slowed=slowed
        )
        return LargeArm(arm=arm, memory=memory)

    complete = Campaign(
        plan=the_plan,
        records=records,
        start=start,
        append=lambda _: None,
        watcher=Progress(the_plan, Console(quiet=True)),
        clock=clock,
        free=memory.free,
    ).run()
    assert memory.taken == 0
    return memory, records, complete


def matrix(records: list[Record]) -> Matrix:
    return build_matrix(PLAN, records, ENVIRONMENT)


def attempts(records: list[Record]) -> dict[tuple[int, int], set[int]]:
    found: dict[tuple[int, int], set[int]] = {}
    for one in records:
        if isinstance(one, Window):
            found.setdefault((one.arm.replicate, one.arm.attempt), set()).add(one.arm.position)
    return found


@pytest.mark.parametrize(("size", "most"), [(1000, 5), (45, 4), (33, 3), (23, 2)])
def test_as_many_live_together_as_memory_holds(size: int, most: int) -> None:
    memory, records, complete = measured(PLAN, size)
    assert complete
    assert memory.most == most
    found = attempts(records)
    assert all(0 in positions and len(positions) <= most for positions in found.values())
    assert {position for positions in found.values() for position in positions} == {0, 1, 2, 3, 4}
    rows = matrix(records).rows
    assert all(row.estimate and row.estimate.processes == 2 and row.estimate.pairs == 8 for row in rows)
    assert not any("in turn" in note for row in rows for note in row.notes)


@pytest.mark.parametrize("size", [10, 15, 21])
def test_where_not_even_two_fit_arms_live_in_turn_and_the_row_says_so(size: int) -> None:
    memory, records, complete = measured(PLAN, size)
    assert complete
    assert memory.most == 1
    found = attempts(records)
    assert all(len(positions) == 1 for positions in found.values())
    order = [[min(found[key]) for key in sorted(found) if key[0] == replicate] for replicate in (0, 1)]
    assert order == [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0]]
    rows = matrix(records).rows
    assert len(rows) == 4
    for row in rows:
        assert isinstance(row.estimate, Estimate)
        assert (row.estimate.processes, row.estimate.in_turn, row.estimate.pairs) == (2, 2, 2)
        assert any(
            note.startswith("replicates in turn: memory seemed too small for both arms at once") for note in row.notes
        )
        truth = EFFECTS.speedup(row.comparison.treatment, row.comparison.reference)
        assert row.estimate.ratio == pytest.approx(truth, rel=0.15)  # drift is in it


def test_what_was_timed_in_turn_is_not_timed_again() -> None:
    _, records, _ = measured(PLAN, ARM)
    kept, block = by_replicate(records), PLAN.blocks[0]
    for replicate in (0, 1):
        assert outstanding(block, replicate, kept[block.identity, replicate], PLAN.protocol) == {}
    without_last = [one for one in kept[block.identity, 0] if one.arm.position != 4]
    assert outstanding(block, 0, without_last, PLAN.protocol) == {4: 4}
    without_reference = [one for one in kept[block.identity, 0] if one.arm.position]
    assert outstanding(block, 0, without_reference, PLAN.protocol) == {1: 4, 2: 4, 3: 4, 4: 4}


@pytest.mark.parametrize("replicate", [0, 1])
@pytest.mark.parametrize("lives", [1, 2, 3])
def test_arms_in_turn_that_a_run_left_half_done_are_timed_anew_by_the_next(replicate: int, lives: int) -> None:
    """The machine that goes on takes three times as long: no arm is compared with one of the other machine."""
    _, records, _ = measured(PLAN, ARM)
    cut = [one for one in records if (one.arm.replicate, one.arm.attempt) < (replicate, 1 + lives)]
    _, whole, complete = measured(PLAN, ARM, cut, lambda work_s, *rest: 3 * drifting(work_s, *rest))
    assert complete
    assert whole[: len(cut)] == cut
    for row in matrix(whole).rows:
        assert isinstance(row.estimate, Estimate)
        truth = EFFECTS.speedup(row.comparison.treatment, row.comparison.reference)
        assert row.estimate.ratio == pytest.approx(truth, rel=0.15)


class GreedyArm(LargeArm):
    """One that takes memory in proportion to its batch, and is lost where there is not so much."""

    def begin(self) -> dict[str, Any]:
        needs = ARM * self.arm.config.batch // 64
        if needs > self.memory.free()[0]:
            raise ArmLost(Fault.DEVICE_MEMORY, "CUDA out of memory")
        self.memory.take(needs)
        self.takes = needs
        return self.arm.begin()


def larger(batch: int) -> Comparison:
    return Comparison(
        label=f"batch={batch}", treatment=config(batch=batch), reference=config(), timing=Timing.STEP
    )  # fmt: skip


@pytest.mark.parametrize("looked_at", [True, False])
def test_a_larger_batch_that_finds_no_memory_beside_others_is_timed_alone_before_it_is_given_up(
    monkeypatch: pytest.MonkeyPatch, *, looked_at: bool
) -> None:
    monkeypatch.setattr("tests.run.test_room.LargeArm", GreedyArm)
    if not looked_at:  # as where nobody can tell how much is free before it is asked for
        monkeypatch.setattr(Room, "fits", lambda *_, **__: True)
    the_plan = replace(PLAN, blocks=blocks([larger(batch) for batch in (128, 320, 1024)], treatments=4))
    memory, records, complete = measured(the_plan, 55)
    assert (complete, memory.taken) == (True, 0)
    (table,) = build_matrix(the_plan, records, ENVIRONMENT).batch_tables
    rows = {row.label: row for row in table.rows}
    assert {label for label, row in rows.items() if row.estimate} == {"batch=128", "batch=320"}
    wide = rows["batch=320"].estimate
    assert wide is not None
    assert wide.in_turn == 2
    assert rows["batch=1024"].absence is not None
    assert rows["batch=1024"].absence.kind is Fault.DEVICE_MEMORY
    given_up = [one for one in records if isinstance(one, Lost) and one.outcome == "failed"]
    assert {one.arm.position for one in given_up} == {3}


class FrugalArm(LargeArm):
    """One whose libraries go on with other kernels where there is too little memory, without a word."""

    def begin(self) -> dict[str, Any]:
        needs = ARM * self.arm.config.batch // 64
        short = needs > self.memory.free()[0]
        self.takes = min(needs, self.memory.free()[0])
        self.memory.take(self.takes)
        ready = self.arm.begin()
        return ready | {"effective": ready["effective"] | ({"memory_refusals": 2} if short else {})}


@pytest.mark.parametrize("refuses", [True, False])
def test_an_arm_whose_libraries_went_without_memory_beside_others_is_timed_alone(
    monkeypatch: pytest.MonkeyPatch, *, refuses: bool
) -> None:
    monkeypatch.setattr("tests.run.test_room.LargeArm", FrugalArm)
    monkeypatch.setattr(Room, "fits", lambda *_, **__: True)
    if not refuses:
        monkeypatch.setattr(Attempt, "_went_without", lambda *_: False)
    the_plan = replace(PLAN, blocks=blocks([larger(batch) for batch in (128, 320)], treatments=4))
    _, records, complete = measured(the_plan, 55)
    assert complete
    short = {
        one.arm.position
        for one in records
        if isinstance(one, Ready) and one.effective.get("memory_refusals") and one.arm.turn is None
    }
    assert bool(short) is not refuses
    (table,) = build_matrix(the_plan, records, ENVIRONMENT).batch_tables
    assert all(row.estimate for row in table.rows)


@pytest.mark.parametrize("memory", [15, 35])
def test_an_arm_that_finds_no_memory_beside_others_is_timed_alone_before_it_is_given_up(
    monkeypatch: pytest.MonkeyPatch, memory: int
) -> None:
    """As where arms that stand still kept more than was foreseen: it is nobody's fault but that of the neighbours."""
    monkeypatch.setattr("tests.run.test_room.LargeArm", GreedyArm)
    monkeypatch.setattr(Room, "fits", lambda *_, **__: True)
    _, records, complete = measured(PLAN, memory)
    assert complete
    assert [one for one in records if isinstance(one, Lost) and one.outcome == "failed"] == []
    (table,) = build_matrix(PLAN, records, ENVIRONMENT).tables
    assert all(row.estimate for row in table.rows)


@pytest.mark.parametrize(("free", "fit"), [(89, False), (90, True)])
def test_arms_of_varying_shapes_live_together_only_where_the_device_holds_what_they_may_grow_to(
    free: int, fit: bool
) -> None:
    left = iter([(100, free + 10), (90, free), (90, free)])
    room = Room(free=lambda: next(left))
    room.begins()
    room.begun([0], varying_shapes=True)
    assert room.fits([1]) is fit, "five times as much for the next, and four times as much again for the first"


def test_the_host_need_not_hold_what_a_device_s_allocator_keeps() -> None:
    left = iter([(25,), (15,), (15,)])
    room = Room(free=lambda: next(left))
    room.begins()
    room.begun([0], varying_shapes=True)
    assert room.fits([1])


@pytest.mark.parametrize(("varying", "most"), [(False, 5), (True, 1)])
def test_an_arm_that_shows_varying_shapes_is_not_joined_by_others_on_a_device(
    varying: bool, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = RehearsedArm.begin

    def shown(arm: RehearsedArm) -> dict[str, Any]:
        ready = begin(arm)
        return {**ready, "effective": {**ready["effective"], "varying_shapes": varying}}

    monkeypatch.setattr(RehearsedArm, "begin", shown)
    monkeypatch.setattr(Memory, "free", lambda memory: (1000, memory.size - memory.taken))
    memory, _, complete = measured(PLAN, 75)
    assert (complete, memory.most) == (True, most)


def test_every_kind_of_memory_must_hold_an_arm() -> None:
    free = iter([(100, 50), (90, 20), (90, 20), (90, 20), (90, 40)])
    room = Room(free=lambda: next(free))
    assert room.fits(range(9)), "nothing is known of the first"
    room.begins()
    room.begun([0])
    assert room.largest == (10, 30)
    assert not room.fits([1]), "the device has 20 left and an arm takes 30"
    assert not room.fits([1, 2])
    room.largest = (10, 0)
    assert room.fits(range(1, 8)), "what takes nothing of a kind of memory is not held back by it"


def test_an_arm_whose_size_is_known_asks_for_no_more() -> None:
    """A treatment of 69 began first; the reference takes 46, and 71 are left."""
    left = iter([(1000, 140), (990, 71), (990, 71), (990, 71)])
    room = Room(free=lambda: next(left), sizes={0: (10, 46)})
    room.begins()
    room.begun([6])
    assert room.fits([0])
    assert not room.fits([1]), "which may take as much as the largest"
    assert room.larger([6, 1]) == [6]
    assert Room(free=lambda: (0, 0), sizes={6: (10, 69)}).larger([6]) == [], "nothing is known of the reference"
