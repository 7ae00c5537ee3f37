"""The rules of docs/decisions/claims-ledger.md, their edges, and that every interval gets exactly one verdict."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analyze.claims import (
    REFUTED,
    ClaimVerdict,
    MeasuredValue,
    allowed,
    promises_a_loss,
    promises_an_effect,
    replicates_needed,
    rule,
)
from harness.core.claims import Bound, Claim, Metric

DECIDED = set(ClaimVerdict) - {ClaimVerdict.UNDECIDED}


def claim(bound: Bound = Bound.RANGE, **facts: Any) -> Claim:
    figures: dict[str, Any] = {"low": 1.5, "high": 2.0} if bound is Bound.RANGE and "low" not in facts else {}
    given_facts = {"metric": Metric.THROUGHPUT, **figures, **facts}
    return Claim(name="toy", text="x", source="x", workload="leak", bound=bound, treatment="workers=2", **given_facts)


def measured_value(low: float, high: float, replicates: int = 2) -> MeasuredValue:
    return MeasuredValue(value=math.sqrt(low * high), low=low, high=high, replicates=replicates)


@pytest.mark.parametrize(
    ("low", "high", "claim_verdict"),
    [
        (1.5, 2.0, ClaimVerdict.CONFIRMED),
        (1.6, 1.9, ClaimVerdict.CONFIRMED),
        (1.499, 1.9, ClaimVerdict.UNDECIDED),
        (1.6, 2.001, ClaimVerdict.UNDECIDED),
        (1.2, 1.499, ClaimVerdict.OVERSTATED),
        (1.2, 1.5, ClaimVerdict.UNDECIDED),
        (1.01, 1.3, ClaimVerdict.UNDECIDED),  # perhaps no gain at all
        (1.011, 1.3, ClaimVerdict.OVERSTATED),
        (2.001, 2.5, ClaimVerdict.UNDERSTATED),
        (2.0, 2.5, ClaimVerdict.UNDECIDED),
        (0.98, 1.02, ClaimVerdict.NO_EFFECT),
        (0.979, 1.02, ClaimVerdict.UNDECIDED),
        (0.98, 1.021, ClaimVerdict.UNDECIDED),
        (0.8, 0.989, ClaimVerdict.HARMFUL),
        (0.8, 0.99, ClaimVerdict.UNDECIDED),
        (0.5, 3.0, ClaimVerdict.UNDECIDED),
    ],
)
def test_a_range(low: float, high: float, claim_verdict: ClaimVerdict) -> None:
    assert rule(claim(), measured_value(low, high)) is claim_verdict


@pytest.mark.parametrize(
    ("point", "low", "high"), [(1.35, 1.2625, 1.4375), (2.0, 1.75, 2.25), (1.05, 1.02, 1.08), (0.8, 0.75, 0.85)]
)
def test_a_point_is_widened_by_a_quarter_of_its_gain_and_three_hundredths_at_least(
    point: float, low: float, high: float
) -> None:
    assert allowed(claim(Bound.POINT, low=point)) == pytest.approx((low, high))


@pytest.mark.parametrize(
    ("bound", "facts", "low", "high", "claim_verdict"),
    [
        (Bound.AT_LEAST, {"low": 1.5}, 1.5, 9.0, ClaimVerdict.CONFIRMED),
        (Bound.AT_LEAST, {"low": 1.5}, 1.1, 1.4, ClaimVerdict.OVERSTATED),
        (Bound.UP_TO, {"high": 2.0}, 1.9, 2.4, ClaimVerdict.CONFIRMED),
        (Bound.UP_TO, {"high": 2.0}, 1.2, 1.89, ClaimVerdict.OVERSTATED),
        (Bound.UP_TO, {"high": 1.05}, 1.005, 1.015, ClaimVerdict.NO_EFFECT),  # 0.95 of it would be no gain at all
        (Bound.UP_TO, {"high": 1.05}, 1.02, 1.03, ClaimVerdict.CONFIRMED),
        (Bound.FREE, {}, 0.98, 1.02, ClaimVerdict.CONFIRMED),
        (Bound.FREE, {}, 0.981, 0.985, ClaimVerdict.CONFIRMED),  # a sure loss, of less than 2 %
        (Bound.FREE, {}, 0.975, 0.985, ClaimVerdict.UNDECIDED),
        (Bound.FREE, {}, 0.9, 0.979, ClaimVerdict.HARMFUL),
        (Bound.FREE, {}, 1.03, 1.1, ClaimVerdict.UNDERSTATED),
        (Bound.GAIN, {}, 1.011, 1.5, ClaimVerdict.CONFIRMED),
        (Bound.GAIN, {}, 0.985, 1.015, ClaimVerdict.NO_EFFECT),
        (Bound.GAIN, {}, 0.9, 0.98, ClaimVerdict.HARMFUL),
        (Bound.GAIN, {}, 0.9, 1.2, ClaimVerdict.UNDECIDED),
        (Bound.LOSS, {}, 0.7, 0.985, ClaimVerdict.CONFIRMED),
        (Bound.LOSS, {}, 0.985, 1.015, ClaimVerdict.NO_EFFECT),
        (Bound.LOSS, {}, 1.1, 1.2, ClaimVerdict.OVERSTATED),  # a gain where a loss was promised
        (Bound.LOSS, {}, 0.997, 1.025, ClaimVerdict.OVERSTATED),  # no loss that matters, whatever else
        (Bound.LOSS, {}, 0.985, 1.025, ClaimVerdict.UNDECIDED),
        (Bound.RANGE, {"low": 1.02, "high": 1.04}, 0.99, 1.01, ClaimVerdict.NO_EFFECT),
        (Bound.RANGE, {"low": 0.6, "high": 0.75}, 0.62, 0.7, ClaimVerdict.CONFIRMED),  # a cost
        (Bound.RANGE, {"low": 0.6, "high": 0.75}, 0.5, 0.59, ClaimVerdict.HARMFUL),  # a worse one
        (Bound.RANGE, {"low": 0.6, "high": 0.75}, 0.55, 0.65, ClaimVerdict.UNDECIDED),
        (Bound.RANGE, {"low": 0.6, "high": 0.75}, 0.99, 1.01, ClaimVerdict.NO_EFFECT),
        (Bound.RANGE, {"low": 0.6, "high": 0.75}, 0.8, 0.9, ClaimVerdict.OVERSTATED),  # it costs less than was said
        (Bound.POINT, {"low": 0.8}, 0.9, 1.1, ClaimVerdict.OVERSTATED),
        (Bound.AT_LEAST, {"low": 0.8}, 0.9, 1.1, ClaimVerdict.CONFIRMED),  # `no more than a fifth` is no loss promised
    ],
)
def test_other_bounds(
    bound: Bound, facts: dict[str, float], low: float, high: float, claim_verdict: ClaimVerdict
) -> None:
    assert rule(claim(bound, **facts), measured_value(low, high)) is claim_verdict


@pytest.mark.parametrize(
    ("bound", "facts", "low", "high", "claim_verdict"),
    [
        (Bound.RANGE, {"low": 0.4, "high": 0.6}, 0.45, 0.55, ClaimVerdict.CONFIRMED),
        (Bound.RANGE, {"low": 0.4, "high": 0.6}, 0.1, 0.2, ClaimVerdict.OVERSTATED),
        (Bound.RANGE, {"low": 0.4, "high": 0.6}, 0.7, 0.8, ClaimVerdict.UNDERSTATED),
        (Bound.AT_LEAST, {"low": 0.9}, 0.91, 0.99, ClaimVerdict.CONFIRMED),
        (Bound.AT_LEAST, {"low": 0.9}, 0.5, 0.6, ClaimVerdict.OVERSTATED),
        (Bound.UP_TO, {"high": 0.05}, 0.01, 0.04, ClaimVerdict.CONFIRMED),
        (Bound.UP_TO, {"high": 0.05}, 0.06, 0.5, ClaimVerdict.OVERSTATED),  # it idles less than was complained of
    ],
)
def test_a_share_is_a_value_and_never_a_harm(
    bound: Bound, facts: dict[str, float], low: float, high: float, claim_verdict: ClaimVerdict
) -> None:
    assert rule(claim(bound, metric=Metric.DEVICE_SHARE, **facts), measured_value(low, high)) is claim_verdict


@pytest.mark.parametrize(("bound", "low", "high"), [(Bound.LOSS, 0.997, 1.025), (Bound.LOSS, 0.985, 1.015)])
def test_a_loss_that_is_not_there_counts_as_refuted(bound: Bound, low: float, high: float) -> None:
    assert rule(claim(bound), measured_value(low, high)) in REFUTED


@pytest.mark.parametrize(
    ("bound", "low", "high", "usual", "coarse"),
    [
        (Bound.GAIN, 1.015, 1.028, ClaimVerdict.CONFIRMED, ClaimVerdict.UNDECIDED),
        (Bound.GAIN, 1.031, 1.1, ClaimVerdict.CONFIRMED, ClaimVerdict.CONFIRMED),
        (Bound.GAIN, 0.95, 0.985, ClaimVerdict.HARMFUL, ClaimVerdict.UNDECIDED),
        (Bound.GAIN, 0.985, 1.015, ClaimVerdict.NO_EFFECT, ClaimVerdict.UNDECIDED),
        (Bound.LOSS, 0.975, 0.985, ClaimVerdict.CONFIRMED, ClaimVerdict.UNDECIDED),
        (Bound.LOSS, 0.997, 1.025, ClaimVerdict.OVERSTATED, ClaimVerdict.UNDECIDED),
        (Bound.LOSS, 1.031, 1.1, ClaimVerdict.OVERSTATED, ClaimVerdict.OVERSTATED),
        (Bound.FREE, 0.985, 1.015, ClaimVerdict.CONFIRMED, ClaimVerdict.UNDECIDED),
        (Bound.FREE, 1.022, 1.028, ClaimVerdict.UNDERSTATED, ClaimVerdict.UNDECIDED),
    ],
)
def test_a_machine_that_misses_effects_below_3_percent_says_nothing_of_them(
    bound: Bound, low: float, high: float, usual: ClaimVerdict, coarse: ClaimVerdict
) -> None:
    assert rule(claim(bound), measured_value(low, high)) is usual
    assert rule(claim(bound), replace(measured_value(low, high), margin=0.03)) is coarse
    assert rule(claim(bound), replace(measured_value(low, high), margin=math.inf)) is ClaimVerdict.UNDECIDED


RATIOS = st.floats(0.05, 20.0)
CLAIMS = st.one_of(
    st.tuples(RATIOS, RATIOS).map(lambda two: claim(low=min(two), high=max(two))),
    RATIOS.map(lambda one: claim(Bound.POINT, low=one)),
    RATIOS.map(lambda one: claim(Bound.AT_LEAST, low=one)),
    RATIOS.map(lambda one: claim(Bound.UP_TO, high=one)),
    st.sampled_from((Bound.FREE, Bound.GAIN, Bound.LOSS)).map(claim),
)


@given(CLAIMS, RATIOS, st.floats(0.001, 3.0))
def test_every_interval_gets_a_ruling_that_fits_it(one: Claim, value: float, width: float) -> None:
    interval = MeasuredValue(value=value, low=value * math.exp(-width), high=value * math.exp(width), replicates=2)
    low, high = allowed(one)
    inside = low <= interval.low and interval.high <= high
    claim_verdict = rule(one, interval)
    assert (claim_verdict is ClaimVerdict.CONFIRMED) == inside
    if claim_verdict is ClaimVerdict.HARMFUL:
        assert interval.high < 0.99
    if claim_verdict is ClaimVerdict.OVERSTATED and promises_a_loss(one):
        assert interval.low > high
    elif claim_verdict is ClaimVerdict.OVERSTATED:
        assert interval.low > 1.01
        assert interval.high < low
    if claim_verdict is ClaimVerdict.UNDERSTATED:
        assert interval.low > high
        assert not promises_a_loss(one)
    if claim_verdict is ClaimVerdict.NO_EFFECT:
        assert interval.low >= 0.98
        assert interval.high <= 1.02
        assert promises_an_effect(one)


@given(CLAIMS, RATIOS, st.floats(0.01, 1.0))
def test_a_narrower_interval_never_takes_a_ruling_back(one: Claim, value: float, width: float) -> None:
    wide, narrow = (
        MeasuredValue(value=value, low=value * math.exp(-half), high=value * math.exp(half), replicates=2)
        for half in (width, width / 3)
    )
    if rule(one, wide) is not ClaimVerdict.UNDECIDED:
        # Within 2 % of 1 a sure gain or loss may still show, and a cost that is less than said may prove to be none.
        refined = {
            ClaimVerdict.NO_EFFECT: {
                ClaimVerdict.OVERSTATED,
                ClaimVerdict.HARMFUL,
                ClaimVerdict.CONFIRMED,
                ClaimVerdict.UNDERSTATED,
            },
            ClaimVerdict.OVERSTATED: {ClaimVerdict.NO_EFFECT} if promises_a_loss(one) else set(),
        }
        assert rule(one, narrow) in {rule(one, wide), *refined.get(rule(one, wide), ())}


def test_the_restarts_that_are_needed_follow_the_gap_to_the_nearest_edge() -> None:
    """R·(hw/gap)², the rule of statistics."""
    value, half_width = 1.6, 0.2
    interval = MeasuredValue(
        value=value, low=value * math.exp(-half_width), high=value * math.exp(half_width), replicates=3
    )
    gap = math.log(value / 1.5)
    assert replicates_needed(claim(), interval) == math.ceil(3 * (half_width / gap) ** 2)


@given(CLAIMS, RATIOS, st.floats(0.01, 1.0))
def test_so_many_restarts_would_decide(one: Claim, value: float, width: float) -> None:
    interval = MeasuredValue(value=value, low=value * math.exp(-width), high=value * math.exp(width), replicates=2)
    needed = replicates_needed(one, interval)
    if rule(one, interval) is ClaimVerdict.UNDECIDED and needed is not None:
        half = width * math.sqrt(2 / needed)
        later = MeasuredValue(value=value, low=value * math.exp(-half), high=value * math.exp(half), replicates=needed)
        assert rule(one, later) is not ClaimVerdict.UNDECIDED


def test_what_lies_on_an_edge_is_never_decided() -> None:
    assert replicates_needed(claim(), measured_value(1.4, 1.5**2 / 1.4)) is None
    assert replicates_needed(claim(), MeasuredValue(value=1.2, low=0.0, high=math.inf, replicates=2)) is None


def operating(true: float, half_width: float, times: int = 2_000) -> tuple[float, float]:
    """Shares of confirmed, and of refuted or understated, when 1.5 to 2x is claimed."""
    random = np.random.default_rng(5)
    found = []
    for centre in true * np.exp(random.normal(0, half_width / 1.96, times)):
        low, high = centre * math.exp(-half_width), centre * math.exp(half_width)
        found.append(rule(claim(), MeasuredValue(value=centre, low=low, high=high, replicates=2)))
    confirmed = found.count(ClaimVerdict.CONFIRMED) / times
    return confirmed, sum(one in DECIDED for one in found) / times - confirmed


@pytest.mark.parametrize(
    ("true", "half_width", "confirmed", "refuted"),
    [
        (1.40, 0.02, 0.00, 1.00),
        (1.45, 0.02, 0.00, 0.91),
        (1.45, 0.05, 0.00, 0.27),
        (1.50, 0.02, 0.03, 0.025),
        (1.55, 0.02, 0.90, 0.00),
        (1.55, 0.05, 0.25, 0.00),
        (1.75, 0.05, 1.00, 0.00),
        (1.75, 0.10, 0.60, 0.00),
    ],
)
def test_the_operating_table(true: float, half_width: float, confirmed: float, refuted: float) -> None:
    """An error at the edge stays below 3 %, and 2 % of precision decides ranges of ordinary width."""
    assert operating(true, half_width) == pytest.approx((confirmed, refuted), abs=0.05)
