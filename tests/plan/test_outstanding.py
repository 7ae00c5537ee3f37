from dataclasses import replace

import pytest

from harness.core.optimization import Timing
from harness.core.plan import Block
from harness.core.protocol import Protocol
from harness.core.records import TIMED_OUT, Fault, Lost, Record
from harness.plan.schedule import INTERRUPTED, failures, next_attempt, outstanding, settled
from tests.analyze.synthetic import arm, comparison, config, ready, window

PROTOCOL = Protocol(rounds=3)
BLOCK = Block(
    identity="b00",
    reference=config(),
    timing=Timing.STEP,
    comparisons=(comparison("workers"), comparison("amp")),
)


def windows(*positions: int, replicate: int = 0, attempt: int = 0, block: str = "b00") -> list[Record]:
    return [window(arm(block, replicate, position, attempt), order, 100.0) for order, position in enumerate(positions)]


def lost(position: int, outcome: str, *, attempt: int = 0, replicate: int = 0) -> Lost:
    return Lost(arm=arm("b00", replicate, position, attempt), outcome=outcome, reason="ended by SIGTERM")


def left(*records: Record, replicate: int = 0) -> dict[int, int]:
    return outstanding(BLOCK, replicate, records, PROTOCOL)


def test_a_fresh_block_needs_all_rounds() -> None:
    assert left() == {1: 3, 2: 3}
    assert left(ready(arm("b00", 0, 0)), ready(arm("b00", 0, 1))) == {1: 3, 2: 3}


def test_what_was_measured_is_not_measured_again() -> None:
    assert left(*windows(0, 1, 2, 0, 1, 0)) == {1: 1, 2: 2}
    assert left(*windows(0, 1, 2, 0, 1, 2, 0, 1, 2, 0)) == {}


def test_more_than_needed_is_enough() -> None:
    assert left(*windows(0, 1, 0, 1, 0, 1, 0, 1, 0)) == {2: 3}


def test_a_burst_that_a_cut_left_without_its_second_neighbour_does_not_count() -> None:
    assert left(*windows(0, 1, 2)) == {1: 3, 2: 3}
    assert left(*windows(0, 1, 0, 2)) == {1: 2, 2: 3}


def test_lives_add_up_and_no_bracket_spans_two_of_them() -> None:
    assert left(*windows(0, 1), *windows(2, 0, attempt=1)) == {1: 3, 2: 3}
    assert left(*windows(0, 1, 0), *windows(0, 1, 2, 0, attempt=1)) == {1: 1, 2: 2}


def test_arms_in_turn_need_their_reference_in_the_same_run() -> None:
    def alone(position: int, attempt: int, turn: int | None) -> list[Record]:
        owner = replace(arm("b00", 0, position, attempt), turn=turn)
        return [window(owner, order, 100.0) for order in range(3)]

    reference = alone(0, 0, 0)
    assert left(*reference, *alone(1, 1, 0)) == {2: 3}
    assert left(*reference, *alone(1, 1, 0), *alone(2, 2, 2)) == {2: 3}, "timed by another run"
    assert left(*reference, *alone(1, 1, 0), *alone(0, 2, 2), *alone(2, 3, 2)) == {}
    assert left(*alone(0, 0, None), *alone(1, 1, None)) == {2: 3}, "before runs were told apart"


def test_restarts_and_blocks_are_counted_apart() -> None:
    records = [*windows(0, 1, 0, replicate=1), *windows(0, 1, 0, 1, 0, block="b01")]
    assert left(*records) == {1: 3, 2: 3}
    assert left(*records, replicate=1) == {1: 2, 2: 3}


@pytest.mark.parametrize("outcome", ["failed", "skipped"])
def test_what_failed_needs_nothing_more_and_the_others_go_on(outcome: str) -> None:
    records = [*windows(0, 1, 2, 0), lost(1, outcome)]
    assert left(*records) == {2: 2}
    assert left(*records, replicate=1) == {1: 3, 2: 3}
    assert failures(records) == {("b00", 1)}


def test_what_failed_in_another_replicate_needs_nothing_in_this_one() -> None:
    over = failures([lost(1, "failed"), lost(2, INTERRUPTED)])
    assert over == {("b00", 1)}
    assert outstanding(BLOCK, 1, [], PROTOCOL, over) == {2: 3}
    assert outstanding(BLOCK, 1, [], PROTOCOL, failures([lost(0, "failed")])) == {}
    assert outstanding(replace(BLOCK, identity="b01"), 1, [], PROTOCOL, over) == {1: 3, 2: 3}


def test_without_a_reference_nothing_can_be_measured() -> None:
    assert left(lost(0, "failed")) == {}


def test_what_was_only_interrupted_is_tried_again() -> None:
    assert left(*windows(0, 1, 0), lost(1, INTERRUPTED), lost(0, INTERRUPTED)) == {1: 2, 2: 3}


def test_what_is_interrupted_thrice_has_failed() -> None:
    records: list[Record] = []
    for attempt in range(PROTOCOL.attempts):
        assert left(*records) == {1: 3, 2: 3}
        records.append(settled(lost(1, INTERRUPTED, attempt=attempt), records, PROTOCOL))
    assert [one.outcome for one in records if isinstance(one, Lost)] == [INTERRUPTED, INTERRUPTED, "failed"]
    assert isinstance(records[-1], Lost)
    assert records[-1].reason == "ended by SIGTERM, 3 times"
    assert left(*records) == {2: 3}


def test_the_count_stands_before_the_remedy() -> None:
    records: list[Record] = [lost(1, INTERRUPTED), lost(1, INTERRUPTED, attempt=1)]
    third = replace(lost(1, INTERRUPTED, attempt=2), reason="ended by SIGKILL; see dmesg")
    assert settled(third, records, PROTOCOL).reason == "ended by SIGKILL, 3 times; see dmesg"


def test_interruptions_of_others_do_not_count() -> None:
    others = [lost(2, INTERRUPTED), lost(0, INTERRUPTED), lost(1, INTERRUPTED, replicate=1), *windows(0, 1, 0)]
    assert settled(lost(1, INTERRUPTED), others, PROTOCOL).outcome == INTERRUPTED


def test_a_failure_is_settled_at_once() -> None:
    assert settled(lost(1, "failed"), [], PROTOCOL) == lost(1, "failed")


@pytest.mark.parametrize("kind", sorted(TIMED_OUT))
def test_a_time_out_is_tried_again_where_the_arm_has_given_windows_in_another_replicate(kind: Fault) -> None:
    late = replace(lost(1, "failed", replicate=1), kind=kind)
    assert settled(late, [*windows(0, 1, 0)], PROTOCOL).outcome == INTERRUPTED
    before: list[Record] = [replace(late, outcome=INTERRUPTED), replace(late, outcome=INTERRUPTED)]
    third = settled(late, [*windows(0, 1, 0), *before], PROTOCOL)
    assert (third.outcome, third.reason) == ("failed", "ended by SIGTERM, 3 times")


def test_a_time_out_of_an_arm_that_has_shown_nothing_yet_is_final() -> None:
    late = replace(lost(1, "failed", replicate=1), kind=Fault.WINDOW_TIME_OUT)
    for records in ([], windows(0, 2, 0), windows(0, 1, 0, replicate=1), windows(0, 1, 0, block="b01")):
        assert settled(late, records, PROTOCOL) == late
    crashed = replace(late, kind=Fault.CRASHED)
    assert settled(crashed, windows(0, 1, 0), PROTOCOL) == crashed


def test_the_next_life_comes_after_all_recorded_ones() -> None:
    records = [*windows(0, 1), lost(1, INTERRUPTED, attempt=2), *windows(0, replicate=1, attempt=7)]
    assert next_attempt(BLOCK, 0, []) == 0
    assert next_attempt(BLOCK, 0, records) == 3
    assert next_attempt(BLOCK, 1, records) == 8
