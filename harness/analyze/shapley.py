"""Shapley shares: what each switch of a stack brings to the log of its speedup, by a model of all its parts.

The share of a switch is what it adds, averaged over all orders in which the stack can be built (L. S. Shapley 1953, A
value for n-person games). Shares add up to the whole. A few switches are averaged over all subsets; many over orders
drawn at random, each along with its reverse, which cancels what is linear in the place within the order (R. Mitchell
and others 2022, Sampling permutations for Shapley value estimation).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import factorial

import numpy as np
from numpy.typing import NDArray

from harness.analyze.study import Stack
from harness.core.cell import Switch

Array = NDArray[np.float64]
Value = Callable[[Sequence[Stack]], Array]  # log speedups of stacks, in one column or in several
EXACT = 12  # switches: 4,096 subsets


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelledShare:
    """The log speedup that a switch brings, and the standard error of drawing orders; 0 where all were taken."""

    log: float
    error: float


def shares(
    switches: Sequence[Switch],
    value: Value,
    needs: Mapping[str, tuple[str, ...]],
    generator: np.random.Generator,
    orders: int = 200,
) -> dict[Switch, ModelledShare]:
    """The share of each switch in the value of them all; one whose needs are off does nothing until they are on."""
    columns, errors = share_columns(switches, lambda stacks: value(stacks)[:, None], needs, generator, orders)
    return {
        switch: ModelledShare(log=float(log), error=float(error))
        for switch, log, error in zip(switches, columns[:, 0], errors[:, 0], strict=True)
    }


def share_columns(
    switches: Sequence[Switch],
    value: Value,
    needs: Mapping[str, tuple[str, ...]],
    generator: np.random.Generator,
    orders: int = 200,
) -> tuple[Array, Array]:
    """The same for several values of every stack at once, stacks x columns: shares and errors, switches x columns."""

    def of(members: NDArray[np.bool_]) -> Array:
        return value([effective(switches, row, needs) for row in members])

    if len(switches) <= EXACT:
        found = _over_subsets(of, len(switches))
        return found, np.zeros_like(found)
    drawn = np.array([_over_pair(of, generator.permutation(len(switches))) for _ in range(max(2, orders // 2))])
    return drawn.mean(axis=0), drawn.std(axis=0, ddof=1) / np.sqrt(len(drawn))


def effective(
    switches: Sequence[Switch], on: Sequence[bool] | NDArray[np.bool_], needs: Mapping[str, tuple[str, ...]]
) -> Stack:
    """Those that are on and lack nothing."""
    names = {switch.name for switch, one in zip(switches, on, strict=True) if one}
    present = (switch for switch in switches if switch.name in names)
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
