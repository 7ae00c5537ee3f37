"""The collector's own full passes: each window bears its share, whether it met one or not."""

import gc
from collections.abc import Iterator
from math import inf

import pytest

from harness.measure import collector
from harness.measure.collector import OLD_SHARE, FullPasses, Share


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Iterator[FullPasses]:
    """Those of this process, counted from here."""
    found = FullPasses()
    monkeypatch.setattr(collector, "PASSES", found)
    found.collect()
    found.begin()
    yield found
    gc.callbacks.remove(found._told)


def step() -> None:
    """Some of its objects grow old before they are dropped; no step leaves any."""
    wave = [[one] for one in range(2_000)]
    del wave


def test_python_begins_a_full_pass_where_as_many_objects_have_grown_old_as_were_counted(passes: FullPasses) -> None:
    while not passes.own:
        due, left = passes.grown, passes.left
        step()
    assert OLD_SHARE * due <= 1.02 * left
    assert OLD_SHARE * passes.grown >= 0.98 * left
    assert not passes.asked
    assert passes.cost_s == passes.own[0][1] > 0


def test_windows_that_meet_none_bear_as_much_as_all_steps_together_take(passes: FullPasses) -> None:
    owed = 0.0
    while len(passes.own) < 4:
        share = Share()
        step()
        owed += share.owed_s(inf)
    met = sum(seconds for _, seconds in passes.own)
    assert owed == pytest.approx(0.0, abs=0.4 * met)  # what they bear less what they met


def test_a_window_bears_its_share_of_a_pass_that_it_does_not_meet(passes: FullPasses) -> None:
    share = Share()
    for _ in range(20):
        step()
    owed = share.owed_s(inf)
    assert owed == pytest.approx(OLD_SHARE * passes.grown / passes.left * passes.cost_s)
    assert owed > 0
    assert share.owed_s(inf, 0.5) == pytest.approx(owed / 2)


def test_what_a_training_asks_for_is_left_where_it_comes(passes: FullPasses) -> None:
    share = Share()
    step()
    gc.collect()
    assert passes.asked == 1
    assert share.owed_s(inf) == 0.0
    step()
    assert share.owed_s(inf) == 0.0, "Python's own passes are rare then"


def test_nothing_is_shared_out_where_nothing_is_collected(passes: FullPasses) -> None:
    gc.disable()
    try:
        share = Share()
        for _ in range(30):
            step()
        assert share.owed_s(inf) == 0.0
    finally:
        gc.enable()


def test_what_grows_old_in_no_window_is_nobody_s(passes: FullPasses) -> None:
    step()
    assert Share().owed_s(inf) == 0.0
