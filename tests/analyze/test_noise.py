"""Noise of configurations that are the same: bounds, correlations and trends, each on values whose truth is known."""

import numpy as np
import pytest
from scipy import stats

from harness.analyze.calibration import allowed_misses, cost_of_a_window, lag_one, mean_of, trend


@pytest.mark.parametrize(("count", "allowed"), [(20, 3), (40, 5), (25, 4), (100, 10)])
def test_sound_machines_pass_and_one_miss_less_would_fail_too_many(count: int, allowed: int) -> None:
    assert allowed_misses(count) == allowed
    assert stats.binom.cdf(allowed, count, 0.05) >= 0.98
    assert stats.binom.cdf(allowed - 1, count, 0.05) < 0.98


def test_the_bound_of_twenty_has_the_power_that_the_method_claims() -> None:
    assert stats.binom.cdf(allowed_misses(20), 20, 0.20) == pytest.approx(0.41, abs=0.01)


@pytest.mark.parametrize("length", [4, 5, 12])
@pytest.mark.parametrize("correlation", [0.0, 0.3, -0.2])
def test_neighbours_correlate_as_they_were_made_to_however_short_the_series(length: int, correlation: float) -> None:
    random = np.random.default_rng(length)
    noise = random.normal(size=(6000, length))
    values = noise.copy()
    for at in range(1, length):
        values[:, at] = correlation * values[:, at - 1] + np.sqrt(1 - correlation**2) * noise[:, at]
    levels = random.normal(0, 5, size=(6000, 1))  # every series has a level of its own
    assert lag_one([list(one) for one in values + levels]) == pytest.approx(correlation, abs=0.03)


def test_no_correlation_is_told_of_series_that_cannot_show_one() -> None:
    assert lag_one([]) is None
    assert lag_one([[1.0, 2.0]]) is None
    assert lag_one([[1.0, 1.0, 1.0]]) is None
    assert lag_one([[1.0, -1.0, 1.0, -1.0]]) == -0.95
    assert lag_one([[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0]]) == 0.95


def test_a_trend_is_found_within_groups_whatever_their_levels() -> None:
    places = [0.0, 0.5, 1.0] * 4
    groups = [group for group in "abcd" for _ in range(3)]
    levels = {"a": 3.0, "b": -2.0, "c": 0.0, "d": 10.0}
    random = np.random.default_rng(0)
    values = [
        levels[group] + 0.02 * place + random.normal(0, 0.001) for group, place in zip(groups, places, strict=True)
    ]
    found = trend(values, places, groups)
    assert found is not None
    assert found.low < 0.02 < found.high
    assert found.excludes_zero
    assert found.high - found.low < 0.01


def test_a_trend_that_is_not_there_is_found_in_one_case_of_twenty() -> None:
    random = np.random.default_rng(5)
    groups = [group for group in range(8) for _ in range(4)]
    false = 0
    for _ in range(1000):
        found = trend(list(random.normal(size=32)), list(random.uniform(size=32)), groups)
        assert found is not None
        false += found.excludes_zero
    assert 0.03 < false / 1000 < 0.07


def test_nothing_is_told_where_nothing_can_tell() -> None:
    assert trend([1.0, 2.0], [0.0, 1.0], ["a", "a"]) is None  # no degree of freedom is left
    assert trend([1.0, 2.0, 3.0], [0.5, 0.5, 0.5], ["a", "a", "a"]) is None
    assert mean_of([1.0]) is None
    assert cost_of_a_window([]) is None
    assert cost_of_a_window([[(8, 1.0), (8, 1.1), (8, 1.2)]] * 3) is None


def test_what_a_burst_costs_beside_its_steps_is_found() -> None:
    random = np.random.default_rng(1)

    def windows(cost_s: float) -> list[tuple[int, float]]:
        steps = random.integers(16, 25, size=12)
        return [(int(one), cost_s + float(one) * 0.05 * float(random.normal(1, 0.002))) for one in steps]

    found, nothing = (cost_of_a_window([windows(cost_s) for _ in range(30)]) for cost_s in (0.03, 0.0))
    assert found is not None
    assert nothing is not None
    assert found.low < 0.03 < found.high
    assert found.excludes_zero
    assert not nothing.excludes_zero
