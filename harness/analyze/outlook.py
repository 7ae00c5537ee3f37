"""Outlooks: what the stage model says of one workload beyond what was measured, or why it says nothing.

Everything here is predicted. It stands apart from the matrix, has 90 % intervals, and decides no verdict.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.analyze.attribution import Gain
from harness.analyze.crosscheck import CrossCheck
from harness.analyze.prediction import Foretold, Predicted, Trusted
from harness.analyze.shapley import share_columns
from harness.analyze.stages import cells, log_times
from harness.analyze.study import Stack
from harness.analyze.telemetry import Declared
from harness.core.cell import Cell, Switch
from harness.core.optimization import Stage

DRAWS = 60  # points as likely as the data allow, from which the intervals of shares come
NORMAL_95 = 1.96  # standard deviations


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one switch brings to a stack, three times: put on first, by the model over all orders, put on last."""

    switch: Switch
    alone: Gain | None
    share: Gain | None
    last: Gain | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Anatomy:
    """A measured stack in parts."""

    subject: str
    total: Gain
    parts: tuple[Part, ...]  # the largest share first


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """By how much a stack would be faster if a stage cost nothing, as the model has it."""

    name: str  # of the stack: plain, everything
    stages: Mapping[Stage, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a trusted model says."""

    foretold: Foretold
    fastest: tuple[Predicted, ...]  # of the stacks that were not measured, the fastest first; not all of them
    unmeasured: int | None  # how many there are; None where there are too many to be counted
    ceilings: tuple[Ceiling, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What is said of one workload beyond its measured cells."""

    cell: Cell  # the reference
    name: str  # the reference's
    whole: Stack  # all that was switched on together; predicted stacks are told by how they differ from it
    forecast: Forecast | str  # or why there is none
    best: tuple[str, Gain] | None  # the fastest that was measured against the reference
    anatomy: Anatomy | None
    check: CrossCheck | None  # where more was measured than a matrix would have


@dataclass(frozen=True, slots=True, kw_only=True)
class Players:
    """The switches of a stack whose shares are asked for, and what they stand on."""

    switches: tuple[Switch, ...]
    below: Stack
    needs: Mapping[str, tuple[str, ...]]  # optimization -> others that it makes no sense without


def shares(found: Trusted, players: Players, declared: Declared, generator: np.random.Generator) -> dict[Switch, Gain]:
    """The Shapley shares of a stack's switches by the model, with 95 % intervals.

    The spread is that of models drawn from what the data allow, each sharing out the whole by itself; beyond twelve
    switches that of drawing orders is added.
    """
    frame = found.model.frame
    points = [found.model.point, *(found.model.drawn(generator).point for _ in range(DRAWS))]

    def value(stacks: Sequence[Stack]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        seen = cells(frame, [declared.arrangement(_on_top(players.below, stack)) for stack in stacks])
        return -np.stack([log_times(frame, point, seen).value for point in points], axis=1)

    columns, errors = share_columns(players.switches, value, players.needs, generator)
    spread = np.hypot(columns[:, 1:].std(axis=1, ddof=1), errors[:, 0])
    return {
        switch: Gain(log=float(log), half_width=float(NORMAL_95 * deviation))
        for switch, log, deviation in zip(players.switches, columns[:, 0], spread, strict=True)
    }


def _on_top(below: Stack, stack: Stack) -> Stack:
    names = {one.name for one in stack}
    return tuple(sorted((*(one for one in below if one.name not in names), *stack)))


def parts(
    switches: Sequence[Switch],
    first: Mapping[str, Gain],
    last: Mapping[str, Gain],
    modelled: Mapping[Switch, Gain],
) -> tuple[Part, ...]:
    """Each switch with the three numbers that are known of it, the largest of them first."""
    found = [
        Part(switch=one, alone=first.get(str(one)), share=modelled.get(one), last=last.get(str(one)))
        for one in switches
    ]
    return tuple(sorted(found, key=lambda part: (-_weight(part), str(part.switch))))


def _weight(part: Part) -> float:
    if part.share is not None:
        return part.share.log
    known = [one.log for one in (part.alone, part.last) if one is not None]
    return sum(known) / len(known) if known else -np.inf
