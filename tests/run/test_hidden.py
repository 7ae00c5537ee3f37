"""Hidden ratios: plans of known truth, and the two ways in which an invented machine measures them."""

import math
from random import Random

import pytest

from benchmarks.invented.hidden import PROCESS_S, PROCESSES, REFERENCE, conventional, draw_ratio, hide, measured
from benchmarks.invented.machines import DELAYS, WORLDS, World
from benchmarks.invented.rehearsal import STEP_S
from harness.analyze.composition import precisions
from harness.core.protocol import PROTOCOLS, SETTLING_STEPS, Protocol
from harness.core.records import Window
from harness.plan.schedule import PER_WINDOW_PAIR

STILL = World(name="still", drifts=())
FIXED = Protocol(rounds=4)


def test_a_plan_knows_the_truth_of_its_cells() -> None:
    hidden = hide([1.0, 2.0, 0.8, 1.0, 1.5], FIXED, seed=1)
    assert [hidden.truth(one) for one in hidden.plan.comparisons] == pytest.approx([1.0, 2.0, 0.8, 1.0, 1.5])
    assert hidden.truth(hidden.plan.comparisons[0]) == 1.0  # exactly, so that wrong verdicts can be counted
    assert [len(block.comparisons) for block in hidden.plan.blocks] == [4, 1]
    assert {block.reference for block in hidden.plan.blocks} == {REFERENCE}


def test_half_of_all_ratios_are_exactly_one() -> None:
    random = Random(2)
    drawn = [draw_ratio(random) for _ in range(4000)]
    assert drawn.count(1.0) / 4000 == pytest.approx(0.5, abs=0.03)
    others = [math.log(one) for one in drawn if one != 1.0]
    assert (min(others), max(others)) == pytest.approx((math.log(0.8), math.log(2.5)), abs=0.01)


def test_a_campaign_pays_for_starts_lead_ins_and_every_window() -> None:
    seen = measured(hide([1.0, 2.0], FIXED, seed=1), STILL, Random(3), precisions)
    windows = [one for one in seen.records if isinstance(one, Window)]
    counts = {0: FIXED.rounds * 2 // PER_WINDOW_PAIR + 1, 1: FIXED.rounds, 2: FIXED.rounds}  # in a replicate
    assert len(windows) == FIXED.replicates * sum(counts.values())
    assert {one.steps for one in windows} == {round(FIXED.window_s / STEP_S)}
    starts_s = 3 * (DELAYS.imports_s + DELAYS.warm_up_s)
    turns_s = 0.0
    for position, count in counts.items():
        step_s = STEP_S / (2 if position == 2 else 1)  # all take the same steps, and one step leads in
        turns_s += DELAYS.resume_s + SETTLING_STEPS * step_s
        turns_s += count * (DELAYS.resume_s + (1 + FIXED.window_s / STEP_S) * step_s)
    assert seen.machine_s == pytest.approx(FIXED.replicates * (starts_s + turns_s), rel=0.01)


def test_the_conventional_plan_runs_the_reference_first_and_pays_for_every_process() -> None:
    hidden = hide([2.0], FIXED, seed=1)
    separate = conventional(hidden, hidden.plan.comparisons[0], STILL, Random(4))
    assert len(separate.reference) == len(separate.treatment) == PROCESSES
    gained = sum(separate.treatment) / PROCESSES - sum(separate.reference) / PROCESSES
    assert gained == pytest.approx(math.log(2.0), abs=0.02)
    start_s = DELAYS.imports_s + DELAYS.warm_up_s + DELAYS.resume_s
    assert separate.machine_s == pytest.approx(2 * PROCESSES * (start_s + PROCESS_S), rel=0.02)


def test_heat_spoils_what_is_measured_last_and_spares_what_takes_turns() -> None:
    hot = World(name="hot", drifts=(), heat=0.3)
    hidden = hide([1.0] * 12, FIXED, seed=1)  # of three blocks: one would know the luck of its reference badly
    separate = conventional(hidden, hidden.plan.comparisons[0], hot, Random(5))
    assert sum(separate.treatment) / PROCESSES - sum(separate.reference) / PROCESSES < -0.05
    widths = precisions(hidden.plan, measured(hidden, hot, Random(5), precisions).records)
    assert max(one.half_width for one in widths.values()) < 0.04


def test_the_widest_get_further_restarts_where_the_protocol_has_a_target() -> None:
    hidden = hide([1.0] * 8, PROTOCOLS["standard"], seed=6)
    seen = measured(hidden, WORLDS[-1], Random(6), precisions)
    assert max(one.arm.replicate for one in seen.records) + 1 > hidden.plan.protocol.replicates
