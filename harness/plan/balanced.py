"""Balanced stacks: the few further stacks that tell most about every switch, beside those that are measured anyway.

Coordinate exchange (R. K. Meyer and C. J. Nachtsheim 1995) towards a D-optimal design: one switch of one stack is
changed at a time, and the change is kept if the determinant of the information about all single effects grows. Stacks
that cannot be are never visited, and what needs another is switched off with it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.core.cell import Switch

Stack = tuple[Switch, ...]  # sorted
Array = NDArray[np.float64]
PASSES = 20  # over all switches of all stacks at most; most often five find no more
DRAWS = 20  # for each stack that is wanted, before there are thought to be no others
RIDGE = 1e-3  # of an effect that no stack shows yet, so that the determinant is never 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """The stacks that there are: at most one level of each optimization, on top of what is always on."""

    below: Stack
    levels: tuple[tuple[Switch, ...], ...]  # of each optimization that varies
    needs: Mapping[str, tuple[str, ...]]  # optimization -> others that it makes no sense without
    possible: Callable[[Stack], bool]

    def with_level(self, stack: Stack, levels: Sequence[Switch], level: Switch | None) -> Stack:
        """The stack with this level, or what is always on, in place of others; what then lacks something is off."""
        name = levels[0].name
        kept = [one for one in stack if one.name != name]
        return self.sound([*kept, level] if level else [*kept, *(one for one in self.below if one.name == name)])

    def sound(self, switches: Iterable[Switch]) -> Stack:
        """These switches in order, without those that need what is not among them."""
        found = tuple(switches)
        names = {one.name for one in found}
        return tuple(sorted(one for one in found if names.issuperset(self.needs.get(one.name, ()))))

    def drawn(self, generator: np.random.Generator) -> Stack:
        """A stack in which about half of all are on, each at a level drawn from its levels."""
        stack = self.below
        for index in generator.permutation(len(self.levels)):
            levels = self.levels[index]
            if generator.random() < 0.5:
                changed = self.with_level(stack, levels, levels[generator.integers(len(levels))])
                stack = changed if self.possible(changed) else stack
        return stack


def balanced(space: Space, measured: Sequence[Stack], count: int, generator: np.random.Generator) -> tuple[Stack, ...]:
    """So many stacks that together with the measured ones tell most; fewer where there are no others."""
    stacks: list[Stack] = []
    for _ in range(DRAWS * count):
        stack = space.drawn(generator)
        if len(stacks) < count and stack not in measured and stack not in stacks:
            stacks.append(stack)
    for _ in range(PASSES):
        before = list(stacks)
        for row in range(len(stacks)):
            stacks[row] = _exchanged(space, [*measured, *stacks[:row], *stacks[row + 1 :]], stacks[row])
        if stacks == before:
            break
    return tuple(stacks)


def _exchanged(space: Space, others: Sequence[Stack], stack: Stack) -> Stack:
    """A stack with each switch changed where that tells more, given all other stacks."""
    unknown = np.asarray(np.linalg.inv(_information(space, others)), dtype=np.float64)
    best = _told(space, unknown, stack)
    for levels in space.levels:
        for level in (None, *levels):
            other = space.with_level(stack, levels, level)
            found = _told(space, unknown, other)
            if found > best + 1e-9 and other not in others and space.possible(other):
                stack, best = other, found
    return stack


def _told(space: Space, unknown: Array, stack: Stack) -> float:
    """By how much one more stack multiplies the determinant, less 1: the matrix determinant lemma."""
    row = _row(space, stack)
    return float(row @ unknown @ row)


def _information(space: Space, stacks: Sequence[Stack]) -> Array:
    rows = np.array([_row(space, stack) for stack in stacks]).reshape(len(stacks), -1)
    return np.asarray(rows.T @ rows + RIDGE * np.eye(1 + sum(map(len, space.levels))))


def _row(space: Space, stack: Stack) -> Array:
    """1 for the constant, and 1 for every level that is on: all single effects of a log-linear model."""
    return np.array([1.0, *(float(level in stack) for levels in space.levels for level in levels)])
