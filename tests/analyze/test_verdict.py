import pytest

from harness.analyze.verdict import Verdict, limits, verdict


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1.0101, 1.3, Verdict.FASTER),
        (1.011, 1.015, Verdict.FASTER),  # small, but beyond the margin
        (1.01, 1.3, Verdict.UNDECIDED),
        (0.5, 0.9899, Verdict.SLOWER),
        (0.5, 0.99, Verdict.UNDECIDED),
        (0.98, 1.02, Verdict.NO_EFFECT),
        (0.9799, 1.02, Verdict.UNDECIDED),
        (0.98, 1.0201, Verdict.UNDECIDED),
        (0.3, 10.8, Verdict.UNDECIDED),
    ],
)
def test_edges(low: float, high: float, expected: Verdict) -> None:
    assert verdict(low, high) is expected


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1.03, 1.3, Verdict.UNDECIDED),
        (1.031, 1.3, Verdict.FASTER),
        (0.5, 0.97, Verdict.UNDECIDED),
        (0.5, 0.969, Verdict.SLOWER),
        (0.99, 1.01, Verdict.UNDECIDED),  # whoever misses effects of 2 % cannot say that there is none
    ],
)
def test_edges_where_the_calibration_found_no_delay_below_3_percent(low: float, high: float, expected: Verdict) -> None:
    assert verdict(low, high, 0.03) is expected
    assert limits(0.03) == (0.97, 1.03, None)
