from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.pipelines import (
    Array,
    Pipeline,
    drawn,
    live,
    log_times,
    on_cpu,
    signals,
    with_large_effects,
    with_thieves,
)

PIPELINE = drawn(np.random.default_rng(1), 12)


def lasted(pipeline: Pipeline, *stages: float, overlapped: bool = True) -> float:
    """Seconds of a step whose stages take so long."""
    return float(np.exp(live(pipeline, np.array([stages]), np.array([overlapped]), steps=4000).step[0]))


def system(**facts: Any) -> Pipeline:
    return replace(PIPELINE, **{"sync_steps": 1000, "lead": 8, "workers": 4, **facts})


def test_with_workers_the_slowest_stage_sets_the_pace() -> None:
    # Batches are handed over in order, so that a slow one holds up those behind it.
    assert 1.0 < lasted(system(), 1.0, 0.3, 0.1, 0.0) < 1.05
    assert lasted(system(), 0.3, 1.0, 0.1, 0.0) == pytest.approx(1.0, rel=0.02)
    assert lasted(system(), 0.3, 0.1, 1.0, 0.0) == pytest.approx(1.0, rel=0.02)


def test_without_workers_the_host_loads_and_launches_in_turn_and_the_device_works_beside() -> None:
    assert lasted(system(), 1.0, 0.1, 0.5, 0.0, overlapped=False) == pytest.approx(1.5, rel=0.02)
    assert lasted(system(), 0.4, 1.0, 0.1, 0.0, overlapped=False) == pytest.approx(1.0, rel=0.02)


def test_a_host_that_waits_in_every_step_hides_nothing() -> None:
    each = system(sync_steps=1)
    assert lasted(each, 1.0, 1.0, 0.0, 0.0, overlapped=False) == pytest.approx(2.0, rel=0.02)
    assert lasted(each, 0.1, 1.0, 0.0, 0.5) == pytest.approx(1.5, rel=0.02)


def test_on_a_cpu_launching_and_computing_add_up() -> None:
    assert lasted(on_cpu(system()), 0.3, 1.0, 0.5, 0.0) == pytest.approx(1.5, rel=0.02)
    assert lasted(on_cpu(system()), 0.3, 1.0, 0.5, 0.0, overlapped=False) == pytest.approx(1.8, rel=0.02)


def test_workers_that_steal_slow_the_device_down_where_there_are_any() -> None:
    few = replace(on_cpu(system()), theft=0.5)
    assert lasted(few, 0.3, 1.0, 0.5, 0.0) == pytest.approx(2.0, rel=0.02)
    assert lasted(few, 0.3, 1.0, 0.5, 0.0, overlapped=False) == pytest.approx(1.8, rel=0.02)
    assert 0.1 <= with_thieves(PIPELINE, np.random.default_rng(0)).theft <= 0.5


def test_a_short_lead_costs_where_stages_are_nearly_alike() -> None:
    assert lasted(system(lead=1), 0.1, 1.0, 0.9, 0.0) > 1.05 * lasted(system(lead=16), 0.1, 1.0, 0.9, 0.0)


def stacks(*rows: tuple[int, ...]) -> Array:
    found = np.zeros((len(rows), 12))
    for row, on in zip(found, rows, strict=True):
        row[list(on)] = 1
    return found


def test_what_needs_workers_is_impossible_without_and_so_are_two_levels_of_one() -> None:
    assert PIPELINE.possible(stacks((), (0,), (0, 1, 2), (1,), (2, 5))).tolist() == [True, True, True, False, False]
    levels = drawn(np.random.default_rng(1), 12, levels=3)
    assert levels.possible(stacks((0,), (2,), (0, 1), (2, 3), (3,))).tolist() == [True, True, False, True, False]
    assert levels.overlapped(stacks((), (1,), (5,))).tolist() == [False, True, False]


def test_a_pipeline_comes_of_its_seed() -> None:
    again = drawn(np.random.default_rng(1), 12)
    everything = np.ones((1, 12))
    assert log_times(again, everything) == log_times(PIPELINE, everything)
    assert log_times(drawn(np.random.default_rng(2), 12), everything) != log_times(PIPELINE, everything)


def test_one_in_ten_is_declared_wrongly_and_none_if_so_wished() -> None:
    drawn_ones = [drawn(np.random.default_rng(seed), 12) for seed in range(60)]
    wrong = np.mean([one.declared != one.stages for one in drawn_ones])
    assert 0.04 < wrong < 0.11  # a label that is drawn anew is right by luck in one of four
    assert (drawn(np.random.default_rng(3), 12, mislabelled=0.0).declared == drawn_ones[3].stages).all()


def test_signals_are_what_they_name_beyond_their_noise_and_bias() -> None:
    unbiased = replace(PIPELINE, biases=dict.fromkeys(PIPELINE.biases, 0.0))
    many = np.tile(stacks((0, 4)), (400, 1))
    seen = signals(unbiased, many, np.random.default_rng(0))
    times = unbiased.times(many)[0]
    assert np.log(seen["loader"]).mean() == pytest.approx(np.log(times[0]), abs=0.01)
    assert np.isnan(seen["wait"]).all(), "behind workers"
    assert np.isfinite(signals(unbiased, stacks((4,)), np.random.default_rng(0))["wait"]).all()
    assert np.log(seen["device"]).mean() == pytest.approx(np.log(times[1]), abs=0.01)
    assert seen["compute"].mean() >= 0.99 * max(times[1], times[2])
    assert seen["span"].mean() >= 0.99 * times[1]
    biased = signals(replace(unbiased, biases={**unbiased.biases, "loader": 0.3}), many, np.random.default_rng(0))
    assert np.log(biased["loader"] / seen["loader"]) == pytest.approx(0.3)
    assert biased["span"] == pytest.approx(seen["span"])


def test_large_effects_are_three_times_or_more() -> None:
    larger = with_large_effects(PIPELINE, np.random.default_rng(0))
    assert (np.exp(-larger.effects).max(axis=1) >= 3).sum() >= 3
