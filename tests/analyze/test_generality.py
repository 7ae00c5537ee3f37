"""Claims about training in general: several workloads, and the interval for one that nobody has tried."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from harness.analyze.claims import ClaimVerdict, Finding, MeasuredValue, general, predicted, rule
from harness.core.claims import ANY, Bound, Claim, Metric


def claim(bound: Bound = Bound.GAIN, **facts: Any) -> Claim:
    given = {"metric": Metric.THROUGHPUT, **facts}
    return Claim(name="toy", text="x", source="x", workload=ANY, bound=bound, treatment="workers=2", **given)


def measured_value(value: float, half_width: float = 0.02) -> MeasuredValue:
    return MeasuredValue(
        value=value, low=value * math.exp(-half_width), high=value * math.exp(half_width), replicates=2
    )


def parts(one: Claim, *values: float, half_width: float = 0.02) -> list[Finding]:
    measured = [measured_value(value, half_width) for value in values]
    return [
        Finding(claim=one, workload=f"w{number}", claim_verdict=rule(one, value), measured_value=value)
        for number, value in enumerate(measured)
    ]


def test_it_holds_in_general_where_a_further_workload_would_gain_too() -> None:
    found = general(claim(), parts(claim(), 1.3, 1.32, 1.28, 1.31))
    assert found.claim_verdict is ClaimVerdict.CONFIRMED
    assert found.workload == ANY
    assert len(found.parts) == 4
    assert "over 4 workloads" in found.words


def test_workloads_that_differ_widely_prove_nothing_for_the_next_one() -> None:
    found = general(claim(), parts(claim(), 1.05, 1.5, 2.5, 1.1))
    assert all(part.claim_verdict is ClaimVerdict.CONFIRMED for part in found.parts)
    assert found.claim_verdict is ClaimVerdict.UNDECIDED
    assert found.measured_value is not None
    assert found.measured_value.low < 1


def test_workloads_that_were_tested_otherwise_do_not_count() -> None:
    found = parts(claim(), 1.3, 1.3, 1.3, 1.3)
    otherwise = [replace(one, claim_verdict=ClaimVerdict.TESTED_OTHERWISE) for one in found]
    assert general(claim(), [*found[:3], otherwise[3]]).claim_verdict is ClaimVerdict.UNDECIDED
    upper = claim(Bound.UP_TO, high=1.3)
    for one in (claim(), upper, claim(Bound.FREE, metric=Metric.QUALITY)):
        assert general(one, otherwise).claim_verdict is ClaimVerdict.TESTED_OTHERWISE
    assert general(upper, [*parts(upper, 1.0), *otherwise[1:]]).claim_verdict is ClaimVerdict.UNDECIDED


def test_the_coarsest_calibration_of_all_workloads_holds_for_them_together() -> None:
    ratios = [measured_value(1.02, 0.001), *(replace(measured_value(1.02, 0.001), margin=0.03) for _ in range(3))]
    assert predicted(ratios).margin == 0.03
    assert rule(claim(), predicted(ratios)) is ClaimVerdict.UNDECIDED


def test_three_workloads_are_too_few() -> None:
    found = general(claim(), parts(claim(), 1.3, 1.3, 1.3))
    assert (found.claim_verdict, found.words) == (
        ClaimVerdict.UNDECIDED,
        "3 workloads to ±10 % so far; 4 are needed to speak in general",
    )
    assert found.measured_value is None


def test_one_precise_workload_does_not_speak_for_others_of_which_little_is_known() -> None:
    wide = [measured_value(value, half) for value, half in ((1.5, 0.013), (1.25, 0.6), (1.1, 0.6), (1.0, 0.7))]
    known = [replace(one, measured_value=value) for one, value in zip(parts(claim(), *[1.3] * 4), wide, strict=True)]
    found = general(claim(), known)
    assert (found.claim_verdict, found.measured_value) == (ClaimVerdict.UNDECIDED, None)
    assert "1 workload to ±10 % so far" in found.words
    interval = predicted(wide)
    assert interval.low < 1.0
    assert interval.high > 1.6


def test_the_prediction_covers_a_further_workload_as_often_as_it_says() -> None:
    """Effects drawn around a mean, each measured with an error; 95 % of fresh ones should lie inside."""
    random, covered, times = np.random.default_rng(4), 0, 2_000
    for _ in range(times):
        truth = random.normal(0.2, 0.1, 5)
        seen = truth[:4] + random.normal(0, 0.02, 4)
        interval = predicted([measured_value(float(np.exp(value)), 1.96 * 0.02) for value in seen])
        covered += interval.low <= np.exp(truth[4]) <= interval.high
    assert 0.93 <= covered / times <= 0.99


def test_without_differences_between_workloads_the_interval_is_that_of_the_mean() -> None:
    found = predicted([measured_value(1.2)] * 4)
    assert found.value == pytest.approx(1.2)
    error = 0.02 / 1.96 / math.sqrt(4)
    assert math.log(found.high / found.value) == pytest.approx(4.302653 * error, rel=1e-4)  # t of 2 degrees of freedom


def test_an_interval_without_end_weighs_nothing() -> None:
    endless = MeasuredValue(value=3.0, low=0.0, high=math.inf, replicates=2)
    found = predicted([measured_value(1.2), measured_value(1.2), measured_value(1.2), endless])
    assert found.value == pytest.approx(1.2, rel=0.01)


@pytest.mark.parametrize(
    ("values", "claim_verdict"),
    [
        ((1.1, 1.9, 1.0, 1.3), ClaimVerdict.UNDECIDED),  # 1.9 is right on the edge
        ((1.1, 2.1), ClaimVerdict.CONFIRMED),
        ((1.1, 1.2), ClaimVerdict.UNDECIDED),
        ((1.1, 1.2, 1.3, 1.0), ClaimVerdict.OVERSTATED),
        ((1.0, 1.0, 1.0, 0.9), ClaimVerdict.NO_EFFECT),
        ((0.9, 0.9, 0.8, 0.9), ClaimVerdict.HARMFUL),
    ],
)
def test_an_up_to_must_be_reached_once(values: tuple[float, ...], claim_verdict: ClaimVerdict) -> None:
    one = claim(Bound.UP_TO, high=2.0)
    assert general(one, parts(one, *values, half_width=0.015)).claim_verdict is claim_verdict


def silent(one: Claim, *claim_verdicts: ClaimVerdict) -> list[Finding]:
    return [
        Finding(claim=one, workload=f"w{number}", claim_verdict=claim_verdict, words=str(claim_verdict))
        for number, claim_verdict in enumerate(claim_verdicts)
    ]


@pytest.mark.parametrize(
    ("claim_verdicts", "claim_verdict"),
    [
        ((ClaimVerdict.NOT_TESTABLE_HERE, ClaimVerdict.NOT_MEASURED), ClaimVerdict.NOT_MEASURED),
        ((ClaimVerdict.NOT_TESTABLE_HERE, ClaimVerdict.UNDECIDED), ClaimVerdict.UNDECIDED),
        ((ClaimVerdict.NOT_TESTABLE_HERE, ClaimVerdict.UNTESTABLE), ClaimVerdict.NOT_TESTABLE_HERE),
        ((ClaimVerdict.UNTESTABLE, ClaimVerdict.UNTESTABLE), ClaimVerdict.UNTESTABLE),
        ((), ClaimVerdict.UNTESTABLE),
    ],
)
def test_nothing_known_says_what_could_be_done(
    claim_verdicts: tuple[ClaimVerdict, ...], claim_verdict: ClaimVerdict
) -> None:
    for one in (claim(), claim(Bound.FREE, metric=Metric.QUALITY)):
        assert general(one, silent(one, *claim_verdicts)).claim_verdict is claim_verdict


@pytest.mark.parametrize(
    ("claim_verdicts", "claim_verdict"),
    [
        ([ClaimVerdict.CONFIRMED] * 4, ClaimVerdict.CONFIRMED),
        ([ClaimVerdict.CONFIRMED] * 3, ClaimVerdict.UNDECIDED),
        ([ClaimVerdict.CONFIRMED, ClaimVerdict.HARMFUL], ClaimVerdict.HARMFUL),
        ([*[ClaimVerdict.NO_EFFECT] * 3, ClaimVerdict.CONFIRMED], ClaimVerdict.UNDECIDED),
        ([ClaimVerdict.NO_EFFECT] * 4, ClaimVerdict.NO_EFFECT),
    ],
)
def test_quality_in_general(claim_verdicts: list[ClaimVerdict], claim_verdict: ClaimVerdict) -> None:
    one = claim(Bound.FREE, metric=Metric.QUALITY)
    assert general(one, silent(one, *claim_verdicts)).claim_verdict is claim_verdict
