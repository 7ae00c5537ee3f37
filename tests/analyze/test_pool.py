"""Energy is estimated as rates are: paired in time, replicate by replicate, and only where it was counted."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from harness.analyze.estimate import Estimate, energies, results
from harness.analyze.evidence import COUNTED_S, gather
from harness.core.records import Record, Window
from tests.analyze.synthetic import Noise, arm, comparison, matrix, plan, ready, records, window

PLAN = plan(comparison("workers"))


def spending(
    found: list[Record], joules: Callable[[Window], float | None], watched_s: float = COUNTED_S
) -> list[Record]:
    """Records of arms that took so many joules for each sample, and were led in for so long."""

    def one(record: Record) -> Record:
        if not isinstance(record, Window) or (each := joules(record)) is None:
            return record
        return replace(record, energy_j=each * record.samples, lead_s=watched_s)

    return [one(record) for record in found]


def half(record: Window) -> float:
    return 2.0 if record.arm.position else 4.0


def in_turn() -> list[Record]:
    """Two arms of one rate, each alive alone."""
    found: list[Record] = []
    for replicate in (0, 1):
        for attempt, position in ((0, 0), (1, 1)):
            owner = arm(0, replicate, position, attempt)
            found += [ready(owner), *(window(owner, order, 100.0) for order in range(3))]
    return found


def saved(found: list[Record]) -> Estimate | None:
    (one,) = energies(list(gather(PLAN, found)), PLAN.protocol)
    return one


def test_half_the_energy_a_sample_is_twice_as_thrifty_whatever_the_rate() -> None:
    for rate in (0.5, 1.0, 3.0):
        found = saved(spending(records(0, rate), half))
        assert found is not None
        assert (found.ratio, found.trimmed_ratio) == (pytest.approx(2.0), pytest.approx(2.0))
        assert (found.pairs, found.processes) == (8, 2)
        assert found.low < 2 < found.high


def test_a_drift_of_both_cancels() -> None:
    """A device that warms up takes more and more; neighbours in time take alike."""
    found = saved(spending(records(0, 1.0), lambda one: half(one) * (1 + 0.02 * one.order)))
    assert found is not None
    assert found.ratio == pytest.approx(2.0, rel=1e-3)


def test_intervals_are_those_of_rates_with_the_same_numbers() -> None:
    noise = Noise(window=0.02, replicate=0.05, generator=np.random.default_rng(3))
    rates = records(0, 1.4, noise=noise)
    gathered = list(gather(PLAN, spending(rates, lambda one: 1 / one.rate)))
    (rate,), (energy,) = results(gathered, PLAN.protocol), energies(gathered, PLAN.protocol)
    assert isinstance(rate, Estimate)
    assert energy is not None
    assert [energy.ratio, energy.low, energy.high] == pytest.approx([rate.ratio, rate.low, rate.high])


def test_without_a_counter_there_is_nothing() -> None:
    assert saved(records(0, 2.0)) is None
    assert saved(spending(records(0, 2.0), lambda one: 4.0 if one.arm.position == 0 else None)) is None


def test_a_counter_that_stood_still_counts_nothing() -> None:
    """Windows in which it moved would hold the energy of their neighbours too."""
    assert saved(spending(records(0, 2.0), lambda one: 0.0 if one.order == 3 else half(one))) is None


def test_a_counter_that_lags_behind_tells_nothing_of_short_windows() -> None:
    """It leaves out the last 50 ms of each: a third of a short window's energy, little of a long one's."""
    short = [replace(one, wall_s=one.wall_s / 50) if isinstance(one, Window) else one for one in records(0, 10.0)]
    for watched_s, allowed in ((0.1, False), (COUNTED_S, True)):
        lost = {one.wall_s: 1 - 0.05 / (watched_s + one.wall_s) for one in short if isinstance(one, Window)}
        found = saved(spending(short, lambda one, lost=lost: half(one) * lost[one.wall_s], watched_s))
        assert (found is not None) == allowed
        if found is not None:
            assert found.ratio == pytest.approx(2.0, rel=0.03)


def test_bursts_that_nobody_counted_are_left_out() -> None:
    found = saved(spending(records(0, 2.0), lambda one: None if one.order == 3 else half(one)))
    assert found is not None
    assert (found.ratio, found.pairs) == (pytest.approx(2.0), 6)


def test_one_restart_is_no_estimate() -> None:
    assert saved(spending(records(0, 2.0), lambda one: half(one) if one.arm.replicate == 0 else None)) is None


def test_arms_that_were_alive_in_turn_are_compared_as_a_whole() -> None:
    one = saved(spending(in_turn(), half))
    assert one is not None
    assert (one.ratio, one.in_turn) == (pytest.approx(2.0), 2)


def test_the_matrix_has_it_beside_each_ratio_and_the_joules_in_each_profile() -> None:
    (table,) = matrix(PLAN, spending(records(0, 3.0), half)).tables
    (row,) = table.rows
    assert row.estimate is not None
    assert row.energy is not None
    assert row.treatment is not None
    assert table.profile is not None
    assert (row.estimate.ratio, row.energy.ratio) == (pytest.approx(3.0), pytest.approx(2.0))
    assert (row.treatment.joules, table.profile.joules) == (pytest.approx(2.0), pytest.approx(4.0))
    assert math.isfinite(row.energy.high)
