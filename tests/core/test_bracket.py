from random import Random

from harness.core.records import Window, window_pairs
from tests.analyze.synthetic import arm, window


def attempt(*positions: int) -> list[Window]:
    return [window(arm(position=position), order, 100.0) for order, position in enumerate(positions)]


def orders(windows: list[Window], position: int) -> list[tuple[int, int, int]]:
    return [(one.before.order, one.treatment.order, one.after.order) for one in window_pairs(windows, position)]


def test_a_treatment_stands_between_its_nearest_references() -> None:
    found = attempt(0, 1, 2, 0, 2, 1, 0)
    assert orders(found, 1) == [(0, 1, 3), (3, 5, 6)]
    assert orders(found, 2) == [(0, 2, 3), (3, 4, 6)]


def test_the_nearer_of_two_references_in_a_row_counts() -> None:
    assert orders(attempt(0, 0, 1, 0, 0), 1) == [(1, 2, 3)]


def test_without_both_neighbours_there_is_no_bracket() -> None:
    assert orders(attempt(1, 0, 1), 1) == []
    assert orders(attempt(1, 1, 1), 1) == []
    assert orders([], 1) == []


def test_two_bursts_between_two_references_are_two_brackets() -> None:
    assert orders(attempt(0, 1, 1, 0), 1) == [(0, 1, 3), (0, 2, 3)]


def test_bursts_are_taken_in_the_order_in_which_they_ran() -> None:
    found = attempt(0, 1, 0, 2, 0, 1, 0)
    shuffled = list(found)
    Random(4).shuffle(shuffled)
    assert orders(shuffled, 1) == orders(found, 1) == [(0, 1, 2), (4, 5, 6)]
