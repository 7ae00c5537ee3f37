"""The collector's own full passes: each window bears its share, whether it met one or not."""

import gc
from collections.abc import Iterator
from itertools import pairwise
from time import perf_counter

import pytest

from harness.measure import collector
from harness.measure.collector import OLD_SHARE, FullPasses, Growth, Share

Passed = tuple[float, float]  # what a window would have taken by the clock, and what is told of it


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Iterator[FullPasses]:
    """Those of this process, counted from here."""
    found = FullPasses()
    monkeypatch.setattr(collector, "PASSES", found)
    found.collect()
    found.begin()
    yield found
    gc.callbacks.remove(found._told)


def step(objects: int = 2_000) -> None:
    """Some of its objects grow old before they are dropped; no step leaves any."""
    wave = [[one] for one in range(objects)]
    del wave


def window(growth: Growth, steps: int, objects: int = 2_000) -> Passed:
    share, stamps = Share(growth), [perf_counter()]
    for _ in range(steps):
        step(objects)
        stamps.append(perf_counter())
    fair, _ = share.fair(stamps, 0.0, ahead=False)
    assert len(fair) == len(stamps)
    assert all(sooner < later for sooner, later in pairwise(fair))
    return stamps[-1] - stamps[0], fair[-1] - fair[0]


def test_python_begins_a_full_pass_where_as_many_objects_have_grown_old_as_were_counted(passes: FullPasses) -> None:
    while not passes.own:
        due, left = passes.grown, passes.left
        step()
    assert OLD_SHARE * due <= 1.1 * left
    assert OLD_SHARE * passes.grown >= 0.95 * left
    assert not passes.asked
    ((_, seconds, fetching),) = passes.own
    assert seconds >= passes.costs_s[-1] > 0
    assert not fetching


@pytest.mark.parametrize(("steps", "objects"), [(10, 2_000), (3, 2_000), (50, 800)])
def test_all_windows_together_take_what_all_steps_take(passes: FullPasses, steps: int, objects: int) -> None:
    """Most of them meet no pass, as do most arms; each has its part all the same, of waves that have only begun too."""
    growth, taken, told = Growth(), 0.0, list[float]()
    while len(passes.own) < 4:
        met, fair = window(growth, steps, objects)
        taken += met
        told.append(fair)
    met_s = sum(seconds for _, seconds, _ in passes.own)
    assert sum(told) == pytest.approx(taken, abs=0.4 * met_s)
    assert max(told) < 0.5 * met_s / 4 + 4 * sorted(told)[len(told) // 2], "none holds a whole pass"


def test_what_a_training_asks_for_is_left_where_it_comes(passes: FullPasses) -> None:
    window(Growth(), 100)
    stamps = [perf_counter()]
    share = Share(Growth())
    gc.collect()
    stamps.append(perf_counter())
    assert passes.asked == 1
    assert share.fair(stamps, 0.0, ahead=False) == (stamps, 0.0)
    met, fair = window(Growth(), 20)
    assert met == fair, "Python's own passes are rare then"


def test_nothing_is_shared_out_where_nothing_is_collected(passes: FullPasses) -> None:
    gc.disable()
    try:
        met, fair = window(Growth(), 30)
        gc.collect(1)
        assert met == fair
    finally:
        gc.enable()


def test_a_pass_that_a_devices_queue_hides_takes_nothing_off(passes: FullPasses) -> None:
    """A device that works ahead of its host shows steps of 1 ms, of which one is 4 ms too long for a pass of 50 ms."""
    passes.costs_s = [0.05]
    share, stamps = Share(Growth()), [0.0, 0.001, 0.002, 0.007, 0.008]
    passes.own.append((0.0025, 0.05, True))
    at_the_end, _ = share.fair(stamps, 0.006, ahead=True)
    assert at_the_end == pytest.approx(stamps), "the host went on when all steps were over"
    passes.own[-1] = 0.002, 0.0045, True
    fair, wait_s = Share(Growth(), _own=0).fair(stamps, 0.006, ahead=True)
    assert fair == pytest.approx([0.0, 0.001, 0.002, 0.003, 0.004])
    assert wait_s == pytest.approx(0.002)


def test_waits_bear_what_comes_while_a_batch_is_fetched(passes: FullPasses) -> None:
    growth, waits = Growth(), list[float]()
    for fetching in (True, False):
        passes.fetching = fetching
        share, began = Share(growth), perf_counter()
        for _ in range(100):
            step()
        ended = perf_counter()
        fair, wait_s = share.fair([began, ended], 0.0, ahead=False)
        waits.append(wait_s / (fair[1] - fair[0] - (ended - began)))
        growth = Growth(settled=True)
    assert waits == pytest.approx([1.0, 0.0], abs=0.01)
