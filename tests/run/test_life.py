"""How windows lie over the samples: the same in every arm of an attempt."""

from collections import Counter
from random import Random

import pytest

from harness.plan.schedule import order_of_windows
from harness.run.replicate import Turns, numbered


def turns(skipped: int, extra: tuple[int, ...] = (0, 0, 0, 0)) -> Turns:
    return Turns(steps=6, leads={0: 1, 1: 3, 2: skipped}, extra=extra, offset=5, skipped=skipped)


def test_windows_follow_each_other_without_gaps_where_every_arm_can_be_told_where_to_go_on() -> None:
    assert [turns(0, (1, 0, 1, 1)).start(number) for number in range(4)] == [5, 11, 17, 23]


@pytest.mark.parametrize("extra", [(0, 0, 0, 0), (1, 0, 1, 1)])
def test_an_arm_with_workers_simply_goes_on_and_so_finds_the_samples_of_the_others(extra: tuple[int, ...]) -> None:
    made, at = turns(4, extra), 5
    for number in range(4):
        at += made.lead(2, number)
        assert made.start(number) == at
        at += made.steps


def test_a_cost_that_comes_every_so_many_steps_is_not_met_in_step() -> None:
    made = turns(0, tuple(Random(0).randrange(2) for _ in range(40)))
    taken, met = 0, Counter[int]()
    for number in range(40):
        taken += made.lead(0, number)
        met.update((taken + step) % 7 == 0 for step in range(made.steps))  # lead-in and window together are 7 steps
        taken += made.steps
    assert met[True] / met.total() == pytest.approx(1 / 7, rel=0.25)


@pytest.mark.parametrize("treatments", [1, 2, 3, 5])
def test_the_reference_goes_through_the_samples_that_treatments_go_through(treatments: int) -> None:
    rounds = dict.fromkeys(range(1, treatments + 1), 4)
    found = list(numbered(order_of_windows(rounds, Random(3))))
    for position in rounds:
        assert [number for one, number in found if one == position] == [0, 1, 2, 3]
    visits = [number for one, number in found if one == 0]
    assert (visits[0], visits[-1]) == (0, 0), "it ends with the samples with which it began"
    assert set(visits) == {0, 1, 2, 3}
    assert visits[:-1] == sorted(visits[:-1])
