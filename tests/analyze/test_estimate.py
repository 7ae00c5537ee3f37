import math
from dataclasses import replace
from itertools import zip_longest

import numpy as np
import pytest
from scipy import stats

from benchmarks.invented.coverage import trimmed
from harness.analyze.estimate import BY_LEAST, BY_WINDOWS, FIXED, Estimate, estimates
from harness.analyze.pairing import Pairs, Replicate, errors, pair
from harness.analyze.verdict import Verdict
from harness.core.records import Window
from tests.analyze.synthetic import Noise, arm, pairs_of, window, windows


def of(*replicates: float, drift: float = 0.0) -> Pairs:
    return pairs_of(*((one,) for one in replicates), drift=drift)


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
    half_width = stats.t.ppf(0.975, 5) * math.sqrt(
        0.0002 / 2
    )  # 5 configurations of one degree each, and not endless many
    assert found.df == pytest.approx(5)
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
    with pytest.raises(ValueError, match="two replicates"):
        estimates([of(0.1, 0.1), of(0.1)])


def test_a_cell_against_itself_is_exactly_one() -> None:
    own = [window for replicate in (0, 1) for window in windows(0, replicate, 1.0)]
    for pool in ([pair(own, 1)], [pair(own, 1)] * 6):
        one = estimates(pool)[0]
        assert (one.ratio, one.trimmed_ratio) == (1.0, 1.0)
        assert not one.sensitive


def test_no_interval_is_narrower_than_processes_differ() -> None:
    least = 2.042272 * 0.009 / math.sqrt(2)  # t(.975, 30) times the least spread, over two replicates
    own = [window for replicate in (0, 1) for window in windows(0, replicate, 1.0)]
    (alone,) = estimates([pair(own, 1)])
    assert math.log(alone.high) == pytest.approx(least)
    assert alone.verdict is Verdict.NO_EFFECT
    for one in estimates([of(0.1, 0.1 + spread) for spread in (0.001, 0.002, 0.001, 0.002)]):
        assert math.log(one.high / one.ratio) == pytest.approx(least)


def test_a_disturbed_machine_gives_no_verdict() -> None:
    calm, disturbed = (estimates([of(0.7, 0.7, drift=level)])[0] for level in (0.25, 0.26))
    assert (calm.verdict, calm.disturbed) == (Verdict.FASTER, False)
    assert (disturbed.verdict, disturbed.disturbed) == (Verdict.DISTURBED, True)


def attempt(replicate: int, reference_s: list[float], treatment_s: list[float]) -> list[Window]:
    """Windows in turn, of ten steps and these seconds."""
    took = [one for both in zip_longest(reference_s, treatment_s) for one in both if one is not None]
    return [
        replace(window(arm(0, replicate, order % 2), order, 100.0), wall_s=wall_s) for order, wall_s in enumerate(took)
    ]


def test_a_stall_in_one_window_of_twenty_counts_in_full_and_is_told_of() -> None:
    """Both wait for a second in nineteen windows; in the twentieth the treatment waits for twenty."""
    own = [one for replicate in (0, 1) for one in attempt(replicate, [1.0] * 21, [1.0] * 19 + [20.0])]
    (found,) = estimates([pair(own, 1)])
    assert found.ratio == pytest.approx(20 / 39)
    assert found.trimmed_ratio == pytest.approx(1.0)
    assert found.method == BY_WINDOWS  # the replicates agree, and a single window decides both
    assert found.low < 20 / 39 < 1 < found.high
    assert not found.sensitive  # the interval says as much


def test_unequal_costs_of_which_a_trimmed_mean_sees_the_usual_half() -> None:
    """One window in four is slow, and the treatment halves the usual cost alone: 4.75 s of 7 remain, not half."""
    reference, treatment = [1.0, 1.0, 1.0, 4.0] * 3, [0.5, 0.5, 0.5, 4.0] * 3
    own = [one for replicate in range(4) for one in attempt(replicate, [*reference, 1.0], treatment)]
    (found,) = estimates([pair(own, 1)])
    assert found.trimmed_ratio == pytest.approx(2.0, rel=0.35)
    assert found.ratio == pytest.approx(7 / 5.5, rel=0.02)


def test_the_interval_is_no_narrower_than_windows_scatter() -> None:
    """Two replicates agree to the last digit while their windows scatter by 20 %."""
    generator = np.random.default_rng(5)
    took = generator.normal(1.0, 0.2, (2, 13)).clip(0.5)
    own = [one for replicate in (0, 1) for one in attempt(replicate, list(took[0]), list(took[1, :12]))]
    pairs = pair(own, 1)
    (found,) = estimates([pairs])
    variance, freedom = errors(pairs)  # of a pair, of which there are twelve in each of two replicates
    error = math.sqrt(variance / 24)
    assert (found.method, found.df) == (BY_WINDOWS, freedom)
    assert found.half_width == pytest.approx(stats.t.ppf(0.975, freedom) * error)
    assert found.standard_error == pytest.approx((error, freedom))
    assert error == pytest.approx(0.2 * math.sqrt(2 / 12 / 2), rel=0.4)


def test_windows_of_a_pool_know_more_of_their_scatter_than_those_of_one_cell() -> None:
    noise = Noise(window=0.1, generator=np.random.default_rng(6))
    pool = []
    for _ in range(8):
        found = simulated(2, noise)
        agreeing = tuple(replace(one, log_ratio=0.1) for one in found.replicates)
        pool.append(replace(found, replicates=agreeing))
    (alone,), pooled = estimates(pool[:1]), estimates(pool)
    assert {one.method for one in (alone, *pooled)} == {BY_WINDOWS}
    assert alone.df == 6
    assert min(one.df for one in pooled) > 12


def test_replicates_with_a_single_window_have_no_scatter_and_borrow_it() -> None:
    many = Replicate(log_ratio=0.1, window_pairs=(0.0, 0.1, 0.2, 0.1), error=0.1, matched_error=0.2, freedom=3)
    one = Replicate(log_ratio=0.1, window_pairs=(0.1,))
    (both,) = estimates([Pairs(replicates=(many, one), drift=0.0)])
    # A single window has four times the variance of four: 0.04, over two replicates.
    assert both.half_width == pytest.approx(stats.t.ppf(0.975, 3) * math.sqrt(0.01 + 0.04) / 2)
    (neither,) = estimates([Pairs(replicates=(one, one), drift=0.0)])
    assert neither.method == BY_LEAST, "both came to the same"


def test_calm_windows_leave_intervals_as_they_were() -> None:
    noise = Noise(window=0.01, replicate=0.007, generator=np.random.default_rng(9))
    pool = [simulated(2, noise) for _ in range(40)]
    ours, before = estimates(pool), trimmed(pool, FIXED)
    assert np.median([width(one) for one in ours]) < 1.5 * np.median([width(one) for one in before])


def test_restarts_that_disagree_beyond_all_bounds_end_in_infinity() -> None:
    (found,) = estimates([of(-100.0, 100.0)])
    assert found.high == math.inf
    assert found.low == 0.0
    assert found.verdict is Verdict.UNDECIDED


@pytest.mark.parametrize(("replicates", "configs"), [(2, 1), (2, 12), (3, 12)])
def test_intervals_hold_the_known_ratio_as_often_as_they_promise(replicates: int, configs: int) -> None:
    generator = np.random.default_rng(11)
    noise = Noise(window=0.02, replicate=0.05, generator=generator)  # far above the least spread
    hits = [
        one.low <= 1.5 <= one.high
        for _ in range(360 // configs)
        for one in estimates([simulated(replicates, noise) for _ in range(configs)])
    ]
    assert 0.92 <= np.mean(hits) <= 0.98


def test_moderation_buys_width() -> None:
    noise = Noise(window=0.02, replicate=0.01, generator=np.random.default_rng(2))
    pool = [simulated(2, noise) for _ in range(20)]
    moderated, plain = estimates(pool), [estimates([one])[0] for one in pool]
    assert np.median([width(one) for one in moderated]) < 0.5 * np.median([width(one) for one in plain])


def simulated(replicates: int, noise: Noise) -> Pairs:
    return pair([one for replicate in range(replicates) for one in windows(0, replicate, 1.5, noise=noise)], 1)


def width(estimate: Estimate) -> float:
    return math.log(estimate.high / estimate.low)


def test_others_on_the_cores_withhold_the_verdict() -> None:
    """However calm the reference itself may be."""
    calm, contended = (estimates([replace(of(0.7, 0.7), contention=share)])[0] for share in (0.1, 0.11))
    assert (calm.verdict, calm.disturbance) == (Verdict.FASTER, None)
    assert contended.verdict is Verdict.DISTURBED
    assert contended.disturbance == "other processes took 11 % of its cores"
    assert (contended.ratio, contended.low) == (calm.ratio, calm.low)
