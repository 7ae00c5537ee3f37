"""Warm-up on invented step times."""

from collections.abc import Iterator
from itertools import chain, repeat

import numpy as np
import pytest

from harness.core.protocol import Protocol
from harness.measure.warm_up import floor_reached, truncation, warm_up

PROTOCOL = Protocol(floor_steps=20, floor_s=3.0, settle_s=6.0)


def test_the_floor_outlasts_steps_seconds_and_the_prefetched_queue() -> None:
    assert not floor_reached(19, 60.0, 0, PROTOCOL)
    assert not floor_reached(20, 2.9, 0, PROTOCOL)
    assert floor_reached(20, 3.0, 0, PROTOCOL)
    assert not floor_reached(63, 60.0, 32, PROTOCOL)
    assert floor_reached(64, 60.0, 32, PROTOCOL)


def test_a_slow_beginning_is_cut_off() -> None:
    noise = np.random.default_rng(0).normal(0, 0.001, 200)
    step_s = 0.1 + noise + np.concatenate([np.linspace(0.1, 0, 40), np.zeros(160)])
    dropped = truncation(list(step_s))
    assert dropped is not None
    assert 25 <= dropped <= 60


def test_a_drift_that_never_ends_is_not_steady() -> None:
    assert truncation(list(np.linspace(0.2, 0.1, 200))) is None


def test_too_few_steps_are_all_kept() -> None:
    assert truncation([0.1] * 49) == 0


def run(steps: Iterator[float], quiet: Iterator[bool]) -> tuple[int, float, bool]:
    result = warm_up(lambda: next(steps), lambda: next(quiet), 0, PROTOCOL)
    return result.steps, result.step_s, result.steady


def test_compilation_holds_up_the_floor() -> None:
    steps = chain([30.0], repeat(0.1))
    taken, step_s, steady = run(steps, chain(repeat(False, 40), repeat(True)))
    assert taken >= 40 + 60
    assert step_s == pytest.approx(0.1)
    assert steady


def test_an_arm_that_does_not_settle_is_watched_twice_and_then_said_to_be_unsteady() -> None:
    drifting = (0.05 * 1.002**n for n in range(100_000))
    _, _, steady = run(drifting, repeat(True))
    assert not steady
