from functools import partial

import numpy as np
import pytest

from benchmarks.precision.intervals import Finding, Stated, of_means, of_medians, of_stated

TRUTH, REPETITIONS = 1.05, 400


def drawn(random: np.random.Generator, count: int) -> tuple[list[float], list[float]]:
    """Independent values that scatter by 4 %, the reference's 1.05 times as long."""
    sides = (scale * random.lognormal(0.0, 0.04, count) for scale in (TRUTH, 1.0))
    reference, treatment = (one.tolist() for one in sides)
    return reference, treatment


@pytest.mark.parametrize("way", [partial(of_means, pooled=True), partial(of_means, pooled=False), of_medians])
@pytest.mark.parametrize("count", [8, 60])
def test_intervals_hold_the_truth_where_values_are_independent(way: object, count: int) -> None:
    random = np.random.default_rng(count)
    found: list[Finding] = [way(*drawn(random, count)) for _ in range(REPETITIONS)]  # type: ignore[operator]
    held = sum(one.low <= TRUTH <= one.high for one in found) / REPETITIONS
    assert 0.92 <= held <= (0.999 if way is of_medians else 0.98)  # the order of few values gives more than 95 %
    assert np.mean([one.ratio for one in found]) == pytest.approx(TRUTH, abs=0.003)


def test_a_t_test_and_its_interval_agree_on_what_is_a_change() -> None:
    random = np.random.default_rng(1)
    found = [of_means(*drawn(random, 12), pooled=True) for _ in range(REPETITIONS)]
    assert np.mean([one.changed is one.excludes_one for one in found]) > 0.98  # one is in logarithms
    assert 0.5 < np.mean([one.changed for one in found]) < 0.95  # neither rule is empty


def test_pooled_values_give_what_a_textbook_gives() -> None:
    found = of_means([2.0, 4.0], [0.9, 1.1], pooled=True)
    # Relative variances 2/9 and 0.02 with one degree each: pooled 0.12111, times 1/2 + 1/2, and t(.975, 2) = 4.3027.
    assert found.ratio == pytest.approx(3.0)
    assert np.log(found.high / 3.0) == pytest.approx(4.3027 * 0.34801, rel=1e-4)
    assert np.log(3.0 / found.low) == pytest.approx(4.3027 * 0.34801, rel=1e-4)


def test_stated_intervals_are_put_together_as_independent() -> None:
    reference, treatment = (
        Stated(seconds=centre, low=centre * (1 - half), high=centre * (1 + half))
        for centre, half in ((1.05, 0.03), (1.0, 0.04))
    )
    found = of_stated(reference, treatment)
    assert np.log(found.high / found.ratio) == pytest.approx(0.05)
    assert np.log(of_stated(reference, treatment, scale=0.5).high / found.ratio) == pytest.approx(0.025)


@pytest.mark.parametrize(("gap", "changed"), [(1.01, False), (1.03, True)])
def test_stated_intervals_that_overlap_show_no_change(gap: float, changed: bool) -> None:
    sides = [Stated(seconds=centre, low=centre * 0.99, high=centre * 1.01) for centre in (gap, 1.0)]
    assert of_stated(sides[0], sides[1]).changed is changed


def test_too_few_values_give_no_interval() -> None:
    with pytest.raises(ValueError, match="two values"):
        of_means([1.0], [1.0, 1.1], pooled=True)
    with pytest.raises(ValueError, match="six values"):
        of_medians([1.0, 1.1, 1.2, 1.3, 1.4], [1.0, 1.1, 1.2, 1.3, 1.4])


def test_an_interval_that_reaches_below_zero_is_only_very_wide() -> None:
    found = of_stated(Stated(seconds=1.0, low=-2.0, high=4.0), Stated(seconds=1.0, low=0.99, high=1.01))
    assert np.log(found.high) == pytest.approx(3.0, rel=1e-4)
    assert found.low > 0
    assert found.changed is False
