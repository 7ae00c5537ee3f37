"""The collector's full passes: they come at another step of every arm, so that no arm alone meets them."""

import gc
import random
from collections.abc import Callable

import pytest

from harness.measure.devices import collect_at_any_step

DRAWS = 12


def objects_until_a_full_pass(before: Callable[[], object]) -> int:
    """How many objects grow old, in thousands, until the collector looks at all."""
    passes: list[None] = []

    def count(phase: str, told: dict[str, int]) -> None:
        passes.extend([None] * (phase == "stop" and told["generation"] == 2))

    gc.collect()
    before()
    gc.callbacks.append(count)
    try:
        kept: list[list[list[None]]] = []
        while not passes:
            kept.append([[] for _ in range(1000)])
    finally:
        gc.callbacks.remove(count)
    return len(kept)


def test_full_passes_come_at_any_time_up_to_the_usual_one() -> None:
    usual = objects_until_a_full_pass(lambda: None)
    drawn = [objects_until_a_full_pass(collect_at_any_step) for _ in range(DRAWS)]
    assert usual == pytest.approx(objects_until_a_full_pass(lambda: None), rel=0.2), "else there is nothing to draw"
    assert min(drawn) < 0.6 * usual
    assert max(drawn) > min(drawn) * 1.3
    assert max(drawn) < 1.3 * usual


def test_where_nothing_is_collected_nothing_is_drawn() -> None:
    gc.disable()
    try:
        before = gc.get_stats()[1]["collections"]
        collect_at_any_step()
        assert gc.get_stats()[1]["collections"] == before
    finally:
        gc.enable()


def test_a_trainings_own_random_numbers_stay_as_they_were() -> None:
    state = random.getstate()
    collect_at_any_step()
    assert random.getstate() == state
