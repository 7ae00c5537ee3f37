"""Evidence: the records of one comparison, picked from a run and set beside what its switches promise."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from harness.analyze.quality import Quality, judge_losses, judge_score, worst
from harness.core.cell import Cell, Comparison, Switch
from harness.core.mistake import Mistake
from harness.core.optimization import Numerics, Promise, Timing
from harness.core.plan import Plan
from harness.core.recipe import Value
from harness.core.records import Burst, Lost, Ready, Record

# What the switches in which two cells differ promise together.


def numerics(comparison: Comparison, known: Mapping[str, Promise]) -> Numerics:
    """The loosest promise among the switches in which the two cells differ; raises Mistake for an unknown one."""
    differing = set(comparison.treatment.switches) ^ set(comparison.reference.switches)
    order = list(Numerics)
    found = (_promise(switch, known).numerics for switch in differing)
    return max(found, key=order.index, default=Numerics.EXACT)


def proved(cell: Cell, known: Mapping[str, Promise]) -> frozenset[str]:
    """The effective settings that a cell's switches promise; raises Mistake for an unknown switch."""
    return frozenset(name for switch in cell.switches for name in _promise(switch, known).proof)


def pointless(cell: Cell, known: Mapping[str, Promise], effective: Mapping[str, Value]) -> Iterator[str]:
    """Why a switch of a cell can gain nothing where such settings were seen: `layout contiguous: has no chunks`."""
    seen = {f"{name} {value}" for name, value in effective.items()}
    for switch in cell.switches:
        for setting, reason in _promise(switch, known).pointless_where.items():
            if setting in seen:
                yield f"{switch.name} has nothing to act on: {setting}, {reason}"


def _promise(switch: Switch, known: Mapping[str, Promise]) -> Promise:
    if switch.name not in known:
        raise Mistake(f"The plan switches on '{switch.name}' without saying what it promises; restore run.json.")
    return known[switch.name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """All records of one cell in a comparison, over every restart and life."""

    cell: Cell
    proved: frozenset[str]  # the effective settings that its switches promise
    pointless: tuple[str, ...]  # why a switch of it has nothing to act on
    bursts: tuple[Burst, ...]
    readies: tuple[Ready, ...]  # by restart and life
    lost: tuple[Lost, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A comparison's two sides."""

    comparison: Comparison
    position: int  # of the treatment in its block
    numerics: Numerics
    treatment: Side
    reference: Side

    @property
    def bursts(self) -> tuple[Burst, ...]:
        """The bursts of both sides."""
        return self.reference.bursts + self.treatment.bursts

    @property
    def quality(self) -> Quality | None:
        """The worst judgement over all lives in which both arms started; None before there is one."""
        references = {(ready.arm.restart, ready.arm.life): ready for ready in self.reference.readies}
        found = []
        for ours in self.treatment.readies:
            theirs = references.get((ours.arm.restart, ours.arm.life))
            if theirs is not None:
                found.append(judge_losses(ours, theirs, self.numerics))
            if theirs is not None and self.comparison.timing is Timing.EVALUATION:
                found.append(judge_score(ours, theirs, self.numerics))
        return worst(found)


def gather(plan: Plan, records: Iterable[Record]) -> Iterator[Evidence]:
    """The evidence of every comparison, in the plan's order; empty sides where nothing was measured yet."""
    by_block: Mapping[str, list[Record]] = defaultdict(list)
    for record in records:
        by_block[record.arm.block].append(record)
    for block in plan.blocks:
        records_here = by_block[block.identity]
        reference = _side(block.reference, 0, records_here, block.timing, plan)
        for position, comparison in enumerate(block.comparisons, 1):
            yield Evidence(
                comparison=comparison,
                position=position,
                numerics=numerics(comparison, plan.promises),
                treatment=_side(comparison.treatment, position, records_here, block.timing, plan),
                reference=reference,
            )


def merged(sides: Iterable[Side]) -> Side:
    """One cell's sides as one; comparisons of a block share their reference's side, which counts once."""
    sides = tuple({id(side): side for side in sides}.values())  # records hold mappings, so sides have no hash
    return Side(
        cell=sides[0].cell,
        proved=sides[0].proved,
        pointless=sides[0].pointless,
        bursts=tuple(burst for side in sides for burst in side.bursts),
        readies=tuple(ready for side in sides for ready in side.readies),
        lost=tuple(lost for side in sides for lost in side.lost),
    )


def _side(cell: Cell, position: int, records: Iterable[Record], timing: Timing, plan: Plan) -> Side:
    own = [record for record in records if record.arm.position == position]
    readies = [one for one in own if isinstance(one, Ready)]
    seen = {name: value for ready in readies for name, value in ready.effective.items()}
    return Side(
        cell=cell,
        proved=proved(cell, plan.promises),
        pointless=tuple(pointless(cell, plan.promises, seen)),
        bursts=tuple(one for one in own if isinstance(one, Burst) and one.timing is timing),
        readies=tuple(sorted(readies, key=lambda ready: (ready.arm.restart, ready.arm.life))),
        lost=tuple(one for one in own if isinstance(one, Lost)),
    )
