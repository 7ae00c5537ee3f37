"""The device beside a ratio: company and heat withhold the verdict, the limit of its power does not."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from harness.analyze.claims import measure, trials
from harness.analyze.estimate import Estimate
from harness.analyze.pairing import Both, Device, device_of
from harness.analyze.verdict import Verdict
from harness.core.claims import Metric
from harness.core.records import Record, Window
from tests.analyze.synthetic import arm, comparison, matrix, plan, records, window, windows

COOL: tuple[str, ...] = ()
CAPPED, HOT = ("sw_power_cap",), ("sw_power_cap", "hw_thermal")


def told(found: Sequence[Record], ours: dict[str, Any], theirs: dict[str, Any]) -> list[Record]:
    """Records with what a driver told of either arm; a list gives one value a window and then begins anew."""
    counts = {0: 0, 1: 0}

    def one(record: Record) -> Record:
        if not isinstance(record, Window):
            return record
        side, number = record.arm.position, counts[record.arm.position]
        counts[side] += 1
        values = ours if side else theirs
        chosen = {name: one[number % len(one)] if isinstance(one, list) else one for name, one in values.items()}
        return replace(record, **chosen)

    return [one(record) for record in found]


def estimated(ours: dict[str, Any], theirs: dict[str, Any]) -> tuple[Estimate, tuple[str, ...]]:
    """A comparison that would be twice as fast for sure, and its notes."""
    (row,) = matrix(plan(comparison("workers")), told(records(0, 2.0), ours, theirs)).rows
    assert row.estimate is not None
    assert row.estimate.ratio == pytest.approx(2.0)
    return row.estimate, row.notes


def test_where_no_driver_tells_nothing_is_said() -> None:
    assert device_of(windows(0, 0, 2.0), 1) is None
    estimate, notes = estimated({}, {})
    assert (estimate.verdict, estimate.device, notes) == (Verdict.FASTER, None, ())


def test_shares_are_of_the_bursts_that_were_told_of() -> None:
    own = [
        replace(window(arm(), 0, 100.0), strangers=0, throttled=COOL, clock_mhz=1980.0),
        replace(window(arm(position=1), 1, 200.0), strangers=1, throttled=HOT, clock_mhz=1500.0),
        replace(window(arm(), 2, 100.0), throttled=CAPPED),
        replace(window(arm(position=1), 3, 200.0), strangers=0, throttled=COOL, clock_mhz=1700.0),
        replace(window(arm(position=2), 4, 200.0), strangers=9, throttled=HOT, clock_mhz=1.0),
    ]
    assert device_of(own, 1) == Device(
        looked=3,
        shared=1,
        slowed=Both(treatment=0.5, reference=0.0),
        capped=Both(treatment=0.5, reference=0.5),
        clock_mhz=Both(treatment=1600.0, reference=1980.0),
    )


def test_a_driver_that_tells_of_one_arm_alone_tells_no_difference() -> None:
    own = [window(arm(), 0, 100.0), replace(window(arm(position=1), 1, 200.0), throttled=HOT, clock_mhz=1500.0)]
    assert device_of(own, 1) is None


def test_another_process_on_the_device_withholds_the_verdict() -> None:
    estimate, notes = estimated({"strangers": [1, 0]}, {"strangers": 0})
    assert estimate.verdict is Verdict.DISTURBED
    assert notes == ("the machine was too disturbed: another process was on the device in 4 of 18 windows",)


def test_a_single_visit_is_told_of_and_forbids_nothing() -> None:
    estimate, notes = estimated({"strangers": [1, *[0] * 7]}, {"strangers": 0})
    assert estimate.verdict is Verdict.FASTER
    assert notes == ("another process was on the device in 1 of 18 windows",)


def test_heat_in_one_arm_withholds_the_verdict() -> None:
    estimate, notes = estimated({"throttled": [HOT, COOL]}, {"throttled": COOL})
    words = "heat or a fault held the device's clock down in 50 % of the windows and in 0 % of the reference's"
    assert estimate.verdict is Verdict.DISTURBED
    assert notes[0] == f"the machine was too disturbed: {words}"
    assert notes[1] == "windows left out: 4 of 18, heat or a fault held the device's clock down (4)"


def test_heat_in_both_arms_alike_is_told_of() -> None:
    estimate, notes = estimated({"throttled": HOT, "clock_mhz": 1500.0}, {"throttled": HOT, "clock_mhz": 1490.0})
    assert estimate.verdict is Verdict.FASTER
    assert notes == (
        "heat or a fault held the device's clock down in 100 % of the windows and in 100 % of the reference's",
    )


def test_heat_that_slows_one_arm_more_withholds_the_verdict() -> None:
    estimate, notes = estimated({"throttled": HOT, "clock_mhz": 1100.0}, {"throttled": HOT, "clock_mhz": 1900.0})
    assert estimate.verdict is Verdict.DISTURBED
    assert len(notes) == 2
    assert notes[1].startswith("the device's clock was 1,100 MHz, in the reference 1,900 MHz; its power limit held it")


def test_a_clock_that_falls_at_the_limit_of_its_power_is_the_switch_s_own_doing() -> None:
    estimate, notes = estimated({"throttled": CAPPED, "clock_mhz": 1600.0}, {"throttled": COOL, "clock_mhz": 1980.0})
    assert estimate.verdict is Verdict.FASTER
    (said,) = notes
    assert said == (
        "the device's clock was 1,600 MHz, in the reference 1,980 MHz; its power limit held it down in 100 % of the "
        "windows and in 0 % of the reference's"
    )
    estimate, notes = estimated({"throttled": CAPPED, "clock_mhz": 1900.0}, {"throttled": CAPPED, "clock_mhz": 1980.0})
    assert (estimate.verdict, notes) == (Verdict.FASTER, ())


def test_a_claim_is_not_judged_in_company() -> None:
    found = told(records(0, 2.0), {"strangers": 1}, {"strangers": 0})
    (trial,) = trials(plan(comparison("workers")), found)
    said = measure(Metric.THROUGHPUT, trial)
    assert said == "the machine was too disturbed: another process was on the device in 8 of 18 windows"


def test_company_is_told_of_beside_a_graver_unrest() -> None:
    contended = {"strangers": 1, "others": 0.9}
    _, notes = estimated(contended, contended)
    assert notes == (
        "the machine was too disturbed: other processes took 90 % of its cores",
        "another process was on the device in 18 of 18 windows",
    )
