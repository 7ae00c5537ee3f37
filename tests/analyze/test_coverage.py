"""Coverage: shares with honest intervals, and a check that fails what should fail."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from benchmarks.invented.coverage import Held, Trial, as_if_independent, checked, held, share, tally, trimmed, unpaired
from harness.analyze.estimate import FIXED
from harness.analyze.verdict import Verdict
from tests.analyze.synthetic import pairs_of


def interval(error: float = 0.0, half_width: float = 0.02, machine_s: float = 100.0, truth: float = 1.0) -> Held:
    centre = math.log(truth) + error
    return held(truth, (math.exp(centre - half_width), math.exp(centre + half_width)), machine_s)


def pools(hits: list[int], configs: int = 20) -> list[list[Held]]:
    """Pools with so many intervals that hold."""
    return [[interval(0.0 if index < count else 0.1) for index in range(configs)] for count in hits]


def trial(ours: Held, conventional: Held) -> Trial:
    return Trial(ours=ours, trimmed=ours, window_pairs_alone=ours, conventional=conventional, replicates=2)


def covers(one: Held) -> bool:
    return one.covers


def test_an_interval_is_held_against_the_truth() -> None:
    assert interval(0.019).covers
    assert interval(-0.019, truth=1.7).covers
    assert not interval(0.021).covers
    assert not interval(-0.021, truth=1.7).covers
    assert interval(0.3, half_width=0.07).half_width == pytest.approx(0.07)


@pytest.mark.parametrize(
    ("one", "wrong"),
    [
        (interval(0.0), False),
        (interval(0.05), True),
        (interval(-0.05), True),
        (interval(0.025), False),  # above 1, but by less than a verdict needs
        (interval(0.05, truth=1.02), False),  # too much, but faster it is
    ],
)
def test_only_a_cell_that_changes_nothing_can_be_called_faster_wrongly(one: Held, *, wrong: bool) -> None:
    assert one.wrong is wrong


def test_a_verdict_that_was_given_is_not_judged_again() -> None:
    assert not replace(interval(0.05), verdict=Verdict.UNDECIDED).wrong


def test_a_share_of_independent_cells_has_the_exact_binomial_interval() -> None:
    found = share(pools([19] * 20), covers)  # pools that differ less than chance lets them gain nothing by it
    exact = stats.binomtest(380, 400).proportion_ci(0.95)
    assert (found.value, found.configs) == (0.95, 400)
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high))


def test_a_share_of_cells_that_miss_together_is_less_certain() -> None:
    together, apart = (share(pools(hits), covers) for hits in ([20] * 18 + [10, 10], [19] * 20))
    assert together.value == apart.value
    assert together.high - together.low > 2 * (apart.high - apart.low)


@pytest.mark.parametrize(("hits", "value"), [([20] * 5, 1.0), ([0] * 5, 0.0)])
def test_a_share_of_all_or_none_still_has_an_interval(hits: list[int], value: float) -> None:
    found = share(pools(hits), covers)
    exact = stats.binomtest(sum(hits), 100).proportion_ci(0.95)
    assert found.value == value
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high))


def test_a_share_of_no_cells_says_nothing() -> None:
    found = share([[], []], covers)
    assert (found.low, found.high, found.configs) == (0.0, 1.0, 0)


def test_intervals_of_shares_hold_where_pools_share_their_luck() -> None:
    generator, held_it = np.random.default_rng(7), 0
    for _ in range(200):
        chances = generator.beta(19 * 3, 3, 60)
        found = share(pools([int(generator.binomial(20, one)) for one in chances]), covers)
        held_it += found.low <= 0.95 <= found.high
    assert held_it >= 0.92 * 200


def test_wrong_verdicts_are_counted_among_the_cells_that_change_nothing() -> None:
    configs = [interval(0.05), interval(), *[interval(truth=1.5) for _ in range(6)]]
    found = tally([configs])
    assert (found.wrong_verdicts.value, found.wrong_verdicts.configs) == (0.5, 2)
    assert found.coverage.value == 7 / 8


def test_half_the_width_takes_four_times_the_time() -> None:
    found = tally([[interval(half_width=0.04, machine_s=100.0), interval(half_width=0.04, machine_s=300.0)]])
    assert found.machine_s == 200.0
    assert found.machine_s_at(0.02) == pytest.approx(800.0)


def environment(missed: int = 1, wrong: int = 0, conventional: Held | None = None) -> tuple[bool, bool, bool]:
    """Whether each of the three bars is met where so many of twenty ratios in every pool are missed or wrong."""
    ours = [interval(0.05) for _ in range(wrong)] + [interval(0.025) for _ in range(missed - wrong)]
    ours += [interval() for _ in range(20 - missed)]
    check = checked("test", [[trial(one, conventional or interval(machine_s=200.0)) for one in ours]] * 10)
    assert check.kept is (check.covers and check.sparing and check.truthful)
    return check.covers, check.sparing, check.truthful


def test_each_promise_can_be_missed_alone() -> None:
    assert environment() == (True, True, True)
    assert environment(missed=2) == (False, True, True)
    assert environment(missed=0) == (False, True, True)  # too wide is not what was promised either
    assert environment(wrong=1) == (True, True, False)
    assert environment(conventional=interval(machine_s=199.0)) == (True, False, True)
    assert environment(conventional=interval(machine_s=199.0, half_width=0.04)) == (True, True, True)


def test_against_stalls_of_the_workload_no_saving_is_promised() -> None:
    pool = [[trial(interval(), interval(machine_s=50.0))] * 20]
    assert not checked("test", pool).sparing
    assert checked("test", pool, stalls=True).sparing


def test_the_price_of_total_time_is_the_square_of_the_widths() -> None:
    wide = Trial(
        ours=interval(half_width=0.03), trimmed=interval(half_width=0.02), window_pairs_alone=interval(),
        conventional=interval(), replicates=2,
    )  # fmt: skip
    assert checked("test", [[wide]]).price == pytest.approx(2.25)


def test_trimmed_means_know_nothing_of_windows() -> None:
    """One pair of ten stands far out in both replicates: the mean without it is 1.00x, as narrow as is believed."""
    stalled = pairs_of([0.0] * 9 + [-1.0], [0.0] * 9 + [-1.0])
    (found,) = trimmed([stalled], FIXED)
    assert found.ratio == pytest.approx(1.0)
    assert found.low > 0.98


def test_the_conventional_interval_is_welchs() -> None:
    reference, treatment = (1.0, 1.1, 0.9, 1.05), (1.6, 1.4, 1.5)
    means, variances, counts = zip(
        *((np.mean(one), np.var(one, ddof=1), len(one)) for one in (reference, treatment)), strict=True
    )
    parts = [variance / count for variance, count in zip(variances, counts, strict=True)]
    df = sum(parts) ** 2 / sum(part**2 / (count - 1) for part, count in zip(parts, counts, strict=True))
    half_width = stats.t.ppf(0.975, df) * math.sqrt(sum(parts))
    expected = math.exp(means[1] - means[0] - half_width), math.exp(means[1] - means[0] + half_width)
    assert unpaired(reference, treatment) == pytest.approx(expected)


def test_brackets_taken_as_independent_overlook_what_restarts_differ_by() -> None:
    generator, held_it = np.random.default_rng(8), 0
    for _ in range(500):
        luck = generator.normal(0.0, 0.01, (2, 1))
        logs = luck + generator.normal(0.0, 0.01, (2, 12))
        low, high = as_if_independent(pairs_of(*logs))
        held_it += low <= 1.0 <= high
    assert held_it < 0.7 * 500
