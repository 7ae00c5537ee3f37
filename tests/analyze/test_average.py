"""Averages of runs: they hold more often than a single run, widen where runs disagree, and add up what was measured."""

import math
from dataclasses import replace

import numpy as np
import pytest

from harness.analyze.estimate import OF_RUNS, Estimate, average, estimates
from tests.analyze.simulate_averages import held
from tests.analyze.synthetic import pairs_of

ONE, OTHER = estimates([pairs_of((0.50,), (0.62,), (0.41,), (0.55,)), pairs_of((0.45,), (0.60,), (0.39,), (0.53,))])


def moved(estimate: Estimate, log: float) -> Estimate:
    """The same interval elsewhere."""
    ratio, low, high = (one * math.exp(log) for one in (estimate.ratio, estimate.low, estimate.high))
    return replace(estimate, ratio=ratio, low=low, high=high)


@pytest.mark.parametrize("between", [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("runs", [2, 4])
def test_it_holds_more_often_than_a_single_run_and_is_narrower_unless_runs_disagree(runs: int, between: float) -> None:
    found = held(runs, between, 1_500)
    assert found.average > found.single
    assert (found.width < 1) == (between <= 1)
    assert found.average > (0.945 if between <= 0.5 else 0.84)


def test_of_runs_that_agree_it_is_the_mean_weighted_by_inverse_squared_errors() -> None:
    found = average([ONE, OTHER])
    errors = np.array([ONE.standard_error[0], OTHER.standard_error[0]])
    logs = np.log([ONE.ratio, OTHER.ratio])
    assert math.log(found.ratio) == pytest.approx(np.average(logs, weights=errors**-2.0))
    assert found.standard_error[0] >= (errors**-2.0).sum() ** -0.5
    assert found.half_width < min(ONE.half_width, OTHER.half_width)
    assert (found.scale, found.runs, found.method) == (1.0, 2, OF_RUNS)
    assert (found.processes, found.pairs) == (8, ONE.pairs + OTHER.pairs)


def test_runs_that_contradict_each_other_widen_it() -> None:
    apart = average([ONE, moved(ONE, 10 * ONE.half_width)])
    assert apart.scale > 5
    assert apart.half_width > 5 * average([ONE, ONE]).half_width
    assert apart.apart


def test_it_reaches_no_further_than_they_do() -> None:
    other = moved(ONE, 3 * ONE.half_width)
    found = average([ONE, other])
    assert found.df < 2
    assert (found.low, found.high) == pytest.approx((ONE.low, other.high))


def test_one_run_is_its_own_average() -> None:
    assert average([ONE]) is ONE


def test_more_runs_are_never_believed_to_be_narrower_than_all_their_replicates_may_be() -> None:
    (tight,) = estimates([pairs_of(*((0.3,) for _ in range(4)))])
    assert tight.half_width / 2 <= average([tight] * 4).half_width < tight.half_width


def test_no_run_decides_alone_whose_replicates_agreed_best() -> None:
    """Hours differ by more than its error: it is one of four hours, and not three quarters of them."""
    (narrow,) = estimates([pairs_of((0.5,), (0.5,), (0.5,), (0.5,))])
    wide = moved(ONE, 0.75 - math.log(ONE.ratio))
    found = average([narrow, *[moved(wide, away) for away in (-0.02, 0.0, 0.02)]])
    assert found.apart
    assert 0.6 < math.log(found.ratio) < 0.75
    assert found.high > wide.ratio
