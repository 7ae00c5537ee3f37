from dataclasses import replace

import pytest

from harness.core.optimization import Timing
from harness.core.plan import Block
from harness.core.protocol import Protocol
from harness.core.records import Lost, Record
from harness.plan.schedule import INTERRUPTED, given_up, next_life, outstanding, settled
from tests.analyze.synthetic import arm, burst, cell, comparison, ready

PROTOCOL = Protocol(rounds=3)
BLOCK = Block(
    identity="b00",
    reference=cell(),
    timing=Timing.STEP,
    comparisons=(comparison("workers"), comparison("amp")),
)


def bursts(*positions: int, restart: int = 0, life: int = 0, block: str = "b00") -> list[Record]:
    return [burst(arm(block, restart, position, life), order, 100.0) for order, position in enumerate(positions)]


def lost(position: int, outcome: str, *, life: int = 0, restart: int = 0) -> Lost:
    return Lost(arm=arm("b00", restart, position, life), outcome=outcome, reason="ended by SIGTERM")


def left(*records: Record, restart: int = 0) -> dict[int, int]:
    return outstanding(BLOCK, restart, records, PROTOCOL)


def test_a_fresh_block_needs_all_rounds() -> None:
    assert left() == {1: 3, 2: 3}
    assert left(ready(arm("b00", 0, 0)), ready(arm("b00", 0, 1))) == {1: 3, 2: 3}


def test_what_was_measured_is_not_measured_again() -> None:
    assert left(*bursts(0, 1, 2, 0, 1, 0)) == {1: 1, 2: 2}
    assert left(*bursts(0, 1, 2, 0, 1, 2, 0, 1, 2, 0)) == {}


def test_more_than_needed_is_enough() -> None:
    assert left(*bursts(0, 1, 0, 1, 0, 1, 0, 1, 0)) == {2: 3}


def test_a_burst_that_a_cut_left_without_its_second_neighbour_does_not_count() -> None:
    assert left(*bursts(0, 1, 2)) == {1: 3, 2: 3}
    assert left(*bursts(0, 1, 0, 2)) == {1: 2, 2: 3}


def test_lives_add_up_and_no_bracket_spans_two_of_them() -> None:
    assert left(*bursts(0, 1), *bursts(2, 0, life=1)) == {1: 3, 2: 3}
    assert left(*bursts(0, 1, 0), *bursts(0, 1, 2, 0, life=1)) == {1: 1, 2: 2}


def test_restarts_and_blocks_are_counted_apart() -> None:
    records = [*bursts(0, 1, 0, restart=1), *bursts(0, 1, 0, 1, 0, block="b01")]
    assert left(*records) == {1: 3, 2: 3}
    assert left(*records, restart=1) == {1: 2, 2: 3}


@pytest.mark.parametrize("outcome", ["failed", "skipped"])
def test_what_failed_needs_nothing_more_and_the_others_go_on(outcome: str) -> None:
    records = [*bursts(0, 1, 2, 0), lost(1, outcome)]
    assert left(*records) == {2: 2}
    assert left(*records, restart=1) == {1: 3, 2: 3}
    assert given_up(1, records)
    assert not given_up(2, records)


def test_without_a_reference_nothing_can_be_measured() -> None:
    assert left(lost(0, "failed")) == {}


def test_what_was_only_interrupted_is_tried_again() -> None:
    assert left(*bursts(0, 1, 0), lost(1, INTERRUPTED), lost(0, INTERRUPTED)) == {1: 2, 2: 3}


def test_what_is_interrupted_thrice_has_failed() -> None:
    records: list[Record] = []
    for life in range(PROTOCOL.lives):
        assert left(*records) == {1: 3, 2: 3}
        records.append(settled(lost(1, INTERRUPTED, life=life), records, PROTOCOL))
    assert [one.outcome for one in records if isinstance(one, Lost)] == [INTERRUPTED, INTERRUPTED, "failed"]
    assert isinstance(records[-1], Lost)
    assert records[-1].reason == "ended by SIGTERM, 3 times"
    assert left(*records) == {2: 3}


def test_the_count_stands_before_the_remedy() -> None:
    records: list[Record] = [lost(1, INTERRUPTED), lost(1, INTERRUPTED, life=1)]
    third = replace(lost(1, INTERRUPTED, life=2), reason="ended by SIGKILL; see dmesg")
    assert settled(third, records, PROTOCOL).reason == "ended by SIGKILL, 3 times; see dmesg"


def test_interruptions_of_others_do_not_count() -> None:
    others = [lost(2, INTERRUPTED), lost(0, INTERRUPTED), lost(1, INTERRUPTED, restart=1), *bursts(0, 1, 0)]
    assert settled(lost(1, INTERRUPTED), others, PROTOCOL).outcome == INTERRUPTED


def test_a_failure_is_settled_at_once() -> None:
    assert settled(lost(1, "failed"), [], PROTOCOL) == lost(1, "failed")


def test_the_next_life_comes_after_all_recorded_ones() -> None:
    records = [*bursts(0, 1), lost(1, INTERRUPTED, life=2), *bursts(0, restart=1, life=7)]
    assert next_life(BLOCK, 0, []) == 0
    assert next_life(BLOCK, 0, records) == 3
    assert next_life(BLOCK, 1, records) == 8
