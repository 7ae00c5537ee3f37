"""Shares: what each option of a stack brings to the log of its speedup, by a model of all its parts.

The share of an option is what it adds, averaged over all orders in which the stack can be built (L. S. Shapley 1953, A
value for n-person games). Shares add up to the whole. A few options are averaged over all subsets; many over orders
drawn at random, each along with its reverse, which cancels what is linear in the place within the order (R. Mitchell
and others 2022, Sampling permutations for Shapley value estimation).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import factorial

import numpy as np
from numpy.typing import NDArray

from harness.analyze.attribution import Gain, first_and_last, gain
from harness.analyze.collection import StoredRow
from harness.analyze.composition import NORMAL
from harness.analyze.search.prediction import Prediction, Trusted
from harness.analyze.search.stage_model import Array, Declared, Stack, configs, log_times
from harness.core.configuration import Configuration, Option

Value = Callable[[Sequence[Stack]], Array]  # log speedups, stacks x columns
Needs = Mapping[str, tuple[str, ...]]  # optimization -> others that it makes no sense without
EXACT = 12  # options: 4,096 subsets


def shapley(
    options: Sequence[Option], value: Value, needs: Needs, generator: np.random.Generator, orders: int = 200
) -> tuple[Array, Array]:
    """Every option's shares in the values of them all, options x columns, and the standard errors of drawing orders.

    An option whose needs are off does nothing until they are on; errors are 0 where all orders were taken.
    """

    def of(members: NDArray[np.bool_]) -> Array:
        return value([effective(options, row, needs) for row in members])

    if len(options) <= EXACT:
        found = _over_subsets(of, len(options))
        return found, np.zeros_like(found)
    drawn = np.array([_over_pair(of, generator.permutation(len(options))) for _ in range(max(2, orders // 2))])
    return drawn.mean(axis=0), drawn.std(axis=0, ddof=1) / np.sqrt(len(drawn))


def effective(options: Sequence[Option], on: Sequence[bool] | NDArray[np.bool_], needs: Needs) -> Stack:
    """Those that are on and lack nothing."""
    names = {option.name for option, one in zip(options, on, strict=True) if one}
    present = (option for option in options if option.name in names)
    return tuple(sorted(one for one in present if names.issuperset(needs.get(one.name, ()))))


def _over_subsets(of: Callable[[NDArray[np.bool_]], Array], count: int) -> Array:
    """Shapley's formula: what each adds to every subset of the others, weighted by the subset's size."""
    numbers = np.arange(2**count)
    members = ((numbers[:, None] >> np.arange(count)) & 1).astype(np.bool_)
    values, sizes = of(members), members.sum(axis=1)
    weights = np.array([factorial(size) * factorial(count - 1 - size) / factorial(count) for size in range(count)])
    found = np.empty((count, values.shape[1]))
    for index in range(count):
        without = numbers[~members[:, index]]
        found[index] = weights[sizes[without]] @ (values[without + 2**index] - values[without])
    return found


def _over_pair(of: Callable[[NDArray[np.bool_]], Array], order: NDArray[np.intp]) -> Array:
    """What each adds in one order and in its reverse, averaged."""
    found: list[Array] = []
    for one in (order, order[::-1]):
        places = np.empty(len(order), dtype=np.intp)
        places[one] = np.arange(len(order))
        members = places[None, :] < np.arange(len(order) + 1)[:, None]
        added = np.diff(of(members), axis=0)
        found.append(added[places])
    return np.asarray(np.mean(found, axis=0))


# Decompositions: a measured stack in parts, each put on first, by the model over all orders, and put on last.

DRAWS = 60  # points as likely as the data allow, from which the intervals of shares come


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one option brings to a stack, three times: put on first, by the model over all orders, put on last."""

    option: Option
    alone: Gain | None
    share: Gain | None
    last: Gain | None

    @property
    def weight(self) -> float:
        """The log gain to order by: the share, else the mean of what was measured."""
        measured = [one.log for one in (self.alone, self.last) if one is not None]
        if self.share is not None:
            return self.share.log
        return sum(measured) / len(measured) if measured else -np.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Decomposition:
    """A measured stack in parts."""

    label: str
    total: Gain
    parts: tuple[Part, ...]  # the largest share first


def decomposition(
    whole: StoredRow, others: Iterable[StoredRow], found: Trusted | str, declared: Declared, needs: Needs
) -> Decomposition | None:
    """A measured stack in parts, the largest first, by the model where it is trusted; None without an estimate."""
    if whole.row.estimate is None:
        return None
    below = whole.row.comparison.reference.options
    added = tuple(one for one in whole.row.comparison.treatment.options if one not in below)
    first, last = first_and_last(whole, others)
    shares = {} if isinstance(found, str) else modelled_shares(found, added, below, declared, needs)
    parts = [
        Part(option=one, alone=first.get(str(one)), share=shares.get(one), last=last.get(str(one))) for one in added
    ]
    parts.sort(key=lambda part: (-part.weight, str(part.option)))
    return Decomposition(label=whole.row.label, total=gain(whole.row.estimate), parts=tuple(parts))


def modelled_shares(
    found: Trusted, options: Sequence[Option], below: Stack, declared: Declared, needs: Needs
) -> dict[Option, Gain]:
    """The Shapley shares of options on top of a stack by the model, with 95 % intervals.

    The spread is that of models drawn from what the data allow, each sharing out the whole by itself; beyond twelve
    options that of drawing orders is added. What the stack below has already, no option lacks.
    """
    there = {one.name for one in below}
    lacking = {name: tuple(one for one in others if one not in there) for name, others in needs.items()}
    frame, generator = found.model.frame, np.random.default_rng(0)
    points = [found.model.point, *(found.model.drawn(generator).point for _ in range(DRAWS))]

    def value(stacks: Sequence[Stack]) -> Array:
        seen = configs(frame, [declared.arrangement(_on_top(below, stack)) for stack in stacks])
        return -np.stack([log_times(frame, point, seen).value for point in points], axis=1)

    columns, errors = shapley(options, value, lacking, generator)
    spread = np.hypot(columns[:, 1:].std(axis=1, ddof=1), errors[:, 0])
    return {
        option: Gain(log=float(log), half_width=float(NORMAL * deviation))
        for option, log, deviation in zip(options, columns[:, 0], spread, strict=True)
    }


def _on_top(below: Stack, stack: Stack) -> Stack:
    names = {one.name for one in stack}
    return tuple(sorted((*(one for one in below if one.name not in names), *stack)))


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadPrediction:
    """What is said of one workload beyond its measured configurations."""

    config: Configuration  # the reference
    name: str  # the reference's
    whole: Stack  # all that was switched on together; predicted stacks are told by how they differ from it
    prediction: Prediction | str  # or why there is none
    best: tuple[str, Gain] | None  # the fastest that was measured against the reference
    decomposition: Decomposition | None
