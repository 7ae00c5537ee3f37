"""Settling: a window in which something was compiled does not count, and an arm that goes on like this is lost."""

from collections.abc import Iterator

import pytest
import torch

from harness.core.recipe import Recipe
from harness.measure.cuda import Cuda
from harness.measure.devices import Device
from harness.measure.warm_up import VOID, Events, Unsettled, events_of, undisturbed

CPU = Device("cpu")


def counting(*graphs: int) -> Iterator[Events]:
    return (Events(graphs=(one,)) for one in graphs)


def allocating(*allocations: int) -> Iterator[Events]:
    return (Events(allocations=one) for one in allocations)


def taken_of(readings: Iterator[Events], window_s: float = 1.0) -> str:
    """The window that counts, of several that are called a, b, c and so on."""
    windows = iter("abcdefgh")
    return undisturbed(lambda: next(windows), lambda: next(readings), lambda _: window_s)


def test_a_burst_without_events_is_the_first_one() -> None:
    assert taken_of(counting(5, 5)) == "a"


def test_a_burst_with_an_event_is_taken_again() -> None:
    assert taken_of(counting(0, 1, 1, 2, 2, 2)) == "c"
    assert taken_of(allocating(0, 5, 5, 9, 9, 9)) == "c"


@pytest.mark.parametrize(("window_s", "taken"), [(0.4, "b"), (13.0, "a")])
def test_an_allocation_disturbs_short_windows_alone(window_s: float, taken: str) -> None:
    assert taken_of(allocating(3, 5, 5, 5), window_s) == taken


def test_allocations_that_never_end_lose_no_arm() -> None:
    assert taken_of(allocating(*range(0, 100, 10))) == "abcd"[VOID]


def test_what_never_stops_compiling_is_lost_in_words() -> None:
    readings = counting(*range(100))
    count = []
    with pytest.raises(Unsettled, match="compiled in 4 windows in a row: it has no steady state"):
        undisturbed(lambda: count.append(1), lambda: next(readings), lambda _: 1000.0)
    assert len(count) == VOID + 1


def test_a_recompilation_is_an_event_where_the_recipe_compiles() -> None:
    function = torch.compile(lambda one: one * 2 + 1, backend="eager", dynamic=False)
    function(torch.ones(3))
    compiled, plain = events_of(Recipe(compile="default"), CPU), events_of(Recipe(), CPU)
    sizes = iter((4, 5, 5, 5))
    before = compiled()
    assert undisturbed(lambda: function(torch.ones(next(sizes))).shape[0], compiled, lambda _: 1.0) == 5
    assert next(sizes) == 5
    assert compiled() != before
    assert plain() == Events()


@pytest.mark.gpu
def test_memory_that_the_allocator_takes_is_an_event() -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device; would check that a first large tensor is an event and a second one is none")
    device = Cuda("cuda")
    events = events_of(Recipe(), device)
    torch.cuda.empty_cache()
    before = events()
    tensor = torch.empty(1 << 28, device=device.torch)
    grown = events()
    assert grown != before
    del tensor
    torch.empty(1 << 28, device=device.torch)
    assert events() == grown
    assert events_of(Recipe(empty_cache=True), device)() == Events()
