"""The campaign on invented times: a budget is kept, and spent on what it can finish and on what is too wide."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from io import StringIO
from random import Random

import pytest
from rich.console import Console

from harness.analyze.precision import precisions
from harness.cli.planning import Wish, prepared
from harness.cli.progress import Progress
from harness.core.bracket import brackets
from harness.core.measurement import Arm, Burst, Record
from harness.core.optimization import Timing
from harness.core.plain import decode, encode
from harness.core.plan import Block, Plan
from harness.core.precision import Place, Precision, Precisions
from harness.core.protocol import BRIEF
from harness.run.campaign import Campaign
from harness.run.rehearsal import Effects, RehearsedArm, VirtualClock

WISH = Wish(
    workloads=(), size="quick", batch=None, design="alone", only=(), stack=None, reference="plain", probe=None,
    protocol="brief", restarts=None, rounds=None, seed=0, device="cpu", own=None, target="none",
)  # fmt: skip


@pytest.fixture(scope="module")
def plan() -> Plan:
    return prepared(WISH).plan


def run(
    plan: Plan, budget_s: float | None, records: list[Record], step_s: Mapping[str, float] | None = None
) -> tuple[bool, float]:
    found = campaign(plan, records, Effects())
    found.deadline_s, found.step_s = budget_s, step_s or {}
    return found.run(), found.clock()


def restarts_of(records: list[Record]) -> dict[tuple[str, int], set[int]]:
    found: dict[tuple[str, int], set[int]] = defaultdict(set)
    for one in records:
        if isinstance(one, Burst) and one.arm.position:
            found[one.arm.block, one.arm.position].add(one.arm.restart)
    return found


def all_but_the_last_are_whole(found: dict[tuple[str, int], set[int]]) -> bool:
    """Whether all comparisons have both restarts; the last may turn out to take longer than any before it."""
    *before, last = found.values()
    return all(restarts == {0, 1} for restarts in before) and last in ({0}, {0, 1})


@pytest.mark.parametrize("budget_s", [120.0, 270.0, 600.0])
def test_a_budget_is_kept_and_begins_only_what_it_can_finish(plan: Plan, budget_s: float) -> None:
    records: list[Record] = []
    complete, spent_s = run(plan, budget_s, records)
    assert not complete
    assert spent_s < budget_s + 10
    found = restarts_of(records)
    assert found
    assert all_but_the_last_are_whole(found)


def test_the_same_command_again_and_again_measures_everything_once(plan: Plan) -> None:
    records: list[Record] = []
    times = 0
    while not run(plan, 270.0, records)[0]:
        times += 1
        assert times < 100
    whole: list[Record] = []
    assert run(plan, None, whole)[0]
    assert pairs_of(records) == pairs_of(whole)


def pairs_of(records: list[Record]) -> Counter[tuple[str, int, int]]:
    """How many windows of each comparison have the reference's on either side, by block, position and restart."""
    lives: dict[Arm, list[Burst]] = defaultdict(list)
    for one in records:
        if isinstance(one, Burst):
            lives[replace(one.arm, position=0)].append(one)
    return Counter(
        (life.block, bracket.treatment.arm.position, life.restart)
        for life, bursts in lives.items()
        for position in {one.arm.position for one in bursts} - {0}
        for bracket in brackets(bursts, position)
    )


def test_more_time_measures_more(plan: Plan) -> None:
    found = []
    for budget_s in (120.0, 270.0, 600.0):
        records: list[Record] = []
        run(plan, budget_s, records)
        found.append(len(restarts_of(records)))
    assert found == sorted(set(found))


# ----------------------------------------------------------------------------------------------- the first life


SLOW = {"leak": 20.0}  # seconds a step, as it is guessed beforehand; rehearsed steps take 50 ms


@pytest.fixture(scope="module")
def leak() -> Plan:
    return prepared(replace(WISH, workloads=("leak",))).plan


def test_a_first_life_is_begun_however_slow_its_workload_is_said_to_be(leak: Plan) -> None:
    records: list[Record] = []
    complete, spent_s = run(leak, 180.0, records, SLOW)
    assert not complete
    assert spent_s < 190.0
    found = restarts_of(records)
    assert all_but_the_last_are_whole(found)
    assert len(found) > 1, "once its time is known, the rest of the budget is used as usual"


def test_without_time_no_life_is_begun(leak: Plan) -> None:
    records: list[Record] = []
    assert run(leak, 0.0, records, SLOW) == (False, 0.0)
    assert records == []


def test_a_workload_as_slow_as_it_is_said_to_be_ends_with_the_budget_and_is_continued(leak: Plan) -> None:
    records: list[Record] = []
    for budget_s in (12.0, 12.0, 12.0):  # two processes of 7 s each are not even begun in it
        _, spent_s = run(leak, budget_s, records, SLOW)
        assert spent_s < budget_s + 8
    assert {one.arm.block for one in records} == {"b00"}
    assert len({one.arm.life for one in records}) == 3


def test_a_life_that_is_broken_off_tells_that_its_arms_take_longer(leak: Plan) -> None:
    found = campaign(leak, [], Effects())
    found.deadline_s, found.arm_s = 20.0, {"leak": 0.1}
    assert not found.run()
    treatments = len(leak.blocks[0].comparisons)
    assert found.arm_s["leak"] == pytest.approx(20.0 / (treatments + 1), rel=0.5)


def test_a_life_that_is_known_to_take_longer_is_not_begun(leak: Plan) -> None:
    found = campaign(leak, [], Effects())
    found.deadline_s, found.arm_s = 300.0, {"leak": 100.0}  # one comparison takes two lives of two arms
    assert not found.run()
    assert (found.lives, found.clock(), found.arm_s) == (0, 0.0, {"leak": 100.0})


# ---------------------------------------------------------------------------------------------- further restarts


@pytest.fixture(scope="module")
def looked_at() -> Plan:
    few = ("workers=2", "amp_bfloat16", "set_to_none", "monitoring")
    return prepared(replace(WISH, workloads=("leak", "speaker"), only=few, target="1.2%")).plan


def test_further_restarts_go_to_what_is_too_wide_until_all_are_narrow_or_have_had_all_looks(looked_at: Plan) -> None:
    records: list[Record] = []
    assert run(looked_at, None, records)[0]
    counts = {place: len(restarts) for place, restarts in restarts_of(records).items()}
    assert len(counts) == len(looked_at.comparisons)
    assert set(counts.values()) <= set(BRIEF.looks)
    assert max(counts.values()) > 2
    known = precisions(looked_at, records)
    for place, count in counts.items():
        assert known[place].half_width <= 0.012 or count == BRIEF.most_restarts, place
    assert run(looked_at, None, records) == (True, 0.0), "nothing is left"


def test_a_wider_target_needs_fewer_restarts(looked_at: Plan) -> None:
    bursts = []
    for target in (0.012, 0.016, 0.5):
        records: list[Record] = []
        run(replace(looked_at, protocol=replace(looked_at.protocol, target=target)), None, records)
        bursts.append(len(records))
    assert bursts == sorted(set(bursts), reverse=True)
    fixed: list[Record] = []
    run(replace(looked_at, protocol=looked_at.protocol.fixed()), None, fixed)
    assert bursts[-1] == len(fixed)


@pytest.mark.parametrize("budget_s", [40.0, 100.0])
def test_a_campaign_that_is_cut_again_and_again_ends_where_one_that_is_not_does(
    looked_at: Plan, budget_s: float
) -> None:
    records: list[Record] = []
    times = 0
    while not run(looked_at, budget_s, records)[0]:
        times += 1
        assert times < 200
    known = precisions(looked_at, records)
    for place, restarts in restarts_of(records).items():
        assert restarts == set(range(len(restarts)))
        assert len(restarts) in BRIEF.looks
        assert known[place].half_width <= 0.012 or len(restarts) == BRIEF.most_restarts


def test_all_get_their_first_restarts_before_any_gets_more(looked_at: Plan) -> None:
    records: list[Record] = []
    run(looked_at, None, records)
    restarts = [one.arm.restart for one in records]
    first = next(index for index, restart in enumerate(restarts) if restart >= 2)
    assert all(restart >= 2 for restart in restarts[first:])


def test_a_further_restart_is_begun_only_where_the_time_suffices(looked_at: Plan) -> None:
    base: list[Record] = []
    run(replace(looked_at, protocol=looked_at.protocol.fixed()), None, base)
    before = len(base)
    assert run(looked_at, 5.0, base, {"leak": 1.0, "speaker": 1.0}) == (False, 0.0)
    assert len(base) == before
    complete, spent_s = run(looked_at, 70.0, base)
    assert not complete
    assert len(base) > before
    assert spent_s < 75.0


def test_widths_alone_decide(looked_at: Plan) -> None:
    """The same widths lead to the same restarts, whatever the ratios are."""

    def told(_plan: Plan, records: Sequence[Record]) -> Precisions:
        every = restarts_of(list(records))
        return {place: width_of(place, len(restarts)) for place, restarts in every.items() if len(restarts) > 1}

    found = []
    for worth in (3.0, 1.0):
        records: list[Record] = []
        assert campaign(looked_at, records, Effects({"workers": worth}), told).run()
        found.append(restarts_of(records))
    assert found[0] == found[1]
    assert {len(restarts) for restarts in found[0].values()} == {2, 6}


def campaign(
    plan: Plan,
    records: list[Record],
    effects: Effects,
    told: Callable[[Plan, Sequence[Record]], Precisions] = precisions,
) -> Campaign:
    clock, random = VirtualClock(), Random(0)

    def start(block: Block, _restart: int, position: int) -> RehearsedArm:
        cell = block.reference if position == 0 else block.comparisons[position - 1].treatment
        return RehearsedArm(
            cell=cell, timing=block.timing, effects=effects, clock=clock, random=Random(random.random())
        )

    return Campaign(
        plan=plan,
        records=records,
        start=start,
        append=lambda _: None,
        watcher=Progress(plan, Console(quiet=True)),
        clock=clock,
        precisions=told,
    )


def width_of(place: Place, restarts: int) -> Precision:
    wide = place[1] == 1 and restarts < 6
    return Precision(half_width=0.5 if wide else 0.001, outlying=False)


def test_a_plan_with_looks_is_not_measured_blindly(looked_at: Plan) -> None:
    with pytest.raises(ValueError, match="precisions"):
        Campaign(
            plan=looked_at,
            records=[],
            start=lambda *_: pytest.fail("nothing is started"),
            append=lambda _: None,
            watcher=Progress(looked_at, Console(quiet=True)),
            clock=VirtualClock(),
        )


def test_progress_tells_first_restarts_from_further_ones(looked_at: Plan) -> None:
    said, records = StringIO(), list[Record]()
    one = campaign(looked_at, records, Effects())
    one.watcher = Progress(looked_at, Console(file=said, width=500), records)
    assert one.run()
    lines = [line for line in said.getvalue().splitlines() if "restart" in line]
    first = [line for line in lines if "restart 1:" in line or "restart 2:" in line]
    assert all(line.endswith(" to go)") for line in first)
    further = [line for line in lines if line not in first]
    assert further
    assert all(line.endswith("(to narrow their intervals)") for line in further)


def test_what_claims_test_is_known_to_the_plan(plan: Plan) -> None:
    assert any(block.claimed for block in plan.blocks)
    for block in plan.blocks:
        assert set(block.claimed) <= set(range(1, len(block.comparisons) + 1))


def test_what_a_campaign_holds_is_what_it_would_read_from_the_disk(leak: Plan) -> None:
    """Arms answer in plain data; whoever looks at widths meanwhile must see what the report will see."""
    records: list[Record] = []
    run(leak, 200.0, records)
    read = [decode(type(one), encode(one)) for one in records]
    assert any(isinstance(one, Burst) for one in records)
    assert [repr(one) for one in records] == [repr(one) for one in read]
    assert all(isinstance(one.timing, Timing) for one in records if isinstance(one, Burst))
    assert precisions(leak, records)
