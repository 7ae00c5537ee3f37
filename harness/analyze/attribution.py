"""Attribution: what each switch of a stack brings, as factors that multiply to the ratio of the whole.

A share is the Shapley value of a log ratio (L. S. Shapley 1953, A value for n-person games): what a switch adds,
averaged over all orders in which the stack can be built. Let switches interact in pairs only, which is to say that the
interaction indices of larger sets are zero (M. Grabisch and M. Roubens 1999, An axiomatic approach to the concept of
interaction among players in cooperative games). A set S then has the log ratio

    v(S) = sum of a_i over S + sum of b_ij over the pairs in S,

so that switch i adds a_i + sum of b_ij over those that were there before it. Each other switch is there before it in
half of all orders: the share is a_i + half the sum of all b_ij. Put on first it adds a_i; put on last it adds a_i and
the whole sum. The share is therefore exactly the mean of what it adds first and what it adds last, and the shares add
up to v of the whole. What is left over beyond the shares shows interactions of more than two, or parts that nobody
measured; it is kept as an amount of its own, and nothing is scaled to make it vanish.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from harness.analyze.collection import Entry
from harness.analyze.estimate import Estimate
from harness.core.cell import Cell, Switch
from harness.core.environment import Environment
from harness.core.optimization import Timing


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """A log ratio with half the width of its 95 % interval, which is infinite where nothing is known."""

    log: float
    half_width: float

    @property
    def ratio(self) -> float:
        """The factor: above 1 is faster."""
        return math.exp(self.log)

    @property
    def low(self) -> float:
        """The lower end of the interval, as a factor."""
        return math.exp(self.log - self.half_width)

    @property
    def high(self) -> float:
        """The upper end of the interval, as a factor; infinite where there is no bound."""
        return math.exp(min(self.log + self.half_width, 700.0)) if math.isfinite(self.half_width) else math.inf

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves out a factor of 1."""
        return abs(self.log) > self.half_width


def gain(estimate: Estimate) -> Gain:
    """The log ratio of an estimate."""
    return Gain(log=math.log(estimate.ratio), half_width=estimate.half_width)


def combined(*terms: tuple[float, Gain]) -> Gain:
    """A sum of weighted gains.

    Half-widths are added, not their squares: arms share references, so errors may go together, and the deviation of a
    sum is never more than the sum of deviations.
    """
    return Gain(
        log=math.fsum(weight * one.log for weight, one in terms),
        half_width=math.fsum(abs(weight) * one.half_width for weight, one in terms),
    )


class Basis(StrEnum):
    """What a share was computed from."""

    BOTH = "first and last"  # the Shapley share, if only pairs interact
    FIRST = "alone"
    LAST = "last"


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one switch brings to a stack."""

    name: str
    gain: Gain
    basis: Basis


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """A stack's gain in parts: the shares, the largest first, and what there is beyond them; they add up to `total`."""

    total: Gain
    shares: tuple[Share, ...]
    beyond: Gain
    unmeasured: tuple[str, ...]  # switches without a share: they are in `beyond`

    @property
    def is_exact(self) -> bool:
        """Whether every share is a Shapley share, as far as only pairs interact."""
        return not self.unmeasured and all(one.basis is Basis.BOTH for one in self.shares)


def attribute(names: Iterable[str], total: Gain, alone: Mapping[str, Gain], last: Mapping[str, Gain]) -> Attribution:
    """The shares of switches in a stack, from what each adds to nothing and what each adds to all the others.

    A switch with one of the two is credited with that one, and its basis says so; one with neither has no share.
    """
    names = tuple(names)
    found = [_share(name, alone.get(name), last.get(name)) for name in names]
    shares = sorted((one for one in found if one is not None), key=lambda one: (-one.gain.log, one.name))
    return Attribution(
        total=total,
        shares=tuple(shares),
        beyond=combined((1.0, total), *((-1.0, one.gain) for one in shares)),
        unmeasured=tuple(name for name in names if name not in alone and name not in last),
    )


def _share(name: str, first: Gain | None, last: Gain | None) -> Share | None:
    if first is not None and last is not None:
        return Share(name=name, gain=combined((0.5, first), (0.5, last)), basis=Basis.BOTH)
    if first is not None:
        return Share(name=name, gain=first, basis=Basis.FIRST)
    return None if last is None else Share(name=name, gain=last, basis=Basis.LAST)


def attributed(whole: Entry, others: Iterable[Entry]) -> Attribution:
    """The shares of one measured stack, from whatever else was measured in its environment, on its data and timing.

    Raises ValueError where the stack has no estimate.
    """
    if whole.row.estimate is None:
        raise ValueError("only a stack with an estimate can be taken apart")
    first, last = first_and_last(whole, others)
    added = _added(whole.row.comparison.treatment, whole.row.comparison.reference)
    return attribute(map(str, added), gain(whole.row.estimate), first, last)


def first_and_last(whole: Entry, others: Iterable[Entry]) -> tuple[Mapping[str, Gain], Mapping[str, Gain]]:
    """What each switch of a stack adds to nothing, and what it adds to all the others, where that was measured."""
    treatment, reference = whole.row.comparison.treatment, whole.row.comparison.reference
    known = _gains(whole, others)
    first, last = {}, {}
    for switch in _added(treatment, reference):
        alone = known.get((_with(reference, switch), reference))
        if alone is not None:
            first[str(switch)] = alone
        added = _last(switch, whole, known)
        if added is not None:
            last[str(switch)] = added
    return first, last


_Pairs = Mapping[tuple[Cell, Cell], Gain]  # treatment and reference


def _gains(like: Entry, entries: Iterable[Entry]) -> _Pairs:
    wanted = _conditions(like)
    return {
        (one.row.comparison.treatment, one.row.comparison.reference): gain(one.row.estimate)
        for one in entries
        if one.row.estimate is not None and _conditions(one) == wanted
    }


def data_of(entry: Entry) -> str:
    """What the real data of an entry's workload are, in words; empty for the suite's own."""
    return entry.kept.matrix.data.get(entry.row.comparison.treatment.workload, "")


def _conditions(entry: Entry) -> tuple[Environment, str, Timing]:
    return entry.kept.environment, data_of(entry), entry.row.comparison.timing


def _last(switch: Switch, whole: Entry, known: _Pairs) -> Gain | None:
    """What a switch adds to all others: measured so, the other way round, or both against the reference."""
    treatment, reference = whole.row.comparison.treatment, whole.row.comparison.reference
    rest = _without(treatment, switch, reference)
    if (treatment, rest) in known:
        return known[treatment, rest]
    if (rest, treatment) in known:
        return combined((-1.0, known[rest, treatment]))
    if (rest, reference) in known and (treatment, reference) in known:
        return combined((1.0, known[treatment, reference]), (-1.0, known[rest, reference]))
    return None


def _added(treatment: Cell, reference: Cell) -> tuple[Switch, ...]:
    return tuple(switch for switch in treatment.switches if switch not in reference.switches)


def _with(cell: Cell, switch: Switch) -> Cell:
    return _stacked(cell, (*(one for one in cell.switches if one.name != switch.name), switch))


def _without(cell: Cell, switch: Switch, reference: Cell) -> Cell:
    """The stack with a switch as the reference has it: off, or at the reference's level."""
    before = tuple(one for one in reference.switches if one.name == switch.name)
    return _stacked(cell, (*(one for one in cell.switches if one.name != switch.name), *before))


def _stacked(cell: Cell, switches: Iterable[Switch]) -> Cell:
    return Cell(workload=cell.workload, size=cell.size, batch=cell.batch, switches=tuple(sorted(switches)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Interaction:
    """Two switches together beyond the product of their ratios alone: above 1 they help each other."""

    first: str
    second: str
    gain: Gain


def interactions(entries: Iterable[Entry]) -> tuple[Interaction, ...]:
    """Every measured stack of two whose parts were measured alone against the same reference, in order of names."""
    entries, found = tuple(entries), []
    for entry in entries:
        added = _added(entry.row.comparison.treatment, entry.row.comparison.reference)
        beyond = beyond_product(entry, entries) if len(added) == 2 else None
        if beyond is not None:
            found.append(Interaction(first=str(added[0]), second=str(added[1]), gain=beyond))
    return tuple(sorted(found, key=lambda one: (one.first, one.second)))


def beyond_product(whole: Entry, others: Iterable[Entry]) -> Gain | None:
    """A stack over the product of its switches alone; None where it is no stack or lacks one of them."""
    treatment, reference = whole.row.comparison.treatment, whole.row.comparison.reference
    added = _added(treatment, reference)
    if whole.row.estimate is None or len(added) < 2:
        return None
    known = _gains(whole, others)
    alone = [known[pair] for switch in added if (pair := (_with(reference, switch), reference)) in known]
    if len(alone) < len(added):
        return None
    return combined((1.0, gain(whole.row.estimate)), *((-1.0, one) for one in alone))
