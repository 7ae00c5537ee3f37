import math

import numpy as np
import pytest
from scipy import special

from harness.analyze.pairing import fit_prior, freedom_together, moderate
from harness.core.protocol import PROTOCOLS, Protocol
from tests.analyze.simulate_moderation import LAWS, METHODS, Law, moderated, simulated
from tests.analyze.simulate_references import LOOKED, LOOKED_SPREADS, looked, outcome


def test_the_prior_is_found_again_in_many_cells() -> None:
    generator = np.random.default_rng(1)
    true = 0.02**2 * 8 / generator.chisquare(8, 4000)  # variances that vary: 8 degrees of freedom around 0.02 squared
    freedom = np.full(4000, 2.0)
    prior = fit_prior(true * generator.chisquare(2, 4000) / 2, freedom)
    assert prior.freedom == pytest.approx(8, rel=0.25)
    assert prior.variance == pytest.approx(0.02**2, rel=0.1)


def test_the_fit_solves_smyths_two_equations() -> None:
    variances, freedom = np.array([1e-5, 1e-4, 4e-4, 1e-3, 2e-2, 5e-2]), np.full(6, 3.0)
    prior = fit_prior(variances, freedom)
    centred = np.log(variances) - special.digamma(1.5) + np.log(1.5)
    half = prior.freedom / 2
    assert special.polygamma(1, half) == pytest.approx(centred.var(ddof=1) - special.polygamma(1, 1.5))
    assert math.log(prior.variance) == pytest.approx(centred.mean() + special.digamma(half) - math.log(half))


def test_cells_alike_share_one_variance() -> None:
    prior = fit_prior(np.full(5, 3e-4), np.ones(5))
    assert prior.freedom == math.inf
    # The mean of the log of a chi-square with one degree of freedom is digamma(1/2) + log 2 = -gamma - log 2.
    assert prior.variance == pytest.approx(3e-4 * 2 * math.exp(np.euler_gamma))
    found = moderate(np.full(5, 3e-4), np.ones(5))
    assert found is not None
    assert found.variances == pytest.approx(np.full(5, 3e-4))
    assert found.freedom == pytest.approx(np.full(5, 5.0))


def test_shrinking_weighs_by_degrees_of_freedom() -> None:
    variances, freedom = np.array([1e-4, 2e-4, 1e-3, 3e-4, 5e-5, 8e-4]), np.array([4.0, 4.0, 4.0, 4.0, 9.0, 9.0])
    found, prior = moderate(variances, freedom), fit_prior(variances, freedom)
    assert found is not None
    assert not found.outlying.any()
    plain_mean = (4 * (1e-4 + 2e-4 + 1e-3 + 3e-4) + 9 * (5e-5 + 8e-4)) / 34
    expected = (prior.freedom * plain_mean + freedom * variances) / (prior.freedom + freedom)
    assert found.variances == pytest.approx(expected)
    assert found.freedom == pytest.approx(np.minimum(prior.freedom + freedom, 34.0))


def test_a_cell_that_stands_apart_lends_nothing() -> None:
    calm = np.array([1.0, 2.0, 3.0, 2.0] * 3) * 1e-4
    found = moderate(np.append(calm, 0.5), np.full(13, 2.0))
    assert found is not None
    assert found.outlying.tolist() == [False] * 12 + [True]
    assert (found.variances[-1], found.freedom[-1]) == (0.5, 2.0)
    assert found.variances[:-1].mean() == pytest.approx(calm.mean())
    assert (found.freedom[:-1] <= 24).all()


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
@pytest.mark.parametrize("configs", [4, 10])
def test_the_simulation_of_the_decision_moderates_alike(law: Law, configs: int) -> None:
    _, variances = simulated(law, configs, replicates=3, pools=40)
    expected_variances, expected_freedom = moderated(variances, 2.0, METHODS[3])
    for pool, wanted, degrees in zip(variances, expected_variances, expected_freedom, strict=True):
        found = moderate(pool, np.full(configs, 2.0))
        assert found is not None
        assert found.variances == pytest.approx(wanted, rel=1e-5)
        assert found.freedom == pytest.approx(degrees, rel=1e-5)


def test_no_prior_from_too_few_cells_or_from_cells_without_variance() -> None:
    assert moderate(np.full(3, 1e-4), np.ones(3)) is None
    assert moderate(np.zeros(9), np.ones(9)) is None


def test_one_cell_without_variance_does_not_spoil_the_pool() -> None:
    found = moderate(np.array([0.0, 1e-4, 2e-4, 1e-4, 3e-4]), np.ones(5))
    assert found is not None
    assert np.isfinite(found.variances).all()


def test_luck_of_a_reference_that_all_share_is_known_by_its_replicates_alone() -> None:
    shared, own = np.array([0.03, -0.03]), [np.array([one, -one]) for one in (0.01, -0.02, 0.03, 0.0)]
    one, apart = [("one", (0, 1))] * 4, [(f"reference {index}", (0, 1)) for index in range(4)]
    assert freedom_together([shared] * 4, one) == pytest.approx(1)
    assert freedom_together([shared] * 4, apart) == pytest.approx(4)
    assert freedom_together([shared] * 4, [*one[:2], ("two", (0, 1)), ("two", (0, 1))]) == pytest.approx(2)
    nothing_in_common = [one - np.mean(own, axis=0) for one in own]
    assert freedom_together(nothing_in_common, one) == pytest.approx(4)
    assert freedom_together([np.zeros(2)] * 4, one) == 4


def test_replicates_of_a_reference_count_once_though_comparisons_have_unlike_many() -> None:
    two, three = np.array([0.04, -0.04]), np.array([0.04, -0.04, 0.0])
    one = [("one", (0, 1))] * 2 + [("one", (0, 1, 2))] * 2
    # Six degrees of freedom; any two of the comparisons have one in common, those of three replicates two.
    assert freedom_together([two, two, three, three], one) == pytest.approx(6**2 / (12 + 4 * 2))
    other = [("one", (0, 1))] * 2 + [("one", (2, 3))] * 2  # no process in common
    assert freedom_together([two] * 4, other) == pytest.approx(2)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_share_that_is_given_is_not_looked_for(share: float) -> None:
    own = [np.array([one, -one]) for one in (0.03, -0.03, 0.01, -0.01)]
    one = [("one", (0, 1))] * 4
    assert freedom_together(own, one) == pytest.approx(4)
    assert freedom_together(own, one, share) == pytest.approx(16 / (4 + share**2 * 12))


@pytest.mark.repeats
@pytest.mark.parametrize("shape", [(1, 8, 2), (1, 8, 4), (3, 8, 2)])
def test_intervals_hold_though_all_share_the_luck_of_one_reference(shape: tuple[int, int, int]) -> None:
    before, now = (outcome(shape, (4.0, 0.0), 200, known=known) for known in (False, True))
    assert before.coverage < 0.93
    assert now.coverage >= 0.94
    assert outcome(shape, (3.0, 3.0), 200, known=True).coverage > 0.94


@pytest.mark.repeats
@pytest.mark.parametrize("size", [4, 8])
def test_widths_end_no_measurement_that_the_luck_of_its_reference_narrowed(size: int) -> None:
    found = looked((1, size), (4.0, 1.0), 400 // size)
    assert found.coverage >= 0.91
    assert found.replicates > 3


@pytest.mark.thorough
@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)
@pytest.mark.parametrize("spreads", LOOKED_SPREADS)
@pytest.mark.parametrize("shape", LOOKED)
def test_intervals_hold_where_widths_end_the_measurement_of_blocks(
    shape: tuple[int, int], spreads: tuple[float, float], protocol: Protocol
) -> None:
    assert looked(shape, spreads, 100, protocol).coverage >= 0.91
