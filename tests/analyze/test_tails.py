"""Tails: a few steps that take much of the time are found, and ordinary scatter is not."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from harness.analyze.pairing import Tail, tail
from harness.analyze.profile import StepTimes, step_times
from harness.core.records import Window, quantiles
from tests.analyze.synthetic import arm, comparison, matrix, plan, records, window

STEPS = 100


def taken(seconds: Sequence[float], position: int = 0) -> list[Window]:
    """Windows of a hundred steps, or of fewer at the end."""
    return [one_taken(seconds[first : first + STEPS], position, first) for first in range(0, len(seconds), STEPS)]


def one_taken(seconds: Sequence[float], position: int = 0, order: int = 0) -> Window:
    slowest = tuple(sorted(seconds, reverse=True)[: 1 + len(seconds) // 50])
    one = window(arm(position=position), order, 100.0)
    told = {"slowest_s": slowest, "quantiles_s": quantiles(seconds)}
    return replace(one, steps=len(seconds), wall_s=float(sum(seconds)), **told)


def test_a_known_tail() -> None:
    """Ten steps of a thousand take 100 times as long as the others: half of the time, but for a hair."""
    found = tail(taken(([0.01] * 99 + [1.0]) * 10), 0)
    assert found is not None
    assert (found.steps, found.of) == (10, 1000)
    assert (found.share, found.times) == (pytest.approx(10 / 19.9), pytest.approx(100.0))
    assert found.matters()
    words = "1 % of its steps take 50 % of the time, 100 times as long as the others: look there first"
    assert found.sentence("its") == words


def test_of_fewer_than_a_hundred_steps_the_slowest_one_is_told_with_its_true_share() -> None:
    found = tail([one_taken([0.1] * 19 + [8.1])], 0)
    assert found is not None
    assert (found.steps, found.of, found.share) == (1, 20, pytest.approx(0.81))
    assert found.sentence("the reference's").startswith("1 of 20 of the reference's steps take 81 % of the time, 81")


def test_slow_steps_beyond_the_slowest_hundredth_are_no_part_of_the_others() -> None:
    """Loader workers that start anew in each of six epochs of fifteen steps: the first step takes 30 times as long."""
    epochs = [one_taken([0.3] * 14 + [first_s], order=number) for number, first_s in enumerate([8, 9, 10, 8, 9, 10])]
    found = tail(epochs, 0)
    assert found is not None
    assert (found.steps, found.of) == (6, 90)
    assert (found.share, found.times) == (pytest.approx(54 / 79.2), pytest.approx(30.0))
    assert found.matters()
    words = "6 of 90 of its steps take 68 % of the time, 30 times as long as the others: look there first"
    assert found.sentence("its") == words


@pytest.mark.parametrize("law", ["normal", "exponential", "two speeds"])
def test_quantiles_of_steps_are_those_of_all_of_them(law: str) -> None:
    """What windows keep of their steps gives the quantiles of the whole within a twentieth of them."""
    generator = np.random.default_rng(7)
    drawn = {
        "normal": generator.normal(1.0, 0.1, 5000),
        "exponential": 0.3 + generator.exponential(1.0, 5000),
        "two speeds": np.where(generator.random(5000) < 0.3, 2.0, 1.0) + generator.normal(0.0, 0.05, 5000),
    }[law]
    found = step_times(taken(list(map(float, drawn))))
    assert found is not None
    for value, low, high in ((found.p50, 45, 55), (found.p95, 92, 97), (found.p99, 98.5, 99.5)):
        assert np.percentile(drawn, low) <= value <= np.percentile(drawn, high)
    assert found.longest == drawn.max()
    assert found.steps == 5000


def test_few_steps_are_told_one_by_one_and_have_no_hundredth_part() -> None:
    found = step_times([one_taken([0.1] * 3 + [0.5]), one_taken([0.2] * 12, order=1)])
    assert found == StepTimes(p50=0.2, p95=0.5, p99=None, longest=0.5, steps=16)


def test_windows_of_before_tell_nothing_of_single_steps() -> None:
    one = one_taken([0.1] * 10)
    assert step_times([one, replace(one, quantiles_s=None)]) is None
    assert step_times([replace(one, slowest_s=None)]) is None


@pytest.mark.parametrize("steps", [8, 60, 3000])
@pytest.mark.parametrize("law", ["normal", "lognormal", "exponential"])
def test_ordinary_scatter_is_no_finding(law: str, steps: int) -> None:
    generator = np.random.default_rng(steps)
    drawn = {
        "normal": generator.normal(1.0, 0.2, steps).clip(0.2),
        "lognormal": np.exp(generator.normal(0.0, 0.6, steps)),
        "exponential": 0.3 + generator.exponential(1.0, steps),
    }[law]
    found = tail(taken(list(map(float, drawn))), 0)
    assert found is not None
    assert not found.matters()


def test_workers_that_deliver_side_by_side_are_no_tail() -> None:
    """Of sixteen workers' batches every sixteenth is waited for, and that for sixteen steps."""
    found = tail(taken(([0.001] * 15 + [1.6]) * 50), 0)
    assert found is not None
    assert found.matters()
    assert not found.matters(workers=16)


def test_nor_are_they_where_every_clump_is_named() -> None:
    """Windows of sixteen steps name the only one that waits, which takes any number of times as long as the others."""
    found = tail([one_taken([0.001] * 15 + [1.6], order=number) for number in range(20)], 0)
    assert found is not None
    assert (found.steps, found.of, found.times) == (20, 320, pytest.approx(1600.0))
    assert not found.matters(workers=16)


def test_nothing_is_told_where_nobody_took_note_of_steps() -> None:
    assert tail([window(arm(), 0, 100.0)], 0) is None
    assert tail([], 0) is None
    assert tail([replace(one_taken([1.0, 1.0]), slowest_s=(1.0, 1.0))], 0) == Tail(
        steps=1, of=2, share=0.5, times=1.0, hundredth=1.0
    )


def test_the_row_says_it_once_for_each_arm() -> None:
    def stalled(record: object) -> object:
        if not isinstance(record, Window):
            return record
        steps, stall_s = 200, 50.0 if record.arm.position else 20.0
        return replace(record, steps=steps, wall_s=10.0 + stall_s, slowest_s=(stall_s, 0.05, 0.05, 0.05, 0.05))

    found = [stalled(one) for one in records(0, 1.0, effective={"workers": 2})]
    (row,) = matrix(plan(comparison("workers")), found).rows  # type: ignore[arg-type]
    tails = [note for note in row.notes if "look there first" in note]
    assert [note.partition(" steps")[0] for note in tails] == ["1 % of the reference's", "1 % of its"]
