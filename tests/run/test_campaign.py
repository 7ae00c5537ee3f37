"""The campaign on invented times: a budget is kept, and spent on what it can finish and on what is too wide."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest
from rich.console import Console

from benchmarks.invented.rehearsal import Delays, Effects, RehearsedArm, VirtualClock
from harness.analyze.composition import precisions
from harness.cli.measuring import Progress
from harness.core.codec import decode, encode
from harness.core.configuration import Option
from harness.core.optimization import PARTS_OF_A_STEP, Timing
from harness.core.plan import Block, Plan, Request
from harness.core.protocol import BRIEF
from harness.core.records import Arm, Fault, Place, Precision, Precisions, Record, Window, window_pairs
from harness.plan.cost import Forecast, Pace
from harness.plan.schedule import by_replicate
from harness.run.arm import ArmLost, LiveArm
from harness.run.execution import Campaign
from harness.run.preparation import prepared

WISH = Request(size="quick", device="cpu", target="none")


@pytest.fixture(scope="module")
def plan() -> Plan:
    """A real plan whose workloads are as slow as STEPS_S says."""
    made = prepared(WISH).plan
    rounds = {name: made.protocol.rounds_of(step_s) for name, step_s in STEPS_S.items()}
    blocks = (one if one.replicates else replace(one, rounds=rounds[one.reference.workload]) for one in made.blocks)
    return replace(made, blocks=tuple(blocks))


def run(
    plan: Plan, budget_s: float | None, records: list[Record], paces: Mapping[str, Pace] | None = None
) -> tuple[bool, float]:
    found = campaign(plan, records, Effects(), paces=paces or {}, deadline_s=budget_s)
    return found.run(), found.clock()


def replicates_of(records: list[Record]) -> dict[tuple[str, int], set[int]]:
    found: dict[tuple[str, int], set[int]] = defaultdict(set)
    for one in records:
        if isinstance(one, Window) and one.arm.position:
            found[one.arm.block, one.arm.position].add(one.arm.replicate)
    return found


def all_but_the_last_are_whole(found: dict[tuple[str, int], set[int]], plan: Plan) -> bool:
    """Whether all comparisons have a ratio, and none more replicates than planned; the last may take too long."""
    most = {block.identity: block.replicates_in(plan.protocol) for block in plan.blocks}
    *before, _ = found.items()
    return all({0, 1} <= replicates <= {*range(most[block])} for (block, _), replicates in before)


@pytest.mark.parametrize("budget_s", [120.0, 270.0, 600.0])
def test_a_budget_is_kept_and_begins_only_what_it_can_finish(plan: Plan, budget_s: float) -> None:
    records: list[Record] = []
    complete, spent_s = run(plan, budget_s, records)
    assert not complete
    assert spent_s < budget_s + 10
    found = replicates_of(records)
    assert found
    assert all_but_the_last_are_whole(found, plan)


@pytest.mark.thorough
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
    """How many windows of each comparison have the reference's on either side, by block, position and replicate."""
    attempts: dict[Arm, list[Window]] = defaultdict(list)
    for one in records:
        if isinstance(one, Window):
            attempts[replace(one.arm, position=0)].append(one)
    return Counter(
        (attempt.block, window_pair.treatment.arm.position, attempt.replicate)
        for attempt, windows in attempts.items()
        for position in {one.arm.position for one in windows} - {0}
        for window_pair in window_pairs(windows, position)
    )


def test_more_time_measures_more(plan: Plan) -> None:
    found = []
    for budget_s in (120.0, 270.0, 600.0):
        records: list[Record] = []
        run(plan, budget_s, records)
        found.append(len(replicates_of(records)))
    assert found == sorted(set(found))


# --------------------------------------------------------------------------------------------------- first ratios


# Seconds of a step as five workloads of size quick have them; two of them are slow, and four arms in a row of each.
STEPS_S = {"imagenet": 0.8, "leak": 0.2, "patches3d": 2.2, "speaker": 0.3, "spoof": 1.9}
PACES = {name: Pace(step_s=step_s) for name, step_s in STEPS_S.items()}


@dataclass(slots=True, kw_only=True)
class TimedArm(RehearsedArm):
    """An arm whose steps take as long as its workload's, and whose start takes as many steps as a real one's."""

    slower: float = 1.0  # than the workload is said to be
    replicate: int  # the first one looks at all settings

    def begin(self) -> dict[str, Any]:
        self.clock.now_s += (4 if self.replicate else 8) * self._step_s()
        return RehearsedArm.begin(self)

    def _step_s(self) -> float:
        return self.slower * STEPS_S[self.config.workload]


def timed(
    plan: Plan, records: list[Record], deadline_s: float, slower: float = 1.0, fails: Collection[str] = ()
) -> Campaign:
    """A campaign of arms that take about what their workloads are said to take, or so many times as long."""
    clock, random = VirtualClock(), Random(0)

    def start(block: Block, replicate: int, position: int) -> RehearsedArm:
        config = block.reference if position == 0 else block.comparisons[position - 1].treatment
        if position and f"{config.workload} {block.comparisons[position - 1].label}" in fails:
            return FailingArm(config=config, timing=block.timing, effects=Effects(), clock=clock, random=random)
        return TimedArm(
            config=config, timing=block.timing, effects=Effects(), clock=clock, random=Random(random.random()),
            slower=slower, replicate=replicate,
            delays=Delays(imports_s=1.25 * slower, warm_up_s=1.6 if replicate else 2.0),
        )  # fmt: skip

    return Campaign(
        plan=plan, records=records, start=start, append=lambda _: None, clock=clock, deadline_s=deadline_s,
        watcher=Progress(plan, Console(quiet=True)), precisions=precisions, paces=PACES,
    )  # fmt: skip


class FailingArm(RehearsedArm):
    def begin(self) -> dict[str, Any]:
        raise ArmLost(Fault.ERROR, "its codec is missing")


def ratios_in_order(plan: Plan, records: Sequence[Record]) -> list[str]:
    """The workload of every comparison in the order in which they got their ratios: pairs in two replicates."""
    workloads = {block.identity: block.reference.workload for block in plan.blocks}
    found: dict[tuple[str, int], int] = {}
    begun: dict[tuple[str, int], set[int]] = defaultdict(set)
    waiting: dict[str, set[int]] = defaultdict(set)  # positions whose windows wait for the reference's next one
    for end, one in enumerate(records):
        if isinstance(one, Window) and one.arm.position:
            waiting[one.arm.block].add(one.arm.position)
        elif isinstance(one, Window):
            for position in waiting.pop(one.arm.block, ()):
                begun[one.arm.block, position].add(one.arm.replicate)
                if len(begun[one.arm.block, position]) == 2:
                    found.setdefault((one.arm.block, position), end)
    return [workloads[block] for (block, _), _ in sorted(found.items(), key=lambda one: one[1])]


@pytest.mark.parametrize(("budget_s", "slower"), [(720.0, 1.0), (1000.0, 1.0), (1400.0, 1.7), (2400.0, 2.5)])
def test_every_workload_gets_its_share_of_the_ratios(plan: Plan, budget_s: float, slower: float) -> None:
    records: list[Record] = []
    one = timed(plan, records, budget_s, slower)
    one.run()
    assert one.clock() < budget_s + 20
    found = Counter(ratios_in_order(plan, records))
    assert set(found) == set(STEPS_S)
    assert slower > 1.0 or max(found.values()) <= 4 * min(found.values())


def test_where_the_time_is_too_short_for_all_the_cheapest_have_a_ratio_and_none_a_half(plan: Plan) -> None:
    for budget_s in (170.0, 240.0, 330.0):
        records: list[Record] = []
        one = timed(plan, records, budget_s)
        one.run()
        found = ratios_in_order(plan, records)
        assert {"leak", "speaker"} <= set(found)
        assert "patches3d" not in found
        assert {block for block, *_ in pairs_of(records)} == {
            block for block, _, replicate in pairs_of(records) if replicate == 1
        }


def test_third_replicates_of_whole_steps_leave_every_workload_time_for_a_part(plan: Plan) -> None:
    """In a slow hour as well: a ratio of a part that nobody has is worth more than a narrower one."""
    for budget_s, slower in ((400.0, 0.4), (400.0, 0.5)):
        records: list[Record] = []
        timed(plan, records, budget_s, slower).run()
        found = Counter(ratios_in_order(plan, records))
        windows = [one for one in records if isinstance(one, Window)]
        assert min(found.values()) >= 2
        parts = {one.arm.block for one in windows if one.timing in PARTS_OF_A_STEP}
        third = {one.arm.block for one in windows if one.timing not in PARTS_OF_A_STEP and one.arm.replicate == 2}
        assert len(parts) >= len(third)


def test_fourth_replicates_come_once_parts_of_steps_have_had_their_turn(plan: Plan) -> None:
    records: list[Record] = []
    timed(plan, records, 8000.0).run()
    windows = [one for one in records if isinstance(one, Window)]
    first = {}
    for number, one in enumerate(windows):
        first.setdefault((one.timing not in PARTS_OF_A_STEP, one.arm.replicate), number)
    assert first[True, 2] < first[False, 0] < first[True, 3]
    last_part = max(number for number, one in enumerate(windows) if one.timing in PARTS_OF_A_STEP)
    assert last_part < first[True, 3]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_each_workload_gets_as_many_parts_of_its_steps_as_the_others(plan: Plan, count: int) -> None:
    loaders = [one for one in plan.blocks if one.timing is Timing.LOADER]
    parts, records = replace(plan, blocks=tuple(loaders)), list[Record]()
    forecast = Forecast(plan=parts, kept={}, paces=PACES, arm_s={})
    least_s = 2 * sum(forecast.replicate_s(one, range(1, count + 1)) for one in loaders)
    timed(parts, records, 1.5 * least_s).run()  # arms take longer than is forecast
    begun: dict[str, set[int]] = defaultdict(set)  # by block: treatments that share its first attempt
    for one in records:
        if isinstance(one, Window) and one.arm.position and (one.arm.replicate, one.arm.attempt) == (1, 0):
            begun[one.arm.block].add(one.arm.position)
    assert set(begun) == {one.identity for one in loaders}
    *first, last = map(len, begun.values())
    assert set(first) <= {count, count + 1}
    assert last >= count  # and what time is left


def test_a_comparison_that_still_fits_is_measured_where_those_before_it_take_too_long(leak: Plan) -> None:
    block = next(one for one in leak.blocks if one.timing is Timing.STEP)
    cheap = block.comparisons[0]
    dear = replace(cheap, treatment=replace(cheap.treatment, options=(Option(name="workers", level=8),)))
    one = replace(leak, blocks=(replace(block, comparisons=(dear, cheap)),))
    forecast = Forecast(plan=one, kept={}, paces={}, arm_s={})
    dear_s, cheap_s = (forecast.first_ratio_s(one.blocks[0], position) for position in (1, 2))
    assert cheap_s < 0.9 * dear_s
    found = campaign(one, [], Effects(), deadline_s=(cheap_s + dear_s) / 2)
    found.run()
    assert replicates_of(found.records)[block.identity, 2] == {0, 1}


def test_further_whole_steps_wait_until_those_that_have_begun_are_done(leak: Plan) -> None:
    of_steps = next(one for one in leak.blocks if one.timing is Timing.STEP)
    blocks = [replace(of_steps, identity=name, rounds=1, replicates=4) for name in ("b00", "b01")]
    found = campaign(replace(leak, blocks=tuple(blocks)), [], Effects())
    assert found.run()
    turns = list(dict.fromkeys((one.arm.block, one.arm.replicate) for one in found.records if isinstance(one, Window)))
    assert turns == [(name, replicate) for name in ("b00", "b01") for replicate in range(4)]


def test_what_fails_is_no_first_ratio(plan: Plan) -> None:
    records: list[Record] = []
    one = timed(plan, records, 900.0, fails=["leak all"])
    one.run()
    assert set(ratios_in_order(plan, records)) == set(STEPS_S)


def test_what_failed_for_good_is_begun_once_and_the_others_go_on(leak: Plan) -> None:
    found, begun = campaign(leak, [], Effects()), list[tuple[str, int, int]]()
    usual, clock, block = found.start, VirtualClock(), leak.blocks[0]

    def start(of: Block, replicate: int, position: int) -> LiveArm:
        begun.append((of.identity, replicate, position))
        if (of.identity, position) != (block.identity, 1):
            return usual(of, replicate, position)
        config = of.comparisons[0].treatment
        return FailingArm(config=config, timing=of.timing, effects=Effects(), clock=clock, random=Random(0))

    found.start = start
    assert found.run()
    assert [one[1] for one in begun if one[0] == block.identity and one[2] == 1] == [0]
    others = replicates_of(found.records)
    assert (block.identity, 1) not in others
    assert len(others) == len(leak.comparisons) - 1
    assert all({0, 1} <= replicates for replicates in others.values())


def test_parts_of_a_step_are_timed_where_whole_steps_have_failed_for_good(plan: Plan) -> None:
    """Or the run would wait for a ratio of steps for ever, and every further call would time nothing."""
    of_steps = {Timing.STEP, Timing.LOADER, Timing.COMPUTE}
    blocks = (one for one in plan.blocks if one.reference.workload == "leak" and one.timing in of_steps)
    found = campaign(replace(plan, blocks=tuple(blocks)), [], Effects())
    usual, clock = found.start, VirtualClock()

    def start(block: Block, replicate: int, position: int) -> LiveArm:
        if block.timing is not Timing.STEP or position:
            return usual(block, replicate, position)
        return FailingArm(config=block.reference, timing=block.timing, effects=Effects(), clock=clock, random=Random(0))

    found.start = start
    assert found.run()
    assert {one.timing for one in found.records if isinstance(one, Window)} == of_steps - {Timing.STEP}


def test_a_first_ratio_that_is_half_there_is_finished_in_half_the_time(plan: Plan) -> None:
    records: list[Record] = []
    timed(plan, records, 240.0).run()
    half = [one for one in records if one.arm.block == "b01" and one.arm.replicate == 0]
    assert ratios_in_order(plan, half) == []
    one = timed(plan, half, 40.0)
    needed_s = 1.01 * Forecast(plan=plan, kept=by_replicate(half), paces=PACES, arm_s={}).first_ratio_s(
        plan.blocks[1], 1
    )
    one.deadline_s = needed_s
    one.run()
    assert ratios_in_order(plan, half) == ["leak"]
    assert one.clock() < needed_s + 5


@pytest.fixture(scope="module")
def leak() -> Plan:
    return prepared(replace(WISH, workloads=("leak",), design="alone", replicates=2)).plan


def test_what_takes_longer_than_there_is_time_is_not_begun(leak: Plan) -> None:
    records: list[Record] = []
    assert run(leak, 180.0, records, {"leak": Pace(step_s=20.0)}) == (False, 0.0)
    assert run(leak, 0.0, records) == (False, 0.0)
    assert records == []


def test_a_life_that_is_broken_off_tells_that_its_arms_take_longer(leak: Plan) -> None:
    found = campaign(leak, [], Effects(), deadline_s=20.0, arm_s={"leak": 0.1})
    assert not found.run()
    treatments = len(leak.blocks[0].comparisons)
    assert found.arm_s["leak"] == pytest.approx(20.0 / (treatments + 1), rel=0.5)


def test_a_life_that_is_known_to_take_longer_is_not_begun(leak: Plan) -> None:
    # One comparison takes two attempts of two arms.
    found = campaign(leak, [], Effects(), deadline_s=300.0, arm_s={"leak": 100.0})
    assert not found.run()
    assert (found.attempts, found.clock(), found.arm_s) == (0, 0.0, {"leak": 100.0})


@pytest.mark.parametrize("protocol", ["brief", "standard"])
@pytest.mark.parametrize("only", [(), ("amp_bfloat16",)])
@pytest.mark.parametrize("slower", [0.5, 1.0, 1.2])
def test_a_time_that_is_not_refused_gives_a_ratio(protocol: str, only: tuple[str, ...], slower: float) -> None:
    one = prepared(replace(WISH, workloads=("speaker",), only=only, protocol=protocol)).plan
    forecast = Forecast(plan=one, kept={}, paces=PACES, arm_s={})
    needed_s = forecast.first_ratio_s(*forecast.first_ratios()[0])
    for budget_s in (1.01 * needed_s, 1.3 * needed_s, 2.1 * needed_s):
        records: list[Record] = []
        timed(one, records, budget_s, slower).run()
        assert ratios_in_order(one, records), budget_s
    short = timed(one, [], 0.99 * needed_s, slower)
    assert not short.run()
    assert (short.attempts, short.clock()) == (0, 0.0)


def test_a_restart_that_turned_out_too_long_is_followed_by_as_much_of_another_as_there_is_time_for() -> None:
    one = prepared(replace(WISH, workloads=("leak",), only=("amp_bfloat16", "channels_last"), rounds=2)).plan
    slow = Effects({"amp_bfloat16": 0.02, "channels_last": 1.0})
    paces, ends_s = {"leak": Pace(step_s=0.05)}, dict[int, float]()
    whole = campaign(one, [], slow, paces=paces)
    whole.append = lambda record: ends_s.update({record.arm.replicate: whole.clock()})
    assert whole.run()
    for share in (0.9, 0.7):
        budget_s = ends_s[0] + share * (ends_s[1] - ends_s[0])
        cut = campaign(one, [], slow, paces=paces, deadline_s=budget_s)
        assert not cut.run()
        assert ratios_in_order(one, cut.records), budget_s


# ---------------------------------------------------------------------------------------------- further replicates


@pytest.fixture(scope="module")
def looked_at() -> Plan:
    few = ("workers=2", "amp_bfloat16", "set_to_none", "monitoring")
    return prepared(replace(WISH, workloads=("leak", "speaker"), only=few, replicates=2, target="1.2%")).plan


def test_further_restarts_go_to_what_is_too_wide_until_all_are_narrow_or_have_had_all_looks(looked_at: Plan) -> None:
    records: list[Record] = []
    assert run(looked_at, None, records)[0]
    counts = {place: len(replicates) for place, replicates in replicates_of(records).items()}
    assert len(counts) == len(looked_at.comparisons)
    assert set(counts.values()) <= set(BRIEF.looks)
    assert max(counts.values()) > 2
    known = precisions(looked_at, records)
    for place, count in counts.items():
        assert known[place].half_width <= 0.012 or count == BRIEF.most_replicates, place
    assert run(looked_at, None, records) == (True, 0.0), "nothing is left"


def test_a_wider_target_needs_fewer_restarts(looked_at: Plan) -> None:
    windows = []
    for target in (0.012, 0.016, 0.5):
        records: list[Record] = []
        run(replace(looked_at, protocol=replace(looked_at.protocol, target=target)), None, records)
        windows.append(len(records))
    assert windows == sorted(set(windows), reverse=True)
    fixed: list[Record] = []
    run(replace(looked_at, protocol=looked_at.protocol.fixed()), None, fixed)
    assert windows[-1] == len(fixed)


@pytest.mark.parametrize("budget_s", [90.0, 150.0])
def test_a_campaign_that_is_cut_again_and_again_ends_where_one_that_is_not_does(
    looked_at: Plan, budget_s: float
) -> None:
    records: list[Record] = []
    times = 0
    while not run(looked_at, budget_s, records)[0]:
        times += 1
        assert times < 200
    known = precisions(looked_at, records)
    for place, replicates in replicates_of(records).items():
        assert replicates == set(range(len(replicates)))
        assert len(replicates) in BRIEF.looks
        assert known[place].half_width <= 0.012 or len(replicates) == BRIEF.most_replicates


def test_all_get_their_first_restarts_before_any_gets_more(looked_at: Plan) -> None:
    records: list[Record] = []
    run(looked_at, None, records)
    replicates = [one.arm.replicate for one in records]
    first = next(index for index, replicate in enumerate(replicates) if replicate >= 2)
    assert all(replicate >= 2 for replicate in replicates[first:])


def test_a_further_restart_is_begun_only_where_the_time_suffices(looked_at: Plan) -> None:
    base: list[Record] = []
    run(replace(looked_at, protocol=looked_at.protocol.fixed()), None, base)
    before = len(base)
    assert run(looked_at, 5.0, base) == (False, 0.0)
    assert len(base) == before
    complete, spent_s = run(looked_at, 70.0, base)
    assert not complete
    assert len(base) > before
    assert spent_s < 75.0


def test_widths_alone_decide(looked_at: Plan) -> None:
    """The same widths lead to the same replicates, whatever the ratios are."""

    def told(_plan: Plan, records: Sequence[Record]) -> Precisions:
        every = replicates_of(list(records))
        return {place: width_of(place, len(replicates)) for place, replicates in every.items() if len(replicates) > 1}

    found = []
    for worth in (3.0, 1.0):
        records: list[Record] = []
        assert campaign(looked_at, records, Effects({"workers": worth}), told).run()
        found.append(replicates_of(records))
    assert found[0] == found[1]
    assert {len(replicates) for replicates in found[0].values()} == {2, 6}


def campaign(
    plan: Plan,
    records: list[Record],
    effects: Effects,
    told: Callable[[Plan, Sequence[Record]], Precisions] = precisions,
    **given: Any,
) -> Campaign:
    clock, random = VirtualClock(), Random(0)

    def start(block: Block, _replicate: int, position: int) -> RehearsedArm:
        config = block.reference if position == 0 else block.comparisons[position - 1].treatment
        return RehearsedArm(
            config=config, timing=block.timing, effects=effects, clock=clock, random=Random(random.random()),
            delays=Delays(imports_s=0.5, warm_up_s=6.5),  # an arm is forked from what has imported
        )  # fmt: skip

    return Campaign(
        plan=plan,
        records=records,
        start=start,
        append=lambda _: None,
        watcher=Progress(plan, Console(quiet=True)),
        clock=clock,
        precisions=told,
        **given,
    )


def width_of(place: Place, replicates: int) -> Precision:
    wide = place[1] == 1 and replicates < 6
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


def test_what_claims_test_is_known_to_the_plan(plan: Plan) -> None:
    assert any(block.claimed for block in plan.blocks)
    for block in plan.blocks:
        assert set(block.claimed) <= set(range(1, len(block.comparisons) + 1))


def test_what_a_campaign_holds_is_what_it_would_read_from_the_disk(leak: Plan) -> None:
    """Arms answer in plain data; whoever looks at widths meanwhile must see what the report will see."""
    records: list[Record] = []
    run(leak, 200.0, records)
    read = [decode(type(one), encode(one)) for one in records]
    assert any(isinstance(one, Window) for one in records)
    assert [repr(one) for one in records] == [repr(one) for one in read]
    assert all(isinstance(one.timing, Timing) for one in records if isinstance(one, Window))
    assert precisions(leak, records)
