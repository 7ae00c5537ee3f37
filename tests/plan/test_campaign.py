"""The phases of a campaign: their order, their quotas, and what is too short for them."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.mistake import Mistake
from harness.plan.campaign import (
    MOST,
    PAGES_S,
    WEIGHTS,
    Kind,
    Phase,
    check_minutes,
    check_session,
    measuring_s,
    poured,
    quotas,
)

FIVE = ("imagenet", "leak", "patches3d", "speaker", "spoof")


def phase(kind: Kind, *workloads: str, seconds: float = 600.0, least: float = 0.0, problem: str = "") -> Phase:
    return Phase(kind=kind, workloads=workloads, comparisons=9, seconds=seconds, least_s=least, problem=problem)


def phases(*names: str, calibration_s: float = 500.0, look_s: float = 400.0, matrix_s: float = 4000.0) -> list[Phase]:
    """What a campaign of these workloads would like to measure."""
    return [
        phase(Kind.FIRST_LOOK, *names, seconds=look_s, least=40.0 * len(names)),
        phase(Kind.CALIBRATION, names[0], seconds=calibration_s),
        *(phase(Kind.MATRIX, name, seconds=matrix_s) for name in names),
        *(phase(Kind.CLAIMS, name, seconds=900.0) for name in names),
        *(phase(Kind.BEST, name, seconds=math.inf) for name in names),
    ]


def by_kind(found: dict[str, float], kind: Kind) -> list[float]:
    return [quota_s for name, quota_s in found.items() if name.startswith(kind)]


@pytest.mark.parametrize("minutes", [4, 5, 10, 30, 300, 3000])
def test_quotas_and_pages_fill_the_minutes(minutes: float) -> None:
    check_minutes(minutes, phases(*FIVE))
    found = quotas(measuring_s(minutes), phases(*FIVE))
    assert sum(found.values()) + PAGES_S == pytest.approx(60 * minutes)
    assert all(quota_s >= 0 for quota_s in found.values())
    assert list(found) == [one.name for one in phases(*FIVE)]


def test_workloads_share_alike() -> None:
    found = quotas(measuring_s(30), phases(*FIVE))
    for kind in WEIGHTS:
        shares = by_kind(found, kind)
        assert shares == pytest.approx([shares[0]] * len(FIVE))
        assert shares[0] > 0


def test_no_phase_gets_more_than_it_takes_but_the_searches() -> None:
    found = quotas(measuring_s(300), phases(*FIVE, matrix_s=700.0))
    assert {round(one) for one in by_kind(found, Kind.MATRIX)} == {700}
    assert {round(one) for one in by_kind(found, Kind.CLAIMS)} == {900}
    assert found["calibration"] == pytest.approx(500)
    assert all(one > 900 for one in by_kind(found, Kind.BEST))


def test_a_calibration_that_there_is_no_time_for_has_none_of_it() -> None:
    found = quotas(600, phases(*FIVE, calibration_s=5000.0, look_s=5000.0))
    assert found.pop("calibration") == 0
    assert found["first look"] == pytest.approx(MOST[Kind.FIRST_LOOK] * 600)
    assert all(one > 0 for one in found.values())
    assert quotas(600, phases(*FIVE, calibration_s=100.0, look_s=5000.0))["calibration"] == pytest.approx(100)


def test_what_is_needed_at_least_goes_before_the_calibration() -> None:
    found = quotas(215, phases(*FIVE, calibration_s=50.0))
    assert (found["calibration"], found["first look"]) == pytest.approx((0, 200))


def test_few_minutes_are_refused_with_the_number_that_suffices() -> None:
    with pytest.raises(
        Mistake, match=r"--minutes 1 is too short for five workloads; give (\d+) or more, name"
    ) as found:
        check_minutes(1, phases(*FIVE))
    enough = int(str(found.value).split("give ")[1].split()[0])
    check_minutes(enough, phases(*FIVE))
    with pytest.raises(Mistake):
        check_minutes(enough - 1, phases(*FIVE))
    with pytest.raises(Mistake, match="too short for one workload;"):
        check_minutes(0.5, phases("leak"))


def test_where_nothing_can_be_measured_the_reason_is_said() -> None:
    hopeless = [phase(Kind.MATRIX, "spoof", problem="no codec"), phase(Kind.BEST, "spoof", problem="no codec")]
    check_minutes(30, [*phases("leak"), *hopeless])
    with pytest.raises(Mistake, match=r"Nothing of a campaign can be measured here \(no codec\)"):
        check_minutes(30, hopeless)


@given(st.floats(-100, 4000), st.floats(0.1, 20), st.lists(st.floats(0, 1000), min_size=16, max_size=16))
def test_quotas_are_never_more_than_is_left(left_s: float, slower: float, spent: list[float]) -> None:
    wanted = [one for one in phases(*FIVE) if one.kind is not Kind.CALIBRATION]
    asked = [replace(one, seconds=slower * one.seconds, least_s=slower * one.least_s) for one in wanted]
    spent_s = {one.name: seconds for one, seconds in zip(asked, spent, strict=False)}
    found = quotas(left_s, asked, spent_s)
    assert all(quota_s >= 0 for quota_s in found.values())
    assert sum(found.values()) <= max(0.0, left_s) + 1e-6
    assert quotas(left_s, [], spent_s) == {}
    fresh = quotas(left_s, asked)
    assert fresh["first look"] >= min(asked[0].least_s, max(0.0, left_s)) - 1e-6  # something of every workload


def test_a_phase_that_goes_on_gets_no_second_quota() -> None:
    asked = phases("leak", "speaker")[2:4]
    whole = quotas(2000, asked)
    assert whole == pytest.approx({"matrix leak": 1000, "matrix speaker": 1000})
    assert quotas(1400, asked, {"matrix leak": 600.0}) == pytest.approx({"matrix leak": 400, "matrix speaker": 1000})
    assert quotas(1000, asked, {"matrix leak": 1000.0}) == pytest.approx({"matrix leak": 0, "matrix speaker": 1000})


def test_few_minutes_go_to_the_matrices_alone() -> None:
    few = [replace(one, least_s=60.0) if one.kind in WEIGHTS else one for one in phases(*FIVE)]
    for minutes, kinds in ((20, {Kind.MATRIX}), (26, {Kind.MATRIX, Kind.CLAIMS}), (60, set(WEIGHTS))):
        found = quotas(measuring_s(minutes), few)
        assert {kind for kind in WEIGHTS if sum(by_kind(found, kind))} == kinds
        assert sum(found.values()) + PAGES_S == pytest.approx(60 * minutes)


def test_time_that_nobody_takes_goes_to_the_last() -> None:
    asked = [phase(Kind.MATRIX, "leak", seconds=60.0), phase(Kind.CLAIMS, "leak", seconds=30.0)]
    assert quotas(3575, asked) == pytest.approx({"matrix leak": 60.0, "claims leak": 3515})


@given(
    st.floats(0, 1e5),
    st.lists(st.tuples(st.floats(0, 1e5) | st.just(math.inf), st.sampled_from([0.2, 0.3, 0.5])), max_size=15),
)
def test_pouring_loses_nothing_and_overfills_nobody(amount: float, asked: list[tuple[float, float]]) -> None:
    wanted, weights = [one for one, _ in asked], [one for _, one in asked]
    shares = poured(amount, wanted, weights)
    assert len(shares) == len(wanted)
    assert all(0 <= share <= one for share, one in zip(shares, wanted, strict=True))
    assert sum(shares) == pytest.approx(min(amount, sum(wanted)), rel=1e-6, abs=1e-6)


def test_a_session_must_hold_more_than_its_own_beginning_and_end() -> None:
    check_session(None)
    check_session(60.0)
    with pytest.raises(Mistake, match=r"A slice of 10 s is too short .* give --slice 45s or more"):
        check_session(10.0)
