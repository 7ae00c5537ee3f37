"""Calibration: sound machines pass, and what is wrong with others is found where it was planted."""

import math
from dataclasses import replace

import numpy as np
import pytest

from harness.analyze.calibration import Calibration, calibrate
from harness.analyze.estimate import BY_LEAST
from harness.analyze.matrix import UNCALIBRATED, build_matrix
from harness.analyze.verdict import LEAST_SPREAD, MARGIN, Thresholds, Verdict
from tests.analyze import synthetic
from tests.analyze.calibrated import Machine, calibration, plan, told
from tests.analyze.synthetic import ENVIRONMENT, Noise, comparison, records

SOUND = Machine()
BLIND = Machine(kept={"loader_delay=3": 0.0, "host_delay=3": 0.0})


@pytest.fixture(scope="module")
def sound() -> Calibration:
    return calibration(SOUND)


@pytest.fixture(scope="module")
def blind() -> Calibration:
    return calibration(BLIND)


def test_a_sound_machine_passes(sound: Calibration) -> None:
    assert len(sound.copies) == 20
    assert sound.missed <= 3
    assert sound.passed
    assert sound.least == 3
    assert sound.thresholds.margin == MARGIN


@pytest.mark.repeats
def test_sound_machines_miss_as_often_as_intervals_promise_and_nearly_all_pass() -> None:
    found = [calibration(replace(SOUND, seed=seed)) for seed in range(60)]
    missed = sum(one.missed for one in found) / sum(len(one.copies) for one in found)
    assert missed <= 0.06
    assert sum(one.sound for one in found) >= 56
    for level in range(2):
        assert sum(one.levels[level].recovered for one in found) >= 56
    assert sum(one.least == 3 for one in found) >= 52  # each of two delays may be lost by chance


def test_the_spread_is_the_machines_own(sound: Calibration) -> None:
    # Two processes of 0.4 % each and little else.
    assert sound.thresholds.least_spread == pytest.approx(0.004 * math.sqrt(2), rel=0.4)
    assert sound.thresholds.least_freedom == 10  # five blocks hold copies, each in two replicates
    assert calibration(replace(SOUND, luck=0.02)).thresholds.least_spread > 3 * sound.thresholds.least_spread


def test_the_floor_is_what_nearly_all_copies_stay_within() -> None:
    found = calibration(Machine(luck=1e-6, noise=1e-6, off={0: 0.05, 1: -0.04}))
    assert found.floor == pytest.approx(math.expm1(0.0405), abs=1e-4)  # between the two largest of twenty


def test_too_many_misses_fail_the_machine_and_the_header_says_so() -> None:
    found = calibration(Machine(off={0: 0.06, 5: -0.06, 9: 0.06, 14: 0.06, 17: -0.06}, luck=0.001))
    assert found.missed > found.allowed == 3
    assert not found.sound
    assert not found.passed
    assert f"20 configurations, {found.missed} missed 1.00" in found.sentence
    assert "FAILED: chance explains 3" in found.sentence


def test_a_cell_does_not_widen_the_interval_that_judges_it() -> None:
    """One wild copy widens what copies of other blocks are judged by, and not its own."""
    found = calibration(Machine(off={3: 0.05}, luck=0.001, noise=0.001))
    assert [one.comparison.copy for one in found.copies if not one.holds] == [3]


def test_few_copies_prove_nothing_however_well_they_agree() -> None:
    found = calibration(Machine(copies=8))
    assert found.missed == 0
    assert not found.sound
    assert "fewer than the 20" in found.sentence


def test_delays_are_found_as_long_as_they_were(sound: Calibration) -> None:
    small, large = sound.levels
    assert (small.percent, large.percent) == (3, 10)
    for level in sound.levels:
        assert level.recovered
        assert level.found is not None
        assert level.found.low < level.percent / 100 < level.found.high
        assert [one.truth for one in level.controls] == [pytest.approx(1 / (1 + level.percent / 100), rel=0.01)] * 2
    assert "an added 3 % was found as" in sound.sentence
    assert "controls recovered" in sound.sentence
    assert "10 %" not in sound.sentence


def test_the_truth_comes_from_what_was_seen_and_from_no_constant() -> None:
    found = [
        replace(one, effective={**one.effective, "added_delay_s": 0.064}) if hasattr(one, "effective") else one
        for one in told(SOUND)
    ]
    judged = calibrate(plan(), found)
    assert {round(one.truth or 0, 2) for level in judged.levels for one in level.controls} == {0.91}
    assert not judged.levels[0].recovered  # what is called 3 % was 10 %, says the clock, and was not found
    assert judged.levels[1].recovered


def test_a_delay_that_is_not_found_takes_the_word_from_the_machine(blind: Calibration) -> None:
    assert not blind.levels[0].recovered
    assert blind.least == 10
    assert blind.thresholds.margin == 0.10
    assert not blind.passed
    assert "so nothing below 10 % is called faster or slower" in blind.sentence
    assert "0 of 2 controls recovered" in blind.sentence


def test_a_large_delay_that_is_lost_counts_though_a_small_one_was_found() -> None:
    found = calibration(Machine(kept={"loader_delay=10": 0.5, "host_delay=10": 0.5}))
    assert [one.recovered for one in found.levels] == [True, False]
    assert (found.least, found.thresholds.margin, found.passed) == (None, math.inf, False)
    assert "an added 10 % was found as" in found.sentence
    assert "0 of 2 controls recovered" in found.sentence
    assert found.sentence.endswith("so no verdict is given")


def test_a_machine_that_finds_nothing_says_nothing() -> None:
    names = ("loader_delay=3", "host_delay=3", "loader_delay=10", "host_delay=10")
    found = calibration(Machine(kept=dict.fromkeys(names, 0.0)))
    assert found.least is None
    assert found.thresholds.margin == math.inf
    assert found.sentence.endswith("so no verdict is given")


def test_an_interval_too_wide_to_tell_a_delay_from_nothing_recovers_nothing() -> None:
    found = calibration(Machine(luck=0.05))
    assert any(one.holds and not one.recovered for one in found.levels[0].controls)
    assert not found.levels[0].recovered


def test_a_run_that_has_measured_nothing_yet_says_so() -> None:
    found = calibrate(plan(), [])
    assert found.copies == ()
    assert found.floor is None
    assert found.sentence.startswith("A/A: 0 configurations")
    assert found.thresholds.least_spread == LEAST_SPREAD


def one_row(thresholds_of: Calibration | None, ratio: float) -> tuple[Verdict, tuple[str, ...], str]:
    noise = Noise(replicate=0.001)
    matrix = build_matrix(
        synthetic.plan(comparison("workers")), records(0, ratio, noise=noise, replicates=4), ENVIRONMENT, thresholds_of
    )
    (row,) = matrix.rows
    assert row.estimate is not None
    return row.estimate.verdict, row.notes, matrix.noise


def test_every_report_of_the_machine_says_what_it_showed(sound: Calibration, blind: Calibration) -> None:
    assert one_row(None, 1.05)[2] == UNCALIBRATED
    assert "./speedmatrix calibrate" in UNCALIBRATED
    assert one_row(sound, 1.05)[2] == sound.sentence
    assert one_row(blind, 1.05)[2] == blind.sentence


def test_what_a_machine_cannot_find_it_may_not_publish(sound: Calibration, blind: Calibration) -> None:
    assert one_row(sound, 1.05)[0] is Verdict.FASTER
    verdict, notes, _ = one_row(blind, 1.05)
    assert verdict is Verdict.UNDECIDED
    assert "no verdict: calibrated, this machine found no delay below 10 %" in notes
    assert one_row(blind, 1.25)[0] is Verdict.FASTER
    assert one_row(blind, 0.8)[0] is Verdict.SLOWER
    assert one_row(sound, 1.0)[0] is Verdict.NO_EFFECT
    assert one_row(blind, 1.0)[0] is Verdict.UNDECIDED


def test_a_calibrating_run_is_told_by_itself_and_judged_on_nobodys_terms(blind: Calibration) -> None:
    matrix = build_matrix(plan(), told(SOUND), ENVIRONMENT, blind)
    assert matrix.noise == calibration(SOUND).sentence
    assert {row.estimate.thresholds for row in matrix.rows if row.estimate} == {Thresholds()}


@pytest.mark.repeats
def test_a_calibration_lends_its_spread_to_no_other_comparison(sound: Calibration) -> None:
    """Its workloads are those with short steps; processes of others differ two and three times as much."""
    the_plan, random = synthetic.plan(comparison("workers"), replicates=4), np.random.default_rng(2)
    held = 0
    for _ in range(300):
        found = records(0, 1.3, noise=Noise(replicate=0.012, generator=random), replicates=4)
        (row,) = build_matrix(the_plan, found, ENVIRONMENT, sound).rows
        assert row.estimate is not None
        assert row.estimate.method in {"t", BY_LEAST}
        assert row.estimate.df == 3
        held += row.estimate.low <= 1.3 <= row.estimate.high
    assert held / 300 >= 0.94
