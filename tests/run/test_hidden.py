"""Hidden ratios: plans of known truth, and the two ways in which an invented machine measures them."""

import math
from random import Random

import pytest

from harness.analyze.precision import precisions
from harness.core.measurement import Burst
from harness.core.protocol import PROTOCOLS, Protocol
from harness.plan.schedule import PER_BRACKET
from harness.run.hidden import PROCESS_S, PROCESSES, REFERENCE, conventional, draw_ratio, hide, measured
from harness.run.invented import DELAYS, WORLDS, World

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


def test_a_campaign_pays_for_starts_and_for_every_burst() -> None:
    seen = measured(hide([1.0, 2.0], FIXED, seed=1), STILL, Random(3), precisions)
    bursts = [one for one in seen.records if isinstance(one, Burst)]
    kept = FIXED.restarts * (FIXED.rounds * (1 + PER_BRACKET) + 1)
    assert len(bursts) == kept
    discarded = FIXED.restarts * FIXED.discarded_rounds * (1 + PER_BRACKET)
    starts_s = FIXED.restarts * 3 * (DELAYS.imports_s + DELAYS.warm_up_s)
    expected_s = starts_s + (kept + discarded) * (FIXED.burst_s + DELAYS.resume_s)
    assert seen.machine_s == pytest.approx(expected_s, rel=0.03)  # lengths of bursts are jittered


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
    hidden = hide([1.0] * 4, FIXED, seed=1)
    separate = conventional(hidden, hidden.plan.comparisons[0], hot, Random(5))
    assert sum(separate.treatment) / PROCESSES - sum(separate.reference) / PROCESSES < -0.05
    widths = precisions(hidden.plan, measured(hidden, hot, Random(5), precisions).records)
    assert max(one.half_width for one in widths.values()) < 0.04


def test_the_widest_get_further_restarts_where_the_protocol_has_a_target() -> None:
    hidden = hide([1.0] * 8, PROTOCOLS["standard"], seed=6)
    seen = measured(hidden, WORLDS[-1], Random(6), precisions)
    assert max(one.arm.restart for one in seen.records) + 1 > hidden.plan.protocol.restarts
