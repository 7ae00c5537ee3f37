"""The legs of a campaign: their order, their shares, and what is too short for them."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.mistake import Mistake
from harness.plan.campaign import (
    MOST,
    PAGES_S,
    WEIGHTS,
    Kind,
    Leg,
    Want,
    check_slice,
    legs,
    poured,
    shared_anew,
)

FIVE = ("imagenet", "leak", "patches3d", "speaker", "spoof")


def want(kind: Kind, *workloads: str, seconds: float = 600.0, least: float = 0.0, problem: str = "") -> Want:
    return Want(kind=kind, workloads=workloads, comparisons=9, seconds=seconds, least_s=least, problem=problem)


def wants(*names: str, calibration_s: float = 500.0, look_s: float = 400.0, matrix_s: float = 4000.0) -> list[Want]:
    """What a campaign of these workloads would like to measure."""
    return [
        want(Kind.CALIBRATION, names[0], seconds=calibration_s),
        want(Kind.FIRST_LOOK, *names, seconds=look_s, least=40.0 * len(names)),
        *(want(Kind.MATRIX, name, seconds=matrix_s) for name in names),
        *(want(Kind.CLAIMS, name, seconds=900.0) for name in names),
        *(want(Kind.BEST, name, seconds=math.inf) for name in names),
    ]


def by_kind(found: tuple[Leg, ...], kind: Kind) -> list[Leg]:
    return [one for one in found if one.kind is kind]


@pytest.mark.parametrize("minutes", [4, 5, 10, 30, 300, 3000])
def test_shares_and_pages_fill_the_minutes(minutes: float) -> None:
    found = legs(minutes, wants(*FIVE))
    assert sum(one.share_s for one in found) + PAGES_S == pytest.approx(60 * minutes)
    assert found[-1].until_s == pytest.approx(60 * minutes - PAGES_S)
    assert all(one.share_s >= 0 for one in found)
    ends = [0.0, *(one.until_s for one in found)]
    assert [end - begin for begin, end in pairwise(ends)] == pytest.approx([one.share_s for one in found])


def test_the_calibration_is_first_and_every_workload_is_in_every_kind() -> None:
    found = legs(30, wants(*FIVE))
    assert [one.kind for one in found[:2]] == [Kind.CALIBRATION, Kind.FIRST_LOOK]
    assert found[1].workloads == FIVE
    for kind in (Kind.MATRIX, Kind.CLAIMS, Kind.BEST):
        assert tuple(name for one in by_kind(found, kind) for name in one.workloads) == FIVE
    assert list(dict.fromkeys(one.kind for one in found)) == list(Kind)
    assert len({one.name for one in found}) == len(found)


def test_workloads_share_alike_and_the_same_again() -> None:
    found = legs(30, wants(*FIVE))
    for kind in (Kind.MATRIX, Kind.CLAIMS, Kind.BEST):
        shares = [one.share_s for one in by_kind(found, kind)]
        assert shares == pytest.approx([shares[0]] * len(FIVE))
        assert shares[0] > 0
    assert found == legs(30, wants(*FIVE))


def test_no_leg_gets_more_than_it_wants_but_the_searches() -> None:
    found = legs(300, wants(*FIVE, matrix_s=700.0))
    assert {round(one.share_s) for one in by_kind(found, Kind.MATRIX)} == {700}
    assert {round(one.share_s) for one in by_kind(found, Kind.CLAIMS)} == {900}
    assert found[0].share_s == pytest.approx(500)
    assert all(one.share_s > 900 for one in by_kind(found, Kind.BEST))


def test_a_long_calibration_leaves_time_for_the_others() -> None:
    found = legs(10, wants(*FIVE, calibration_s=5000.0, look_s=5000.0))
    time_s = 600 - PAGES_S
    assert found[0].share_s == pytest.approx(MOST[Kind.CALIBRATION] * time_s)
    assert found[1].share_s == pytest.approx(max(200.0, MOST[Kind.FIRST_LOOK] * time_s))
    assert all(one.share_s > 0 for one in found)


def test_what_is_needed_at_least_goes_before_the_calibration() -> None:
    found = legs(4, wants(*FIVE, calibration_s=5000.0))
    assert found[0].share_s == pytest.approx(240 - PAGES_S - 200)
    assert found[1].share_s == pytest.approx(200)


def test_few_minutes_are_refused_with_the_number_that_suffices() -> None:
    with pytest.raises(
        Mistake, match=r"--minutes 1 is too short for five workloads; give (\d+) or more, name"
    ) as found:
        legs(1, wants(*FIVE))
    enough = int(str(found.value).split("give ")[1].split()[0])
    assert legs(enough, wants(*FIVE))
    with pytest.raises(Mistake):
        legs(enough - 1, wants(*FIVE))
    with pytest.raises(Mistake, match="too short for one workload;"):
        legs(0.5, wants("leak"))


def test_what_cannot_be_measured_has_no_leg_and_takes_no_time() -> None:
    hopeless = [want(Kind.MATRIX, "spoof", problem="no codec"), want(Kind.BEST, "spoof", problem="no codec")]
    found = legs(30, [*wants("leak"), *hopeless])
    assert {name for one in found for name in one.workloads} == {"leak"}
    assert sum(one.share_s for one in found) == pytest.approx(1800 - PAGES_S)
    with pytest.raises(Mistake, match=r"Nothing of a campaign can be measured here \(no codec\)"):
        legs(30, hopeless)


@given(st.floats(0, 4000), st.floats(0, 4000), st.floats(0.1, 20))
def test_what_is_left_is_shared_out_anew_from_where_the_campaign_is(
    spent_s: float, until_s: float, slower: float
) -> None:
    asked = [replace(one, seconds=slower * one.seconds, least_s=slower * one.least_s) for one in wants(*FIVE)[1:]]
    found, left_s = shared_anew(asked, spent_s, until_s), max(0.0, until_s - spent_s)
    assert [(one.kind, one.workloads) for one in found] == [(one.kind, one.workloads) for one in asked]
    assert found[-1].until_s == pytest.approx(max(spent_s, until_s))
    assert all(one.share_s >= -1e-9 for one in found)
    assert found[0].share_s >= min(asked[0].least_s, left_s) - 1e-6  # something of every workload first of all


def test_few_minutes_go_to_the_matrices_alone() -> None:
    few = [replace(one, least_s=60.0) if one.kind in WEIGHTS else one for one in wants(*FIVE)]
    for minutes, kinds in ((30, {Kind.MATRIX}), (40, {Kind.MATRIX, Kind.CLAIMS}), (60, set(WEIGHTS))):
        found = legs(minutes, few)
        assert {one.kind for one in found if one.kind in WEIGHTS and one.share_s} == kinds
        assert sum(one.share_s for one in found) + PAGES_S == pytest.approx(60 * minutes)
        assert len(found) == len(few)  # what is left over is for all


def test_time_that_nobody_wants_goes_to_the_last() -> None:
    found = legs(60, [want(Kind.MATRIX, "leak", seconds=60.0), want(Kind.CLAIMS, "leak", seconds=30.0)])
    assert [one.share_s for one in found] == pytest.approx([60.0, 3600 - PAGES_S - 60])


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


def test_a_slice_must_hold_more_than_its_own_beginning_and_end() -> None:
    check_slice(None)
    check_slice(60.0)
    with pytest.raises(Mistake, match=r"A slice of 10 s is too short .* give --slice 45s or more"):
        check_slice(10.0)
