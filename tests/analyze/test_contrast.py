"""Contrasts: Welch's interval on logs, the floor under it, and how often it holds the truth."""

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from harness.analyze.estimate import (
    ALIKE,
    BY_WIDTH,
    FIXED,
    Difference,
    Estimate,
    average,
    contrast,
    difference,
    estimates,
)
from harness.analyze.pairing import Pairs
from harness.analyze.verdict import LEAST_FREEDOM, LEAST_SPREAD, Thresholds, Verdict
from tests.analyze.synthetic import pairs_of


def pairs(means: Iterable[float]) -> Pairs:
    """One pair in each replicate, so that a replicate's mean is its pair."""
    return pairs_of(*((mean,) for mean in means))


def estimate(means: Iterable[float]) -> Estimate:
    (one,) = estimates([pairs(means)])
    return one


WIDE = estimate((0.50, 0.62, 0.41, 0.55))
WIDER = estimate((0.20, 0.45, -0.02, 0.31, 0.1))
TIGHT = estimate((0.3, 0.3001, 0.2999, 0.3))


def test_it_is_welchs_interval_of_the_restarts() -> None:
    ours, theirs = (0.50, 0.62, 0.41, 0.55), (0.20, 0.45, -0.02, 0.31, 0.1)
    oracle = stats.ttest_ind(ours, theirs, equal_var=False)
    interval = oracle.confidence_interval(0.95)
    found = contrast(WIDE, WIDER)
    assert (math.log(found.low), math.log(found.high)) == pytest.approx((interval.low, interval.high))
    assert found.df == pytest.approx(oracle.df)
    assert math.log(found.ratio) == pytest.approx(np.mean(ours) - np.mean(theirs))


@pytest.mark.repeats
@pytest.mark.parametrize("few", [0.02, 0.05])
def test_all_of_ten_hold_together_where_two_replicates_stand_against_four(few: float) -> None:
    """The least that a side is known within counts at the level of each of the ten."""
    random, trials, held = np.random.default_rng(8), 300, 0
    for _ in range(trials):
        sides = ((random.normal(0, few, 2), random.normal(0, 0.01, 4)) for _ in range(10))
        found = [contrast(estimate(map(float, ours)), estimate(map(float, theirs)), 10) for ours, theirs in sides]
        held += all(one.low <= 1 <= one.high for one in found)
    assert held / trials >= 0.9, held


def test_where_both_sides_are_as_narrow_as_is_believed_so_is_the_contrast() -> None:
    found = contrast(TIGHT, TIGHT)
    expected = stats.t.ppf(0.975, 2 * LEAST_FREEDOM) * LEAST_SPREAD * math.sqrt(2 / 4)
    assert math.log(found.high) == pytest.approx(expected)
    assert found.high > TIGHT.high / TIGHT.ratio
    assert found.df == pytest.approx(2 * LEAST_FREEDOM)


def test_averages_of_runs_that_disagree_are_held_apart_by_all_that_their_runs_differ() -> None:
    """One run of each side measured the same ratio, so that nobody knows on which side it pays more."""

    def averaged(*logs: float) -> Estimate:
        return average([estimate(log + off for off in (-0.01, 0.01, -0.01, 0.01)) for log in logs])

    low, high = averaged(0.0, 0.2), averaged(0.2, 0.4)
    assert low.apart
    assert high.apart
    assert contrast(high, low).difference is Difference.UNDECIDED


def test_two_restarts_that_agree_by_luck_make_no_certainty() -> None:
    lucky = estimate((0.3, 0.3001))
    assert lucky.df == 1
    assert math.log(contrast(lucky, lucky).high) > math.log(lucky.high / lucky.ratio)


def test_an_interval_whose_restarts_followed_its_width_has_the_same_standard_error() -> None:
    means = pairs((0.50, 0.62, 0.41, 0.55))
    (fixed,), (by_width,) = estimates([means], FIXED), estimates([means], BY_WIDTH)
    assert by_width.half_width > fixed.half_width
    assert by_width.standard_error == pytest.approx(fixed.standard_error)
    assert contrast(by_width, by_width).high > contrast(fixed, fixed).high


def test_no_difference_is_known_better_than_the_worse_known_side() -> None:
    """Welch's interval would be narrower: a second side that is known well lends it degrees of freedom."""
    vague = estimate((0.3, 0.33))
    assert vague.df == 1
    for found in (contrast(vague, TIGHT), contrast(TIGHT, vague)):
        assert math.log(found.high / found.ratio) == pytest.approx(math.log(vague.high / vague.ratio))
    standard_error = math.sqrt((0.015**2) + LEAST_SPREAD**2 / 4)
    assert stats.t.ppf(0.975, contrast(vague, TIGHT).df) * standard_error < math.log(vague.high / vague.ratio)


@pytest.mark.parametrize(("ours", "theirs"), [(WIDE, WIDER), (TIGHT, WIDE), (TIGHT, estimate((0.05, 0.06, 0.055)))])
def test_the_other_way_round_it_is_the_inverse(ours: Estimate, theirs: Estimate) -> None:
    one, other = contrast(ours, theirs), contrast(theirs, ours)
    assert (other.ratio, other.low, other.high) == pytest.approx((1 / one.ratio, 1 / one.high, 1 / one.low))
    opposite = {Difference.MORE: Difference.LESS, Difference.LESS: Difference.MORE}
    assert other.difference is opposite.get(one.difference, one.difference)


def test_the_coarser_calibration_of_the_two_holds_for_their_difference() -> None:
    less = replace(TIGHT, ratio=TIGHT.ratio / 1.045, low=TIGHT.low / 1.045, high=TIGHT.high / 1.045)
    coarse = replace(less, thresholds=Thresholds(margin=0.04))
    assert contrast(TIGHT, less).difference is Difference.MORE
    assert contrast(TIGHT, coarse).difference is Difference.UNDECIDED
    assert contrast(coarse, TIGHT).difference is Difference.UNDECIDED
    assert contrast(TIGHT, TIGHT).difference is Difference.ALIKE
    assert contrast(coarse, coarse).difference is Difference.UNDECIDED


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (1.011, 1.5, Difference.MORE),
        (1.009, 1.5, Difference.UNDECIDED),
        (0.5, 1 / 1.011, Difference.LESS),
        (0.5, 1 / 1.009, Difference.UNDECIDED),
        (1 / ALIKE, ALIKE, Difference.ALIKE),
        (0.97, 1.01, Difference.UNDECIDED),
        (0.99, 1.03, Difference.UNDECIDED),
        (1.012, 1.02, Difference.MORE),  # within what is alike, and surely not the same
        (0.0, math.inf, Difference.UNDECIDED),
        (0.0, 0.5, Difference.LESS),
    ],
)
def test_the_words(low: float, high: float, word: Difference) -> None:
    assert difference(low, high) is word
    if low > 0:
        opposite = {Difference.MORE: Difference.LESS, Difference.LESS: Difference.MORE}
        assert difference(1 / high, 1 / low) is opposite.get(word, word)


def test_what_is_known_within_no_bounds_decides_nothing() -> None:
    endless = replace(WIDE, low=0.0, high=math.inf, df=1.0)
    for found in (contrast(endless, TIGHT), contrast(TIGHT, endless)):
        assert (found.low, found.high, found.df) == (0.0, math.inf, 1.0)
        assert found.difference is Difference.UNDECIDED


def test_a_restless_machine_decides_nothing() -> None:
    far = estimate((1.3, 1.3001, 1.2999, 1.3))
    assert contrast(far, TIGHT).difference is Difference.MORE
    restless = replace(far, drift=0.4, verdict=Verdict.DISTURBED)
    assert contrast(restless, TIGHT).difference is Difference.UNDECIDED
    assert contrast(TIGHT, restless).difference is Difference.UNDECIDED


def test_what_a_devices_table_decides_is_judged_nowhere() -> None:
    told = replace(estimate((1.3, 1.3001, 1.2999, 1.3)), looked_up=True, verdict=Verdict.UNDECIDED)
    assert contrast(told, TIGHT).difference is Difference.UNDECIDED
    assert contrast(TIGHT, told).difference is Difference.UNDECIDED
    assert contrast(told, told).difference is Difference.UNDECIDED


@pytest.mark.parametrize(
    ("configs", "replicates", "spreads"),
    [
        (1, (2, 2), (0.05, 0.02)),
        (1, (2, 4), (0.05, 0.01)),  # Welch's interval alone holds in 90 % of cases
        (1, (4, 4), (0.05, 0.02)),
        (12, (2, 2), (0.05, 0.02)),  # twelve configurations share their variances
    ],
)
def test_the_intervals_hold_the_truth_as_often_as_they_promise(
    configs: int, replicates: tuple[int, int], spreads: tuple[float, float]
) -> None:
    random, held = np.random.default_rng(5), list[bool]()
    for _ in range(400 // configs):
        here, there = (
            estimates([pairs(random.normal(truth, spread, count)) for _ in range(configs)])
            for truth, spread, count in zip((0.6, 0.2), spreads, replicates, strict=True)
        )
        found = [contrast(ours, theirs) for ours, theirs in zip(here, there, strict=True)]
        held += [one.low <= math.exp(0.4) <= one.high for one in found]
    assert 0.925 <= sum(held) / len(held) <= 0.995
