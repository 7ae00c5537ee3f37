"""Noise of configurations that are the same: how many of their intervals may miss the truth."""

import pytest
from scipy import stats

from harness.analyze.calibration import allowed_misses


@pytest.mark.parametrize(("count", "allowed"), [(20, 3), (40, 5), (25, 4), (100, 10)])
def test_sound_machines_pass_and_one_miss_less_would_fail_too_many(count: int, allowed: int) -> None:
    assert allowed_misses(count) == allowed
    assert stats.binom.cdf(allowed, count, 0.05) >= 0.98
    assert stats.binom.cdf(allowed - 1, count, 0.05) < 0.98


def test_the_bound_of_twenty_has_the_power_that_the_method_claims() -> None:
    assert stats.binom.cdf(allowed_misses(20), 20, 0.20) == pytest.approx(0.41, abs=0.01)
