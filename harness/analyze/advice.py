"""Advice: what the matrix of a run says to switch on, to leave, to measure further, and to stack."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from harness.analyze.attribution import Gain, first_and_last
from harness.analyze.collection import TOO_SMALL, Entry, Kept
from harness.analyze.deciding import restarts_to_decide
from harness.analyze.effect import WHOLE, Effect, effects
from harness.analyze.evidence import Evidence
from harness.analyze.interplay import Interplay, interplays, largest
from harness.analyze.matrix import Row, Table
from harness.analyze.ready_made import Candidate, Kit, ReadyMade, candidates, ready_made
from harness.analyze.remedy import is_own_code
from harness.analyze.start_up import BreakEven, break_even
from harness.analyze.throughput import TRAINS
from harness.analyze.verdict import Verdict, verdict
from harness.core.cell import Cell, Comparison, Switch
from harness.core.optimization import Numerics, Optimization, Timing
from harness.core.workload import Workload


class Call(StrEnum):
    """What to do with a switch."""

    SWITCH_ON = "switch on"
    WITH_WARNING = "faster, with a warning"  # its quality differs, was not shown, or is meant to change
    LEAVE_OFF = "leave off"
    NO_EFFECT = "makes no difference"
    UNDECIDED = "undecided"
    NO_ADVICE = "no advice"  # the machine was too disturbed, or is known to miss effects of this size


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One switch with all that speaks for it and against it."""

    effect: Effect  # on the smallest stack that it was measured on
    call: Call
    elsewhere: tuple[Effect, ...]  # on larger stacks
    last: Gain | None  # beside all others of the largest measured stack
    last_verdict: Verdict | None  # of that gain
    optimization: Optimization | None  # None where this version does not know it
    is_own_code: bool
    break_even: BreakEven | None
    restarts: int | None  # that would decide about an undecided one

    @property
    def switch(self) -> Switch:
        """The switch."""
        return self.effect.switch

    @property
    def worth(self) -> float:
        """The log gain to order by: alone, or the mean of alone and last where both are known, its share of a stack."""
        alone = self.effect.gain.log
        return alone if self.last is None else (alone + self.last.log) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Counsel:
    """The advice about one workload."""

    workload: str
    base: Table | None  # rows against the reference with the fewest switches; None where nothing has a ratio
    items: tuple[Item, ...]  # training before evaluation, the largest gain first
    whole: Row | None  # the largest measured stack
    device: str  # where it was measured: cpu or cuda
    interplays: tuple[Interplay, ...]
    ready_made: tuple[ReadyMade, ...]  # empty where no training was timed
    looked_at: int  # measured stacks of training against the base, one switch or more
    parts: tuple[Row, ...]  # rows that time the loader or the step alone

    @property
    def is_small(self) -> bool:
        """Whether it was measured at a size that shows that things run, and no more."""
        return self.base is not None and self.base.cell.size == TOO_SMALL

    def called(self, *calls: Call) -> tuple[Item, ...]:
        """The items with one of these calls, in order."""
        return tuple(one for one in self.items if one.call in calls)


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What a run says to do."""

    kept: Kept
    counsels: tuple[Counsel, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """What this version knows, beside what the run itself says."""

    known: Mapping[str, Optimization]
    workloads: Mapping[str, Workload]


def advise(kept: Kept, evidence: Iterable[Evidence], shelf: Shelf) -> Advice:
    """The advice of one run, finished or not, workload by workload."""
    matrix = kept.matrix
    found = {one.comparison: one for one in reversed(tuple(evidence))}
    named = (*(table.cell.workload for table in matrix.tables), *(hole.workload for hole in matrix.holes))
    counsels = (_counsel(name, kept, found, shelf) for name in dict.fromkeys(named))
    return Advice(kept=kept, counsels=tuple(counsels))


_Found = Mapping[Comparison, Evidence]


def _counsel(workload: str, kept: Kept, found: _Found, shelf: Shelf) -> Counsel:
    tables = [table for table in kept.matrix.tables if table.cell.workload == workload]
    entries = [
        Entry(kept=kept, table=table, row=row)
        for table in tables
        for row in table.rows
        if row.estimate is not None and table.timing in WHOLE
    ]
    base = _base(tables)
    whole = largest(entries)
    last = first_and_last(whole, entries)[1] if whole is not None else {}
    items = _items([entry.row for entry in entries], last, found, shelf)
    kit = _kit(base, workload, shelf)
    measured = [] if kit is None else _timed(candidates([entry.row for entry in entries], kit), found, kit)
    return Counsel(
        workload=workload,
        base=base,
        items=items,
        whole=whole.row if whole is not None else None,
        device=kept.environment.device,
        interplays=interplays(entries, shelf.known),
        ready_made=() if kit is None else ready_made(measured, _singles(items), kit),
        looked_at=len(measured),
        parts=tuple(row for table in tables if table.timing not in WHOLE for row in table.rows if row.estimate),
    )


def _base(tables: Sequence[Table]) -> Table | None:
    """The table to start from: of training where any was timed, on the smallest stack, with the most ratios."""
    counts = [(table, sum(row.estimate is not None for row in table.rows)) for table in tables]
    order = [Timing.STEP, Timing.EPOCH, Timing.EVALUATION, Timing.COMPUTE, Timing.LOADER]
    filled = [(order.index(one.timing), len(one.cell.switches), -count, one) for one, count in counts if count]
    return min(filled, key=lambda one: one[:3])[-1] if filled else None


def _kit(base: Table | None, workload: str, shelf: Shelf) -> Kit | None:
    if base is None or base.timing not in TRAINS:
        return None
    return Kit(base=base.cell, timing=base.timing, workload=shelf.workloads.get(workload), known=shelf.known)


def _items(rows: Sequence[Row], last: Mapping[str, Gain], found: _Found, shelf: Shelf) -> tuple[Item, ...]:
    by_switch: dict[tuple[Switch, bool], list[Effect]] = {}
    for one in effects(rows):
        by_switch.setdefault((one.switch, one.timing in TRAINS), []).append(one)
    items = [
        _item(seen, last.get(str(switch)) if trains else None, found, shelf)
        for (switch, trains), seen in by_switch.items()
    ]
    return tuple(sorted(items, key=lambda one: (one.effect.timing not in TRAINS, -one.worth, str(one.switch))))


def _item(seen: Sequence[Effect], last: Gain | None, found: _Found, shelf: Shelf) -> Item:
    first, *others = sorted(seen, key=lambda one: len(one.below.switches))
    optimization = shelf.known.get(first.switch.name)
    estimate = first.estimate
    beside = verdict(last.low, last.high, estimate.terms.margin) if last else None
    call = _call(first, beside, optimization)
    undecided = call is Call.UNDECIDED
    return Item(
        effect=first,
        call=call,
        elsewhere=tuple(others),
        last=last,
        last_verdict=beside,
        optimization=optimization,
        is_own_code=optimization is not None and is_own_code(optimization),
        break_even=_break_even(first, found),
        restarts=restarts_to_decide(estimate) if undecided else None,
    )


def _call(effect: Effect, last: Verdict | None, optimization: Optimization | None) -> Call:
    if effect.estimate.disturbed or effect.estimate.withheld:
        return Call.NO_ADVICE
    hidden = last is Verdict.FASTER and effect.verdict is not Verdict.SLOWER
    if effect.verdict is Verdict.FASTER or hidden:
        changes = optimization is not None and optimization.numerics is Numerics.DIFFERENT
        return Call.SWITCH_ON if effect.learns_alike and not changes else Call.WITH_WARNING
    words = {Verdict.SLOWER: Call.LEAVE_OFF, Verdict.NO_EFFECT: Call.NO_EFFECT}
    return words.get(effect.verdict, Call.UNDECIDED)


def _break_even(effect: Effect, found: _Found) -> BreakEven | None:
    """Of training alone: nobody counts the passes over an evaluation set."""
    evidence, without = found.get(effect.row.comparison), effect.without_it
    if evidence is None or without is None or effect.timing not in TRAINS:
        return None
    arms = evidence.treatment, evidence.reference
    ours, theirs = reversed(arms) if effect.turned else arms
    return break_even(ours, theirs, effect.gain, effect.below.batch / without.rate)


def _timed(measured: Sequence[Candidate], found: _Found, kit: Kit) -> list[Candidate]:
    """The same with what their starts cost."""
    return [_with_break_even(one, found, kit.base) for one in measured]


def _with_break_even(one: Candidate, found: _Found, base: Cell) -> Candidate:
    first, final = (found.get(row.comparison) for row in (one.rows[0], one.rows[-1]))
    if first is None or final is None or one.base_profile is None:
        return one
    paid = break_even(final.treatment, first.reference, one.gain, base.batch / one.base_profile.rate)
    return Candidate(cell=one.cell, gain=one.gain, rows=one.rows, break_even=paid)


def _singles(items: Iterable[Item]) -> dict[Switch, Candidate]:
    """The switches that pay one by one; one that is a loss beside the others is none of them."""
    paying = (
        one for one in items if one.call is Call.SWITCH_ON and one.effect.timing in TRAINS and not one.effect.turned
    )
    return {
        one.switch: Candidate(
            cell=one.effect.above, gain=one.effect.gain, rows=(one.effect.row,), break_even=one.break_even
        )
        for one in paying
        if one.last_verdict is not Verdict.SLOWER
    }
