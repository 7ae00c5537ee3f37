"""Looks: who gets further replicates follows from widths and records alone."""

import math
from dataclasses import replace

import pytest

from harness.core.optimization import Timing
from harness.core.plan import Block, Plan
from harness.core.protocol import BRIEF, PROTOCOLS, Protocol
from harness.core.records import Lost, Place, Precision, Record
from harness.plan.schedule import by_replicate, further, replicates_wanted
from tests.analyze.synthetic import arm, comparison, config, plan, windows

PROTOCOL = Protocol(rounds=3, target=0.02, looks=(2, 3, 4, 6, 8))
NARROW, WIDE = Precision(half_width=0.02, outlying=False), Precision(half_width=0.021, outlying=False)


def wanted(begun: int, precision: Precision | None = WIDE, *, complete: bool = True, **changes: object) -> int:
    return replicates_wanted(begun, precision, replace(PROTOCOL, **changes), complete=complete)


@pytest.mark.parametrize(("begun", "goal"), [(2, 3), (3, 4), (4, 6), (6, 8), (8, 8)])
def test_what_is_too_wide_goes_on_to_the_next_look(begun: int, goal: int) -> None:
    assert wanted(begun) == goal
    assert wanted(begun, NARROW) == begun


def test_between_two_looks_nobody_looks() -> None:
    assert wanted(5, NARROW) == 6
    assert wanted(7, NARROW) == 8
    assert wanted(3, NARROW, complete=False) == 3
    assert wanted(3, complete=False) == 3


def test_infinite_width_is_too_wide() -> None:
    assert wanted(2, Precision(half_width=math.inf, outlying=False)) == 3


def test_what_disagrees_with_itself_gets_two_more_whatever_its_width_and_once() -> None:
    outlying = Precision(half_width=0.001, outlying=True)
    assert wanted(2, outlying) == 4
    assert wanted(3, outlying) == 6, "five is no look"
    assert wanted(4, outlying) == 4
    assert wanted(4, replace(outlying, half_width=0.03)) == 6


def test_what_has_no_estimate_gets_no_more() -> None:
    assert wanted(2, None) == 2
    assert wanted(3, None) == 3
    assert wanted(1, None) == 2


def test_without_a_target_nobody_gets_more() -> None:
    assert wanted(2, target=None, looks=()) == 2
    assert wanted(2, Precision(half_width=9.0, outlying=True), target=None, looks=()) == 2


def test_more_restarts_for_all_leave_out_the_earlier_looks() -> None:
    assert wanted(4, replicates=4) == 6
    assert wanted(4, NARROW, replicates=4) == 4
    assert replace(PROTOCOL, replicates=4).most_replicates == 8
    assert replace(PROTOCOL, replicates=5).look_from(5) == 5


def test_every_protocol_looks_where_all_have_their_restarts() -> None:
    for protocol in PROTOCOLS.values():
        assert protocol.target is not None
        assert protocol.looks == tuple(sorted(set(protocol.looks)))
        assert protocol.looks[0] == protocol.replicates
        assert (protocol.fixed().target, protocol.fixed().most_replicates) == (None, protocol.replicates)
    assert BRIEF.most_replicates == 8


# ------------------------------------------------------------------------------------------------ a plan's replicates

BLOCKS = tuple(
    Block(
        identity=identity,
        reference=config(),
        timing=Timing.STEP,
        comparisons=(comparison("workers"), comparison("amp")),
    )
    for identity in ("b00", "b01")
)
PLAN = replace(plan(), protocol=PROTOCOL, blocks=BLOCKS)


def measured(counts: dict[Place, int]) -> list[Record]:
    """Complete replicates of single treatments, each in an attempt of its own."""
    found: list[Record] = []
    for (block, position), count in counts.items():
        for replicate in range(count):
            for one in windows(block, replicate, 1.1, rounds=3, attempt=position):
                owner = replace(one.arm, position=position if one.arm.position else 0)
                found.append(replace(one, arm=owner))
    return found


def asked(
    counts: dict[Place, int], widths: dict[Place, float], the_plan: Plan = PLAN, extra: tuple[Record, ...] = ()
) -> list[tuple[str, int, tuple[int, ...]]]:
    precisions = {place: Precision(half_width=width, outlying=False) for place, width in widths.items()}
    kept = by_replicate([*measured(counts), *extra])
    return [(one.block.identity, one.replicate, one.positions) for one in further(the_plan, kept, precisions)]


ALL = {("b00", 1): 2, ("b00", 2): 2, ("b01", 1): 2, ("b01", 2): 2}


def test_only_the_treatments_that_need_it_and_the_widest_first() -> None:
    widths = {("b00", 1): 0.01, ("b00", 2): 0.03, ("b01", 1): 0.04, ("b01", 2): 0.05}
    assert asked(ALL, widths) == [("b01", 2, (2, 1)), ("b00", 2, (2,))]


def test_an_outlier_gets_two_more_also_where_a_block_has_more_replicates_than_others() -> None:
    longer = replace(PLAN, blocks=(replace(BLOCKS[0], replicates=4), BLOCKS[1]))
    kept = by_replicate(measured(dict.fromkeys(ALL, 4)))
    precisions = {("b00", 1): Precision(half_width=0.001, outlying=True)}
    assert [(one.replicate, one.positions) for one in further(longer, kept, precisions)] == [(4, (1,)), (5, (1,))]


def test_what_a_claim_tests_comes_first() -> None:
    claimed = replace(PLAN, blocks=(replace(BLOCKS[0], claimed=(1,)), BLOCKS[1]))
    widths = {("b00", 1): 0.03, ("b00", 2): 0.04, ("b01", 1): 0.05, ("b01", 2): 0.06}
    assert asked(ALL, widths, claimed) == [("b00", 2, (1, 2)), ("b01", 2, (2, 1))]


def test_nothing_is_asked_for_when_all_are_narrow_or_have_had_all_looks() -> None:
    assert asked(ALL, dict.fromkeys(ALL, 0.02)) == []
    assert asked(dict.fromkeys(ALL, 8), dict.fromkeys(ALL, 1.0)) == []


def test_what_lacks_a_restart_that_all_have_is_not_looked_at() -> None:
    assert asked({("b00", 1): 1}, {}) == []


def test_the_way_to_a_later_look_is_gone_in_single_restarts() -> None:
    widths = dict.fromkeys(ALL, 0.01) | {("b00", 1): 0.03}
    assert asked(ALL | {("b00", 1): 4}, widths) == [("b00", 4, (1,)), ("b00", 5, (1,))]
    narrow = dict.fromkeys(ALL, 0.01)
    assert asked(ALL | {("b00", 1): 5}, narrow) == [("b00", 5, (1,))], "it was begun, so it is finished"


def test_a_treatment_that_was_behind_catches_up_in_a_restart_that_others_have() -> None:
    widths = dict.fromkeys(ALL, 0.01) | {("b00", 2): 0.03}
    assert asked(ALL | {("b00", 1): 3}, widths) == [("b00", 2, (2,))]


def test_what_failed_gets_no_more() -> None:
    lost = Lost(arm=arm("b00", 2, 1, 9), outcome="failed", reason="out of memory")
    counts = ALL | {("b00", 1): 2}
    widths = dict.fromkeys(ALL, 0.01)
    del widths["b00", 1]  # a failure leaves no estimate
    assert asked(counts, widths, extra=(lost,)) == []


def test_what_was_begun_beside_an_arm_that_failed_later_gets_no_more_either() -> None:
    """No ratio can come of it, and a run that asks for it would never be finished."""
    begun = tuple(
        replace(one, arm=replace(one.arm, position=2 if one.arm.position else 0))
        for one in windows("b00", 2, 1.1, rounds=1, attempt=9)
    )
    lost = Lost(arm=arm("b00", 3, 0, 9), outcome="failed", reason="it crashed")
    widths = {place: 0.01 for place in ALL if place[0] == "b01"}
    assert asked(ALL, widths, extra=begun) == [("b00", 2, (2,))]
    assert asked(ALL, widths, extra=(*begun, lost)) == []
