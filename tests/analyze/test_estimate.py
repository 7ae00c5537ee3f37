import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from harness.analyze.estimate import Estimate, estimates
from harness.analyze.pairing import Pairs, pair
from harness.analyze.verdict import Verdict
from tests.analyze.synthetic import Noise, bursts


def of(*restarts: float, interference: float = 0.0) -> Pairs:
    return Pairs(log_ratios=tuple((one,) for one in restarts), interference=interference)


def test_plain_t_by_hand_with_one_degree_of_freedom() -> None:
    (found,) = estimates([of(0.10, 0.14)])
    half_width = 12.7062047 * 0.02  # t(.975, 1) times the standard error of two values 0.04 apart
    assert (found.method, found.df, found.processes, found.pairs) == ("t", 1, 2, 2)
    assert found.ratio == pytest.approx(math.exp(0.12))
    assert math.log(found.low) == pytest.approx(0.12 - half_width)
    assert math.log(found.high) == pytest.approx(0.12 + half_width)
    assert found.verdict is Verdict.UNDECIDED


def test_fewer_than_four_cells_are_not_moderated() -> None:
    assert {one.method for one in estimates([of(0.1, 0.12)] * 3)} == {"t"}
    assert {one.method for one in estimates([of(0.1, 0.12)] * 4)} == {"moderated t"}


def test_a_pool_of_equal_spread_knows_as_much_as_all_its_restarts() -> None:
    found = estimates([of(0.10, 0.12)] * 5)[0]
    half_width = stats.t.ppf(0.975, 5) * math.sqrt(0.0002 / 2)  # 5 cells of one degree each, and not endless many
    assert found.df == 5
    assert math.log(found.high / found.ratio) == pytest.approx(half_width)


def test_an_outlying_cell_keeps_its_own_variance_and_is_said_to() -> None:
    spreads = [0.020, 0.022, 0.018, 0.024] * 6
    *calm, wild = estimates([of(0.1, 0.1 + spread) for spread in (*spreads, 1.6)])
    assert (wild.method, wild.df, wild.outlying) == ("t", 1, True)
    assert math.log(wild.high / wild.ratio) == pytest.approx(12.7062047 * 0.8)
    # The calm ones are so much alike that they share the mean of their own variances, spread ** 2 / 2, and nothing of
    # the wild one's.
    half_width = stats.t.ppf(0.975, 24) * math.sqrt(np.mean(np.square(spreads)) / 4)
    assert {(one.method, one.df, one.outlying) for one in calm} == {("moderated t", 24, False)}
    assert [math.log(one.high / one.ratio) for one in calm] == pytest.approx([half_width] * 24)


def test_one_restart_is_no_estimate() -> None:
    with pytest.raises(ValueError, match="two restarts"):
        estimates([of(0.1, 0.1), of(0.1)])


def test_a_cell_against_itself_is_exactly_one() -> None:
    own = [burst for restart in (0, 1) for burst in bursts(0, restart, 1.0)]
    for pool in ([pair(own, 1)], [pair(own, 1)] * 6):
        one = estimates(pool)[0]
        assert (one.ratio, one.plain_ratio) == (1.0, 1.0)
        assert not one.sensitive


def test_no_interval_is_narrower_than_processes_differ() -> None:
    least = 2.042272 * 0.009 / math.sqrt(2)  # t(.975, 30) times the least spread, over two restarts
    own = [burst for restart in (0, 1) for burst in bursts(0, restart, 1.0)]
    (alone,) = estimates([pair(own, 1)])
    assert math.log(alone.high) == pytest.approx(least)
    assert alone.verdict is Verdict.NO_EFFECT
    for one in estimates([of(0.1, 0.1 + spread) for spread in (0.001, 0.002, 0.001, 0.002)]):
        assert math.log(one.high / one.ratio) == pytest.approx(least)


def test_a_disturbed_machine_gives_no_verdict() -> None:
    calm, disturbed = (estimates([of(0.7, 0.7, interference=level)])[0] for level in (0.25, 0.26))
    assert (calm.verdict, calm.disturbed) == (Verdict.FASTER, False)
    assert (disturbed.verdict, disturbed.disturbed) == (Verdict.UNDECIDED, True)


def test_a_spoilt_bracket_does_not_carry_the_result_and_is_told_of() -> None:
    spiked = (0.0,) * 19 + (2.0,)
    (found,) = estimates([Pairs(log_ratios=(spiked, spiked), interference=0.0)])
    assert found.ratio == pytest.approx(1.0)
    assert found.plain_ratio == pytest.approx(math.exp(0.1))
    assert found.sensitive


def test_restarts_that_disagree_beyond_all_bounds_end_in_infinity() -> None:
    (found,) = estimates([of(-100.0, 100.0)])
    assert found.high == math.inf
    assert found.low == 0.0
    assert found.verdict is Verdict.UNDECIDED


@pytest.mark.parametrize(("restarts", "cells"), [(2, 1), (2, 12), (3, 12)])
def test_intervals_hold_the_known_ratio_as_often_as_they_promise(restarts: int, cells: int) -> None:
    generator = np.random.default_rng(11)
    noise = Noise(burst=0.02, restart=0.05, generator=generator)  # far above the least spread
    hits = [
        one.low <= 1.5 <= one.high
        for _ in range(360 // cells)
        for one in estimates([simulated(restarts, noise) for _ in range(cells)])
    ]
    assert 0.92 <= np.mean(hits) <= 0.98


def test_moderation_buys_width() -> None:
    noise = Noise(burst=0.02, restart=0.01, generator=np.random.default_rng(2))
    pool = [simulated(2, noise) for _ in range(20)]
    moderated, plain = estimates(pool), [estimates([one])[0] for one in pool]
    assert np.median([width(one) for one in moderated]) < 0.5 * np.median([width(one) for one in plain])


def simulated(restarts: int, noise: Noise) -> Pairs:
    return pair([one for restart in range(restarts) for one in bursts(0, restart, 1.5, noise=noise)], 1)


def width(estimate: Estimate) -> float:
    return math.log(estimate.high / estimate.low)


def test_others_on_the_cores_withhold_the_verdict() -> None:
    """However calm the reference itself may be."""
    calm, crowded = (estimates([replace(of(0.7, 0.7), crowding=share)])[0] for share in (0.1, 0.11))
    assert (calm.verdict, calm.unrest) == (Verdict.FASTER, None)
    assert crowded.verdict is Verdict.UNDECIDED
    assert crowded.unrest == "other processes took 11 % of its cores"
    assert (crowded.ratio, crowded.low) == (calm.ratio, calm.low)
