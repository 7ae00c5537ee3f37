import math
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import numpy as np
import pytest

from harness.analyze.estimate import DISTURBED
from harness.analyze.pairing import CONTENTION, SLOWED, errors, pair
from harness.core.records import Window
from tests.analyze.synthetic import arm, window, windows


def test_a_bracket_computed_by_hand() -> None:
    own = [
        window(arm(), 0, 100.0, began_s=0.0),
        window(arm(position=1), 1, 200.0, began_s=10.0),
        window(arm(), 2, 100.0, began_s=20.0),
    ]
    assert pair(own, 1).log_ratios[0] == pytest.approx([math.log(2)])


def test_drift_of_the_reference_is_interpolated_between_its_turns() -> None:
    # A sample takes the reference 10 ms, then 5 ms: 7.5 ms halfway, 8.33 ms after one turn of three.
    halfway = [window(arm(), 0, 100.0), window(arm(position=1), 1, 300.0), window(arm(), 2, 200.0)]
    assert pair(halfway, 1).log_ratios[0][0] == pytest.approx(math.log(300 / 1000 * 7.5))
    sooner = [window(arm(), 0, 100.0), window(arm(position=1), 1, 300.0), window(arm(), 3, 200.0)]
    assert pair(sooner, 1).log_ratios[0][0] == pytest.approx(math.log(300 / 1000 * 25 / 3))


def test_a_linear_drift_of_both_cancels() -> None:
    """A machine that loses 1 % from turn to turn, in twenty turns."""
    own = [window(arm(position=one % 2), one, (150.0 if one % 2 else 100.0) / (1 + 0.01 * one)) for one in range(21)]
    (only,) = pair(own, 1).replicates
    assert only.log_ratio == pytest.approx(math.log(1.5), abs=1e-12)
    assert only.error == pytest.approx(0.0, abs=1e-12)


def test_a_replicate_gives_the_ratio_of_its_totals() -> None:
    """Not the mean of ratios: 2 s, 1 s and 6 s where the reference takes 3 s each."""
    own = taken([3.0] * 4, [2.0, 1.0, 6.0])
    (only,) = pair(own, 1).replicates
    assert only.log_ratio == pytest.approx(math.log(9 / 9))
    assert np.mean(only.window_pairs) == pytest.approx(np.mean(np.log([3 / 2, 3, 1 / 2])))


def test_weights_do_not_depend_on_how_long_a_window_took() -> None:
    """Slow windows of the reference count in full: 1, 5, 1, 5 and 1 s, of which pairs see 3 s each."""
    (only,) = pair(taken([1.0, 5.0, 1.0, 5.0, 1.0], [3.0] * 4), 1).replicates
    assert only.log_ratio == pytest.approx(0.0)


def taken(reference_s: list[float], treatment_s: list[float]) -> list[Window]:
    """Windows of two arms in turn, each as long as is said."""
    took = [one for both in zip_longest(reference_s, treatment_s) for one in both if one is not None]
    return [replace(window(arm(position=order % 2), order, 100.0), wall_s=one) for order, one in enumerate(took)]


def test_scatter_of_the_same_samples_is_no_scatter_of_the_ratio() -> None:
    """Windows differ ninefold, in both arms alike and in the same order; the reference ends with its first."""
    costs = [1.0, 9.0, 2.0, 4.0, 1.0, 3.0]
    own = taken([*costs, costs[0]], [2 * one for one in costs])
    (only,) = pair(own, 1).replicates
    assert only.log_ratio == pytest.approx(-math.log(2))
    assert only.error > 0.1
    assert only.matched_error == pytest.approx(0.0, abs=1e-12)
    assert errors(pair(own, 1))[0] == pytest.approx(0.0, abs=1e-12)


def test_stalls_that_come_by_turns_scatter_less_than_chance_would() -> None:
    """Every third window of the reference stalls, and the treatment's stalls are twice as heavy beside its steps."""
    stalls = [1.0, 0.0, 0.0] * 4
    own = taken([*(1 + one for one in stalls), 2.0], [0.5 + one for one in stalls])
    (only,) = pair(own, 1).replicates
    assert only.error > only.matched_error > 0.05
    assert (only.grouped_error, only.grouped_freedom) == (pytest.approx(0.0, abs=1e-12), 3)
    assert errors(pair(own, 1)) == (pytest.approx(0.0, abs=1e-12), 3)


def test_with_too_few_windows_nothing_is_known_of_turns() -> None:
    (only,) = pair(taken([1.0] * 6, [1.0, 1.1, 0.9, 1.0, 1.2]), 1).replicates
    assert (only.freedom, only.grouped_freedom) == (4, 0)
    assert errors(pair(taken([1.0] * 6, [1.0, 1.1, 0.9, 1.0, 1.2]), 1))[1] == 4


def test_the_error_is_how_far_replicates_lie_apart_where_windows_are_independent() -> None:
    generator = np.random.default_rng(3)
    found = [
        pair(taken(list(generator.normal(1.0, 0.03, 13)), list(generator.normal(1.0, 0.03, 12))), 1).replicates[0]
        for _ in range(600)
    ]
    apart = np.std([one.log_ratio for one in found])
    for told in (
        [one.error for one in found],
        [one.matched_error for one in found],
        [one.grouped_error for one in found],
    ):
        assert math.sqrt(np.mean(np.square(told))) == pytest.approx(apart, rel=0.08)


def test_what_others_did_is_left_out_in_either_arm_and_told() -> None:
    own = taken([1.0] * 9, [1.0] * 8)
    for order, wall_s in ((3, 7.0), (8, 5.0)):  # a treatment's window, then a reference's
        own[order] = replace(own[order], wall_s=wall_s, others=0.21)
    pairs = pair([replace(one, others=one.others or 0.02) for one in own], 1)
    assert pairs.replicates[0].log_ratio == pytest.approx(0.0)
    assert (pairs.windows, pairs.left_out, pairs.count) == (17, ((CONTENTION, 2),), 7)
    assert pairs.contention == pytest.approx(0.02)


@pytest.mark.parametrize("evidence", [{"others": 0.2}, {"throttled": ("sw_power_cap",)}, {}])
def test_no_window_is_left_out_for_being_slow(evidence: dict[str, Any]) -> None:
    own = taken([1.0] * 9, [1.0] * 8)
    own[3] = replace(own[3], wall_s=9.0, **evidence)
    pairs = pair(own, 1)
    assert (pairs.left_out, pairs.count) == ((), 8)
    assert pairs.replicates[0].log_ratio == pytest.approx(math.log(8 / 16))


def replicate(number: int, *, others: float, ratio: float) -> list[Window]:
    """One replicate whose treatment is so many times as fast, on a machine of which others took so much."""
    own = taken([1.0] * 3, [1.0 / ratio] * 2)
    return [replace(one, arm=replace(one.arm, replicate=number), others=others) for one in own]


def test_a_replicate_that_others_disturbed_most_of_the_time_is_left_out_where_two_remain() -> None:
    calm = [*replicate(0, others=0.0, ratio=2.0), *replicate(1, others=0.0, ratio=2.0)]
    busy = replicate(2, others=0.5, ratio=1.0)
    pairs = pair([*calm, *busy], 1)
    assert [one.number for one in pairs.replicates] == [0, 1]
    assert (pairs.spoilt, pairs.tainted, pairs.contention) == (1, 0, 0.0)
    pairs = pair([*calm[: len(calm) // 2], *busy], 1)
    assert [one.number for one in pairs.replicates] == [0, 2]
    assert (pairs.spoilt, pairs.tainted) == (0, 1)


def test_replicates_of_others_of_a_block_say_nothing_of_the_machine_during_ours() -> None:
    ours = [*replicate(0, others=0.15, ratio=2.0), *replicate(1, others=0.15, ratio=2.0)]
    theirs = [one for number in (2, 3) for one in replicate(number, others=0.0, ratio=2.0) if not one.arm.position]
    pairs = pair([*ours, *theirs], 1)
    assert pairs.contention == pytest.approx(0.15)
    assert (pairs.windows, pairs.drift) == (10, pair(ours, 1).drift)


def test_a_clock_that_heat_held_down_is_evidence() -> None:
    own = taken([1.0] * 9, [1.0] * 8)
    own[3] = replace(own[3], wall_s=2.0, throttled=("sw_power_cap", "hw_thermal"))
    assert pair(own, 1).left_out == ((SLOWED, 1),)


def test_where_more_than_half_would_be_lost_nothing_is() -> None:
    """Then others took too much of it for a verdict, and the mean of their share says so."""
    own = [replace(one, others=0.5 if one.order % 4 == 1 else 0.0) for one in taken([1.0] * 9, [1.0] * 8)]
    assert pair(own, 1).left_out == ((CONTENTION, 4),)
    own[3] = replace(own[3], others=0.5)
    pairs = pair(own, 1)
    assert (pairs.left_out, pairs.count) == ((), 8)
    assert pairs.contention > 0.1


def test_stalls_of_the_workload_are_no_restless_machine() -> None:
    own = taken([1.0, 5.0, 1.0, 5.0, 1.0], [1.0] * 4)
    assert pair(own, 1).drift > 1
    told = [replace(one, slowest_s=(4.1,) if one.wall_s == 5.0 else (0.1,)) for one in own]
    assert pair(told, 1).drift == pytest.approx(0.0)


COSTS_S = [1.0, 3.0, 0.8, 5.0, 2.0, 1.2, 4.0, 0.5]  # of windows in different parts of an epoch
BUSY = [1.0, 2.2, 0.9, 1.9, 1.0, 1.1, 2.4, 1.0, 2.0]  # times as long, on a machine that others use now and then


def in_parts(reference_s: list[float], treatment_s: list[float], parts: int) -> list[Window]:
    """Windows over an epoch of so many parts, each by both arms; the reference ends with the part it began with."""
    own = taken([*reference_s, reference_s[0]], treatment_s)
    last = own[-1].order
    return [replace(one, first_step=0 if one.order == last else one.order // 2 % parts * one.steps) for one in own]


def disturbed(own: list[Window]) -> list[Window]:
    return [replace(one, wall_s=one.wall_s * BUSY[one.order * 5 % len(BUSY)]) for one in own]


def test_unequal_samples_are_no_restless_machine() -> None:
    """Each part once: the other arm's windows have the same samples."""
    own = in_parts(COSTS_S, [one / 2 for one in COSTS_S], parts=8)
    assert pair([replace(one, first_step=None) for one in own], 1).drift > 1
    assert pair(own, 1).drift == pytest.approx(0.0)
    assert pair(disturbed(own), 1).drift > DISTURBED


def test_unequal_samples_that_the_other_arm_does_not_feel_are_no_restless_machine() -> None:
    """Workers hide what loading costs; the reference's own windows over the same part are alike."""
    own = in_parts(COSTS_S[:4] * 3, [0.5] * 12, parts=4)
    assert pair(own, 1).drift == pytest.approx(0.0)
    assert pair(disturbed(own), 1).drift > DISTURBED


def test_arms_that_were_alive_one_after_the_other_have_a_ratio_and_an_error() -> None:
    own = [
        replace(window(arm(0, 0, position, position), order, 100.0), wall_s=wall_s)
        for position, took in ((0, (2.0, 2.2, 1.8)), (1, (1.0, 1.1, 0.9)))
        for order, wall_s in enumerate(took)
    ]
    pairs = pair(own, 1)
    (only,) = pairs.replicates
    assert (pairs.in_turn, pairs.count, only.freedom) == (1, 1, 4)
    assert only.log_ratio == pytest.approx(math.log(2))
    assert only.error == pytest.approx(math.sqrt(2 * 0.1**2 / 3))


def test_a_reference_that_a_run_left_alone_is_no_pair_of_a_treatment_whose_own_was_disturbed() -> None:
    """A run ended after the reference's first window, on a slower machine; in the next, others took its cores."""
    early = window(arm(), 0, 100.0)
    busy = [replace(window(arm(attempt=1), order, 200.0), others=0.5) for order in (0, 2)]
    pairs = pair([early, *busy, window(arm(position=1, attempt=1), 1, 200.0)], 1)
    (only,) = pairs.replicates
    assert (pairs.in_turn, pairs.tainted) == (0, 1)
    assert only.log_ratio == pytest.approx(0.0)


def test_arms_of_two_runs_are_no_pair() -> None:
    """The reference again beside what a second run timed, on a machine of half the speed; then a third run is cut."""
    own = [
        window(replace(arm(0, 0, position, attempt), turn=turn), order, rate)
        for attempt, (turn, position, rate) in enumerate(
            [(0, 0, 100.0), (0, 1, 150.0), (2, 0, 50.0), (2, 1, 75.0), (4, 1, 9.0)]
        )
        for order in range(2)
    ]
    (only,) = pair(own, 1).replicates
    assert only.window_pairs == pytest.approx([math.log(1.5)] * 2)
    assert pair([one for one in own if one.arm.attempt in {0, 3}], 1).replicates == ()


def test_lives_of_one_restart_count_together_and_brackets_never_span_them() -> None:
    own = [*windows(0, 0, 2.0, rounds=2), *windows(0, 0, 2.0, rounds=3, attempt=1), *windows(0, 1, 2.0, rounds=1)]
    pairs = pair(own, 1)
    assert [len(replicate) for replicate in pairs.log_ratios] == [5, 1]
    assert pairs.count == 6


def test_interference_is_the_references_own_restlessness() -> None:
    rates = [100.0, 100.0 * math.e, 100.0]
    own = [window(arm(), 2 * order, rate) for order, rate in enumerate(rates)] + [window(arm(position=1), 1, 100.0)]
    assert pair(own, 1).drift == pytest.approx(1.0)
    assert pair([], 1).drift == 0


def test_a_restart_without_brackets_does_not_count() -> None:
    own = [*windows(0, 0, 1.5), window(arm(replicate=1), 0, 100.0)]
    assert np.shape(pair(own, 1).log_ratios) == (1, 4)


def test_crowding_is_that_of_the_arm_that_was_crowded_more() -> None:
    """An arm that leaves a core idle is not crowded by who takes it, and has more windows if it is the reference."""
    attempt = list(windows(0, 0, 1.2, rounds=1))
    assert pair(attempt, 1).contention == 0
    read = [replace(one, others=share) for one, share in zip(attempt, (0.1, 0.4, None), strict=True)]
    assert pair(read, 1).contention == pytest.approx(0.4)
    assert pair([*read, replace(read[1], arm=arm(0, 0, 2), others=0.9)], 1).contention == pytest.approx(0.4)
