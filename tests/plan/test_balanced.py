from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest

from harness.core.configuration import Option
from harness.plan.designs import Space, Stack, balanced

CHOICES = tuple((Option(name=name),) for name in "abcdefgh")
WORKERS = (Option(name="workers", level=2), Option(name="workers", level=4))
NEEDS = {"b": ("a",)}
BELOW = (Option(name="fixed"),)


def possible(stack: Stack) -> bool:
    """c and d exclude each other."""
    return not {"c", "d"} <= {one.name for one in stack}


SPACE = Space(below=BELOW, levels=(*CHOICES, WORKERS), needs=NEEDS, possible=possible)
ALONE: list[Stack] = [BELOW, *((*BELOW, one) for levels in (*CHOICES, WORKERS) for one in levels)]
MEASURED = [tuple(sorted(one)) for one in ALONE]


def told(stacks: Sequence[Stack]) -> float:
    """Log determinant of the information about single effects."""
    columns = [one for levels in SPACE.levels for one in levels]
    rows = np.array([[1.0, *(float(one in stack) for one in columns)] for stack in [*MEASURED, *stacks]])
    return float(np.linalg.slogdet(rows.T @ rows)[1])


def found(count: int = 5, seed: int = 0) -> tuple[Stack, ...]:
    return balanced(SPACE, MEASURED, count, np.random.default_rng(seed))


def test_balanced_stacks_can_all_be_run_and_are_new() -> None:
    stacks = found()
    assert len(set(stacks)) == 5
    assert not set(stacks) & set(MEASURED)
    for stack in stacks:
        names = [one.name for one in stack]
        assert stack == tuple(sorted(stack))
        assert possible(stack)
        assert "fixed" in names
        assert len(names) == len(set(names)), "two levels of one"
        assert "a" in names or "b" not in names


def test_they_tell_more_than_drawn_ones() -> None:
    generator = np.random.default_rng(1)
    drawn = [told([SPACE.drawn(generator) for _ in range(5)]) for _ in range(200)]
    assert told(found()) > max(drawn)


def test_no_single_change_would_tell_more() -> None:
    stacks = list(found())
    best = told(stacks)
    for row, levels in product(range(len(stacks)), SPACE.levels):
        for level in (None, *levels):
            other = SPACE.with_level(stacks[row], levels, level)
            if possible(other) and other not in stacks:
                assert told([*stacks[:row], other, *stacks[row + 1 :]]) <= best + 1e-6


def test_they_are_balanced_over_what_is_on_and_off() -> None:
    stacks = balanced(SPACE, [BELOW], 12, np.random.default_rng(0))
    for name in "aefgh":
        assert 3 <= sum(Option(name=name) in stack for stack in stacks) <= 9


def test_the_same_seed_gives_the_same_stacks() -> None:
    assert found(seed=3) == found(seed=3)


@pytest.mark.parametrize(("count", "there"), [(1, 1), (9, 2)])
def test_there_are_no_more_than_there_are(count: int, there: int) -> None:
    small = Space(below=(), levels=CHOICES[:2], needs={}, possible=lambda _: True)
    assert len(balanced(small, [(), CHOICES[0]], count, np.random.default_rng(0))) == there


def test_a_level_that_is_always_on_comes_back() -> None:
    two, four = WORKERS
    space = Space(below=(four,), levels=((two,),), needs={}, possible=lambda _: True)
    assert space.with_level((four,), (two,), two) == (two,)
    assert space.with_level((two,), (two,), None) == (four,)
    assert balanced(space, [(four,)], 3, np.random.default_rng(0)) == ((two,),)


def test_switching_off_what_is_needed_switches_off_what_needs_it() -> None:
    a, b = CHOICES[0][0], CHOICES[1][0]
    assert SPACE.with_level((a, b), CHOICES[0], None) == ()
    assert SPACE.with_level((a,), CHOICES[1], b) == (a, b)
    assert SPACE.with_level((WORKERS[0],), WORKERS, WORKERS[1]) == (WORKERS[1],)
