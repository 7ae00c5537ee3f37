"""Settling: a window in which something was compiled does not count, and an arm that goes on like this is lost."""

from collections.abc import Iterator

import pytest
import torch

from harness.core.recipe import Recipe
from harness.measure.warm_up import VOID, Unsettled, graphs_of, undisturbed


def counting(*graphs: int) -> Iterator[tuple[int, ...]]:
    return ((one,) for one in graphs)


def taken_of(readings: Iterator[tuple[int, ...]]) -> str:
    """The window that counts, of several that are called a, b, c and so on."""
    windows = iter("abcdefgh")
    return undisturbed(lambda: next(windows), lambda: next(readings))


def test_a_burst_without_events_is_the_first_one() -> None:
    assert taken_of(counting(5, 5)) == "a"


def test_a_burst_with_an_event_is_taken_again() -> None:
    assert taken_of(counting(0, 1, 1, 2, 2, 2)) == "c"


def test_what_never_stops_compiling_is_lost_in_words() -> None:
    readings = counting(*range(100))
    count = []
    with pytest.raises(Unsettled, match="compiled in 4 windows in a row: it has no steady state"):
        undisturbed(lambda: count.append(1), lambda: next(readings))
    assert len(count) == VOID + 1


def test_a_recompilation_is_an_event_where_the_recipe_compiles() -> None:
    function = torch.compile(lambda one: one * 2 + 1, backend="eager", dynamic=False)
    function(torch.ones(3))
    compiled, plain = graphs_of(Recipe(compile="default")), graphs_of(Recipe())
    sizes = iter((4, 5, 5, 5))
    before = compiled()
    assert undisturbed(lambda: function(torch.ones(next(sizes))).shape[0], compiled) == 5
    assert next(sizes) == 5
    assert compiled() != before
    assert plain() == ()
