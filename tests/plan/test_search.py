from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from harness.core.configuration import Option
from harness.plan import search
from harness.plan.designs import Space, Stack
from harness.plan.search import (
    NO_MODEL,
    STACKS,
    Array,
    Proposal,
    every_stack,
    gain_left,
    leaner,
    narrowed,
    propose,
    without_what_hurts,
)
from harness.plan.search import proposed as next_proposal
from harness.search import KEPT

CHOICES = tuple((Option(name=name),) for name in "abcdef")
WORKERS = (Option(name="workers", level=2), Option(name="workers", level=4))
SPACE = Space(
    below=(), levels=(*CHOICES, WORKERS), needs={"b": ("a",)}, possible=lambda stack: Option(name="f") not in stack
)
GAINS = {"a": 0.1, "b": 0.3, "c": -0.2, "d": 0.05, "e": 0.2, "f": 9.0, "workers=2": 0.4, "workers=4": 0.3}
BEST = tuple(sorted((*(CHOICES[index][0] for index in (0, 1, 3, 4)), WORKERS[0])))


def truth(stacks: Sequence[Stack]) -> Array:
    """b and d cancel each other's gain when e is on."""
    return np.array([-sum(GAINS[str(one)] for one in stack) for stack in stacks])


def proposed(*measured: Stack, space: Space = SPACE) -> Proposal:
    times = dict(zip(measured, truth(measured), strict=True))
    return propose(space, times, [truth], np.random.default_rng(0))


def test_the_fastest_that_can_be_run_comes_first_and_nothing_measured_again() -> None:
    found = proposed((), (CHOICES[0][0],))
    assert found.finished is None
    assert found.stacks[0] == BEST
    assert list(truth(found.stacks)) == sorted(truth(found.stacks))
    assert len(found.stacks) == STACKS
    assert found.gain == pytest.approx(np.expm1(1.05 - 0.1))
    again = proposed((), *found.stacks)
    assert not set(again.stacks) & set(found.stacks)


def test_the_search_ends_when_nothing_is_predicted_to_be_faster() -> None:
    found = proposed((), BEST)
    assert found.stacks == ()
    assert found.finished == "no other stack is predicted to be 1 % faster than the best measured one"
    assert found.gain < 0.01
    everything = list(every_stack(SPACE))
    assert proposed(*everything).finished == "every stack has been measured"


def test_a_lucky_measurement_of_a_stack_does_not_end_the_search() -> None:
    """The plain one seems 0.5 faster than all others are predicted to be, of which the model holds nothing."""
    found = propose(SPACE, {(): truth([BEST])[0] - 0.5}, [truth], np.random.default_rng(0))
    assert found.finished is None
    assert found.stacks[0] == BEST
    assert found.gain == pytest.approx(np.expm1(1.05))


def test_drawn_models_have_their_say() -> None:
    other = tuple(sorted((CHOICES[2][0], WORKERS[1])))

    def drawn(stacks: Sequence[Stack]) -> Array:
        return np.array([0.0 if stack == other else 1.0 for stack in stacks])

    found = propose(SPACE, {(): 0.0}, [truth, drawn], np.random.default_rng(0))
    assert found.stacks[:2] == (BEST, other)
    assert len(found.stacks) == STACKS


def test_every_stack_lacks_nothing_and_can_be_run() -> None:
    stacks = list(every_stack(SPACE))
    assert len(stacks) == len(set(stacks)) == 3 * 2**3 * 3  # a and b, the three that are free, and workers
    assert all(Option(name="f") not in stack for stack in stacks)


def test_a_level_stands_in_for_the_one_that_is_always_on() -> None:
    space = Space(below=(WORKERS[1],), levels=((WORKERS[0],), CHOICES[0]), needs={}, possible=lambda _: True)
    a = CHOICES[0][0]
    assert set(every_stack(space)) == {(WORKERS[1],), (WORKERS[0],), (a, WORKERS[1]), (a, WORKERS[0])}


def test_too_many_to_rank_are_searched_by_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    ranked = proposed(())
    monkeypatch.setattr(search, "RANKED", 10)
    found = proposed(())
    assert found.stacks[0] == ranked.stacks[0] == BEST
    assert not any(Option(name="f") in stack for stack in found.stacks)


def test_two_changes_at_once_lead_out_of_where_one_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "RANKED", 10)
    monkeypatch.setattr(search, "STARTS", 0)
    c, d = CHOICES[2][0], CHOICES[3][0]

    def only_together(stacks: Sequence[Stack]) -> Array:
        return np.array([-1.0 if {c, d} <= set(stack) else len(stack) / 10 for stack in stacks])

    found = propose(SPACE, {(): 0.0}, [only_together], np.random.default_rng(0))
    assert {c, d} <= set(found.stacks[0])


def test_what_is_below_stays_on() -> None:
    below = replace(SPACE, below=(Option(name="fixed"),))
    found = propose(below, {below.below: 0.0}, [lambda stacks: -np.array([len(one) for one in stacks])], np.random.default_rng(0))  # fmt: skip  # noqa: E501
    assert found.stacks
    assert all(Option(name="fixed") in stack for stack in found.stacks)


def test_a_search_from_nothing_is_a_bug() -> None:
    with pytest.raises(ValueError, match="a measured stack"):
        propose(SPACE, {}, [truth], np.random.default_rng(0))


def test_what_hurts_put_on_last_is_dropped_from_all_together() -> None:
    a, b, c, d = (CHOICES[index][0] for index in range(4))
    whole = (a, b, c, d)
    last = {a: 0.2, b: 0.1, c: -0.1, d: -0.01}
    found = without_what_hurts(SPACE, whole, {c: -0.3, d: 0.4}, last)
    assert found == (
        (a, b),
        (a, b, d),
    )  # both that hurt last; what hurts on the mean, and the worst alone, are the same
    lonely = without_what_hurts(SPACE, whole, {}, {a: -0.1, b: 0.1, c: 0.1, d: 0.1})
    assert lonely == ((c, d),)  # b needs a
    assert without_what_hurts(SPACE, whole, {}, {a: 0.1}) == ()


def test_a_lighter_stack_is_measured_beside_what_a_model_proposes() -> None:
    light = (CHOICES[2][0],)
    generator = np.random.default_rng(0)
    found = next_proposal(SPACE, {(): 0.0}, [truth], [(), light], generator)
    assert found.stacks[0] == BEST
    assert found.stacks[-1] == light
    assert len(found.stacks) == STACKS
    over = next_proposal(SPACE, {(): 0.0, BEST: truth([BEST])[0]}, [truth], [light], generator)
    assert (over.stacks, over.finished) == ((light,), None)


def test_without_a_model_only_lighter_stacks_are_measured() -> None:
    light = (CHOICES[2][0],)
    generator = np.random.default_rng(0)
    found = next_proposal(SPACE, {(): 0.0}, [], [light, ()], generator)
    assert (found.stacks, found.finished) == ((light,), None)
    over = next_proposal(SPACE, {(): 0.0, light: 0.1}, [], [light], generator)
    assert (over.stacks, over.finished) == ((), NO_MODEL)


def test_a_narrowed_space_lacks_what_is_barred_and_what_does_not_fit() -> None:
    found = narrowed(SPACE, {CHOICES[0][0], WORKERS[0]}, lambda stack: len(stack) < 3)
    stacks = list(every_stack(found))
    assert ((WORKERS[1],) in stacks, (WORKERS[0],) in stacks, (CHOICES[0][0],) in stacks) == (True, False, False)
    assert max(map(len, stacks)) == 2


def test_what_is_left_to_gain_is_predicted_even_where_it_is_a_loss() -> None:
    assert gain_left(SPACE, {(): 0.0}, truth) == pytest.approx(np.expm1(1.05))
    left = gain_left(SPACE, {BEST: truth([BEST])[0]}, truth)
    assert left is not None
    assert left < 0
    times = dict(zip(every_stack(SPACE), truth(list(every_stack(SPACE))), strict=True))
    assert gain_left(SPACE, times, truth) is None


def test_what_gains_nothing_is_dropped_with_what_needs_it_and_what_gains_stays() -> None:
    idle = {**GAINS, "a": 0.001, "b": 0.002, "d": 0.0, "e": 0.02}

    def times(stacks: Sequence[Stack]) -> Array:
        return np.array([-sum(idle[str(one)] for one in stack) for stack in stacks])

    def small(stacks: Sequence[Stack]) -> Array:
        return times(stacks) / 5  # several of them are worth more together than what is let go

    assert leaner(SPACE, BEST, times, 0.01) == tuple(sorted((CHOICES[4][0], WORKERS[0])))
    assert leaner(SPACE, BEST, small, 0.01) == (WORKERS[0],)
    assert leaner(SPACE, (WORKERS[0],), times, 0.01) == (WORKERS[0],)


def test_an_option_that_nobody_put_on_last_buys_no_other_its_leave() -> None:
    known = {str(BEST[0]): 0.5, str(BEST[1]): 0.3}

    def times(stacks: Sequence[Stack]) -> Array:
        return np.array([-sum(known.get(str(one), KEPT) for one in stack) for stack in stacks])

    assert leaner(SPACE, BEST, times, 0.01) == BEST


def test_dropping_what_hurts_buys_nothing_else_its_leave() -> None:
    whole = tuple(sorted((*BEST, CHOICES[2][0])))
    assert leaner(SPACE, whole, truth, 0.01) == BEST
