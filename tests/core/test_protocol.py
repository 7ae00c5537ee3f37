"""A protocol: how many steps a window has, and how many windows there are."""

import math

import pytest

from harness.core.optimization import Timing
from harness.core.protocol import BRIEF, FEWEST_ROUNDS, STANDARD, Protocol


@pytest.mark.parametrize(
    ("step_s", "epoch_steps", "workers", "steps"),
    [
        (0.045, math.inf, 1, 12),  # 0.5 s
        (0.2, 100, 1, 3),
        (1.0, 100, 1, 2),  # a slow step, and still more than one
        (0.2, 100, 4, 8),  # four workers finish side by side: two groups at least
        (0.045, math.inf, 4, 12),  # whole groups
        (0.1, 16, 1, 16),  # an epoch of 1.6 s is timed as a whole
        (0.33, 2, 1, 2),  # so is one that is longer than a window
        (0.1, 2, 1, 4),  # and one that is shorter, as often as fits
        (0.2, 16, 1, 3),  # one of 3.2 s is not
        (0.15, 15, 8, 16),  # groups of eight and epochs of fifteen agree after 18 s: groups stay whole
        (0.01, 15, 8, 120),  # and after 1.2 s: both do
        (0.02, 15, 4, 60),
    ],
)
def test_a_window_holds_steps_whole_groups_and_whole_epochs(
    step_s: float, epoch_steps: float, workers: int, steps: int
) -> None:
    assert BRIEF.steps_of(step_s, epoch_steps, workers) == steps


@pytest.mark.parametrize(
    ("step_s", "epoch_steps", "workers", "steps"),
    [
        (0.0138, 32, 1, 19),  # 0.25 s, and no epoch that is less than twice as long
        (0.055, 8, 1, 5),
        (0.055, 3, 1, 6),  # one that is shorter is timed as a whole
        (0.05, 6, 4, 8),  # groups stay whole
    ],
)
def test_windows_of_a_part_of_a_step_are_as_long_as_they_are_to_be(
    step_s: float, epoch_steps: float, workers: int, steps: int
) -> None:
    assert BRIEF.of(Timing.LOADER).steps_of(step_s, epoch_steps, workers) == steps


@pytest.mark.parametrize("protocol", [BRIEF, STANDARD])
@pytest.mark.parametrize("workers", [1, 2, 4, 8])
@pytest.mark.parametrize("step_s", [0.001, 0.045, 0.39, 3.0])
@pytest.mark.parametrize("epoch_steps", [math.inf, 1, 15, 64])
def test_a_window_is_long_against_what_workers_finish_at_once(
    protocol: Protocol, workers: int, step_s: float, epoch_steps: float
) -> None:
    steps = protocol.steps_of(step_s, epoch_steps, workers)
    assert steps % workers == 0
    assert workers == 1 or steps >= 2 * workers


@pytest.mark.parametrize(
    ("protocol", "step_s", "rounds"),
    [(BRIEF, 0.02, 3), (BRIEF, 2.0, FEWEST_ROUNDS), (STANDARD, 0.02, 12), (STANDARD, 0.8, 3)],
)
def test_windows_that_are_long_are_fewer(protocol: Protocol, step_s: float, rounds: int) -> None:
    assert protocol.rounds_of(step_s) == rounds


def test_fewer_rounds_are_had_where_they_are_asked_for() -> None:
    assert Protocol(rounds=2).rounds_of(5.0) == 2


@pytest.mark.parametrize(("times", "steps"), [(1.0, 10), (8.0, 10), (12.0, 15), (16.0, 20), (200.0, 20)])
def test_windows_last_up_to_twice_as_long_where_an_arm_is_more_than_eight_times_faster(
    times: float, steps: int
) -> None:
    assert STANDARD.steps_of_windows(0.1, 0.1 / times) == steps


@pytest.mark.parametrize(
    ("timing", "group", "times"), [(Timing.STEP, 1, 2), (Timing.LOADER, 1, 1), (Timing.LOADER, 2, 2)]
)
def test_windows_of_a_part_of_a_step_last_no_longer_beside_a_fast_arm_unless_workers_finish_in_groups(
    timing: Timing, group: int, times: int
) -> None:
    protocol = STANDARD.of(timing)
    assert protocol.steps_of_windows(0.01, 0.01 / 30, group=group) == times * protocol.steps_of(0.01, group=group)
