"""A protocol on a device: how long bursts are, and how many."""

import pytest

from harness.core.protocol import BRIEF, STANDARD, Protocol


@pytest.mark.parametrize("protocol", [BRIEF, STANDARD])
def test_a_cpu_has_short_bursts_and_a_gpu_those_that_are_named(protocol: Protocol) -> None:
    assert protocol.on("cuda") == protocol
    short = protocol.on("cpu")
    assert short.burst_s * short.rounds == pytest.approx(protocol.burst_s * protocol.rounds)
    assert short.rounds == 4 * protocol.rounds
    assert short.burst_steps < protocol.burst_steps


@pytest.mark.parametrize("protocol", [BRIEF, STANDARD])
@pytest.mark.parametrize("step_s", [0.001, 0.2, 0.39, 0.41, 0.69, 0.71, 3.0])
def test_what_a_slow_step_is_does_not_depend_on_the_length_of_bursts(protocol: Protocol, step_s: float) -> None:
    assert protocol.on("cpu").is_slow(step_s) == protocol.is_slow(step_s)


@pytest.mark.parametrize(
    ("protocol", "step_s", "rounds"),
    [
        (BRIEF, 0.02, 5),
        (BRIEF, 0.3, 5),
        (BRIEF, 0.8, 4),
        (STANDARD, 0.3, 12),
        (STANDARD, 0.8, 7),
        (BRIEF.on("cpu"), 0.02, 20),
        (BRIEF.on("cpu"), 0.25, 13),
        (BRIEF.on("cpu"), 0.5, 6),
        (BRIEF.on("cpu"), 2.0, 4),
        (STANDARD.on("cpu"), 0.02, 48),
        (STANDARD.on("cpu"), 0.25, 17),
    ],
)
def test_bursts_that_are_long_are_fewer_and_four_at_least(protocol: Protocol, step_s: float, rounds: int) -> None:
    assert protocol.rounds_of(step_s) == rounds


def test_fewer_rounds_are_had_where_they_are_asked_for() -> None:
    assert Protocol(rounds=2).rounds_of(5.0) == 2


def test_turns_take_longer_where_steps_do() -> None:
    short = BRIEF.on("cpu")
    assert short.turns_s(0.01) == pytest.approx(1.5 * 20 * 0.1)
    assert short.turns_s(0.25) == pytest.approx(1.5 * 13 * 0.25)
