"""Settling: a burst in which something was compiled does not count, and an arm that goes on like this is lost."""

from collections.abc import Iterator

import pytest
import torch

from harness.core.recipe import Recipe
from harness.measure.settling import VOID, Unsettled, events_of, undisturbed

CPU = torch.device("cpu")


def counting(*readings: int) -> Iterator[tuple[int, ...]]:
    return ((one,) for one in readings)


def test_a_burst_without_events_is_the_first_one() -> None:
    taken, readings = iter("ab"), counting(5, 5)
    assert undisturbed(lambda: next(taken), lambda: next(readings)) == "a"


def test_a_burst_with_an_event_is_taken_again() -> None:
    taken, readings = iter("abc"), counting(0, 1, 1, 2, 2, 2)
    assert undisturbed(lambda: next(taken), lambda: next(readings)) == "c"


def test_what_never_settles_is_lost_in_words() -> None:
    readings = counting(*range(100))
    count = []
    with pytest.raises(Unsettled, match="in 4 windows in a row: it has no steady state"):
        undisturbed(lambda: count.append(1), lambda: next(readings))
    assert len(count) == VOID + 1


def test_a_recompilation_is_an_event_where_the_recipe_compiles() -> None:
    function = torch.compile(lambda one: one * 2 + 1, backend="eager", dynamic=False)
    function(torch.ones(3))
    compiled, plain = events_of(Recipe(compile="default"), CPU), events_of(Recipe(), CPU)
    sizes = iter((4, 5, 5, 5))
    before = compiled()
    assert undisturbed(lambda: function(torch.ones(next(sizes))).shape[0], compiled) == 5
    assert next(sizes) == 5
    assert compiled() != before
    assert plain() == ()


@pytest.mark.gpu
def test_memory_that_the_allocator_takes_is_an_event() -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device; would check that a first large tensor is an event and a second one is none")
    device = torch.device("cuda")
    events = events_of(Recipe(), device)
    torch.cuda.empty_cache()
    before = events()
    tensor = torch.empty(1 << 28, device=device)
    grown = events()
    assert grown != before
    del tensor
    torch.empty(1 << 28, device=device)
    assert events() == grown
    assert events_of(Recipe(empty_cache=True), device)() == ()
