"""The collector's own full passes: each window bears its share, whether it met one or not."""

import gc
import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise

import pytest

from harness.measure import collector
from harness.measure.collector import OLD_SHARE, FullPasses, Growth, Share

Passed = tuple[float, float]  # what a window would have taken by the clock, and what is told of it


class Clock:
    """Stands still but for steps, and for full passes, each of which takes a second."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def passed(self, phase: str, told: dict[str, int]) -> None:
        self.now += phase == "start" and told["generation"] == 2


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """What the collector reads."""
    found = Clock()
    monkeypatch.setattr(collector, "perf_counter", found)
    return found


@pytest.fixture
def passes(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[FullPasses]:
    """Those of this process, counted from here."""
    found = FullPasses()
    monkeypatch.setattr(collector, "PASSES", found)
    found.begin()
    gc.callbacks.append(clock.passed)  # behind the one that reads the clock
    found.time()
    yield found
    gc.callbacks.remove(found._told)
    gc.callbacks.remove(clock.passed)


def step(objects: int = 2_000) -> None:
    """Some of its objects grow old before they are dropped; no step leaves any."""
    wave = [[one] for one in range(objects)]
    del wave


def window(clock: Clock, growth: Growth, steps: int, objects: int = 2_000) -> Passed:
    share, stamps = Share(growth), [clock.now]
    for _ in range(steps):
        step(objects)
        clock.now += 0.01
        stamps.append(clock.now)
    fair, _ = share.fair(stamps, 0.0, ahead=False)
    assert len(fair) == len(stamps)
    assert all(sooner < later for sooner, later in pairwise(fair))
    return stamps[-1] - stamps[0], fair[-1] - fair[0]


def test_python_begins_a_full_pass_where_as_many_objects_have_grown_old_as_were_counted(passes: FullPasses) -> None:
    while not passes.own:
        due, left = passes.grown, passes.left
        step()
    assert OLD_SHARE * due <= 1.2 * left
    assert OLD_SHARE * passes.grown >= 0.9 * left
    assert not passes.asked
    ((_, seconds, fetching),) = passes.own
    assert seconds == 1
    assert passes.cost_s == pytest.approx(1, rel=0.2)
    assert not fetching


@pytest.mark.parametrize(("steps", "objects"), [(10, 2_000), (3, 2_000), (50, 800)])
def test_all_windows_together_take_what_all_steps_take(
    clock: Clock, passes: FullPasses, steps: int, objects: int
) -> None:
    """Most of them meet no pass, as do most arms; each has its part all the same, of waves that have only begun too."""
    growth, taken, told = Growth(), 0.0, list[float]()
    while len(passes.own) < 4:
        by_clock, fair = window(clock, growth, steps, objects)
        taken += by_clock
        told.append(fair)
    assert sum(told) == pytest.approx(taken, abs=0.2 * 4)
    assert max(told) < 0.01 * steps + 0.5, "none holds a whole pass"


ARM = """
import gc, json, os
from harness.measure.collector import PASSES
imported = [[] for _ in range(250_000)]
PASSES.begin()
if not os.fork():
    PASSES.begin()
    grown = []
    while not PASSES.own:
        wave = [[one] for one in range(2_000)]
        grown.append(PASSES.grown)
    print(json.dumps([PASSES.left, grown[-1], PASSES.grown, PASSES.asked, PASSES.cost_s]))
else:
    os.wait()
"""


def test_a_forked_process_goes_on_behind_the_pass_of_the_one_that_it_was_forked_from() -> None:
    said = subprocess.run([sys.executable, "-c", ARM], check=True, capture_output=True, text=True).stdout
    left, before, after, asked, cost_s = json.loads(said)
    assert left > 250_000
    assert OLD_SHARE * before <= 1.1 * left, "Python began no pass later than a fourth of all that the server left"
    assert OLD_SHARE * after >= 0.9 * left, "nor sooner"
    assert not asked
    assert cost_s > 0, "as the server timed it"


def test_what_a_training_asks_for_is_left_where_it_comes(clock: Clock, passes: FullPasses) -> None:
    window(clock, Growth(), 30)
    share, stamps = Share(Growth()), [clock.now]
    gc.collect()
    stamps.append(clock.now)
    assert passes.asked == 1
    assert share.fair(stamps, 0.0, ahead=False) == (stamps, 0.0)
    by_clock, fair = window(clock, Growth(), 20)
    assert by_clock == fair, "Python's own passes are rare then"


def test_nothing_is_shared_out_where_nothing_is_collected(clock: Clock, passes: FullPasses) -> None:
    gc.disable()
    try:
        by_clock, fair = window(clock, Growth(), 30)
        assert by_clock == fair
    finally:
        gc.enable()


def test_a_pass_that_a_devices_queue_hides_takes_nothing_off(passes: FullPasses) -> None:
    """A device that works ahead of its host shows steps of 1 ms, of which one is 4 ms too long for a pass of 50 ms."""
    passes.each_s = [0.05 / passes.left]
    share, stamps = Share(Growth()), [0.0, 0.001, 0.002, 0.007, 0.008]
    passes.own.append((0.0025, 0.05, True))
    at_the_end, _ = share.fair(stamps, 0.006, ahead=True)
    assert at_the_end == pytest.approx(stamps), "the host went on when all steps were over"
    passes.own[-1] = 0.002, 0.0045, True
    fair, wait_s = Share(Growth(), _own=0).fair(stamps, 0.006, ahead=True)
    assert fair == pytest.approx([0.0, 0.001, 0.002, 0.003, 0.004])
    assert wait_s == pytest.approx(0.002)


@pytest.mark.parametrize("fetching", [True, False])
def test_waits_bear_what_comes_while_a_batch_is_fetched(clock: Clock, passes: FullPasses, fetching: bool) -> None:
    passes.fetching = fetching
    share, began = Share(Growth()), clock.now
    for _ in range(30):  # too few to meet a full pass
        step()
    clock.now += 0.3
    fair, wait_s = share.fair([began, clock.now], 0.0, ahead=False)
    assert not passes.own
    assert fair[1] - fair[0] > 0.31
    assert wait_s == pytest.approx(fetching * (fair[1] - fair[0] - 0.3))
