import pytest

from harness.analyze.search.winner import fitted
from harness.core.configuration import Option

A, B = Option(name="a"), Option(name="b")
GIB = 1 << 30


def test_what_switches_do_to_a_peak_multiplies() -> None:
    found = fitted([((), 4 * GIB), ((A,), 6 * GIB), ((B,), 5 * GIB)], limit=7 * GIB)
    assert found.peak(()) == pytest.approx(4 * GIB, rel=0.03)
    assert found.peak((A, B)) == pytest.approx(4 * 1.5 * 1.25 * GIB, rel=0.05)
    assert found.fits((A,))
    assert not found.fits((A, B))


def test_a_switch_that_nobody_measured_changes_nothing() -> None:
    found = fitted([((), GIB), ((A,), GIB)], limit=2 * GIB)
    assert found.peak((B,)) == pytest.approx(GIB, rel=0.01)
