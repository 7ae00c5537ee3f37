"""The collector's full passes: they come before a window, so that no arm alone meets them."""

import gc
from collections.abc import Iterator

import pytest

from harness.measure.devices import collected_when_due, old_objects


@pytest.fixture
def passes() -> Iterator[list[None]]:
    """One entry for each full pass."""
    found: list[None] = []

    def count(phase: str, told: dict[str, int]) -> None:
        found.extend([None] * (phase == "stop" and told["generation"] == 2))

    gc.collect()
    gc.callbacks.append(count)
    yield found
    gc.callbacks.remove(count)


def test_no_full_pass_comes_between_two_that_were_due(passes: list[None]) -> None:
    """Steps that keep some objects, in windows that are short against the time between two passes."""
    left, kept, within, before = old_objects(), list[list[list[None]]](), 0, 0
    for _ in range(400):
        count = len(passes)
        left = collected_when_due(left)
        before += len(passes) - count
        count = len(passes)
        kept += [[[] for _ in range(1000)]]  # a window
        within += len(passes) - count
    assert before >= 1, "as many objects have grown old"
    assert not within


def test_a_pass_that_is_far_away_is_not_run(passes: list[None]) -> None:
    left = old_objects()
    assert collected_when_due(left) == left
    assert not passes


def test_where_nothing_is_collected_nothing_is_run(passes: list[None]) -> None:
    gc.disable()
    try:
        kept = [[] for _ in range(400_000)]  # type: ignore[var-annotated]
        assert collected_when_due(1) == 1
        assert kept
        assert not passes
    finally:
        gc.enable()
