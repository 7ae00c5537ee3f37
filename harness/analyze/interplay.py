"""Interplay: switches that do not simply multiply, each with a name for how they meet.

A switch is compared with itself: what it gives alone, and what it gives last, when the whole stack is on but for it.
Where only pairs interact, the gap between the two logs is the sum of its interactions with all others. A gap is named
only if it is wider than its interval, and than 3 %.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from harness.analyze.attribution import Gain, beyond_product, combined, first_and_last, gain
from harness.analyze.bottleneck import Bottleneck
from harness.analyze.collection import Entry
from harness.analyze.profile import Profile
from harness.analyze.verdict import MARGIN, Verdict, verdict
from harness.core.cell import Switch, parse_switch
from harness.core.optimization import Optimization, Stage

LEAST_GAP = math.log(1.03)


class Kind(StrEnum):
    """How switches meet."""

    MASKED = "masked"  # by another stage, which holds the stack back with or without it
    REDUNDANT = "redundant"  # with others of its stage, which do the same work
    SYNERGY = "synergy"  # with others of its stage: together more than the product
    CONFLICT = "conflict"  # slower together than without one of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Interplay:
    """One switch among others, or two by themselves."""

    subject: str
    among: str  # the other switch, or the name of the stack
    alone: Gain
    beside: Gain  # what it gives when the others are on
    gap: Gain  # beside over alone
    kind: Kind
    held_by: str | None  # the ceiling that masks it: input or compute; of a pair the stage of the other


def is_clear(gap: Gain) -> bool:
    """Whether a gap is worth a name: beyond its interval, and beyond 3 %."""
    return abs(gap.log) > max(gap.half_width, LEAST_GAP)


def of_stack(whole: Entry, others: Iterable[Entry], known: Mapping[str, Optimization]) -> Iterator[Interplay]:
    """Every switch of a measured stack whose gap is clear, among those measured both alone and last."""
    others = tuple(others)
    first, last = first_and_last(whole, others)
    before, after = (_bottleneck(arm) for arm in (whole.row.reference, whole.row.treatment))
    for subject in first.keys() & last.keys() if len(_beyond_reference(whole)) > 2 else ():  # two are a pair
        alone, beside = first[subject], last[subject]
        gap, name = combined((1.0, beside), (-1.0, alone)), parse_switch(subject).name
        if is_clear(gap) and name in known:
            held_by = _other_stage(known[name].stage, before if gap.log > 0 else after)
            kind = _kind(alone, beside, _margin(whole), masked=held_by is not None)
            yield Interplay(
                subject=subject,
                among=whole.row.subject,
                alone=alone,
                beside=beside,
                gap=gap,
                kind=kind,
                held_by=held_by if kind is Kind.MASKED else None,
            )


def of_pairs(entries: Sequence[Entry], known: Mapping[str, Optimization]) -> Iterator[Interplay]:
    """Every measured stack of two whose parts were measured alone against the same reference, if the gap is clear."""
    for entry in entries:
        comparison = entry.row.comparison
        added = [one for one in comparison.treatment.switches if one not in comparison.reference.switches]
        gap = beyond_product(entry, entries) if len(added) == 2 else None
        if gap is None or not is_clear(gap) or entry.row.estimate is None:
            continue
        alone = first_and_last(entry, entries)[0]
        weaker, stronger = sorted(added, key=lambda one: alone[str(one)].log)
        beside = combined((1.0, gain(entry.row.estimate)), (-1.0, alone[str(stronger)]))
        stages = [known[one.name].stage for one in (weaker, stronger) if one.name in known]
        masked = len({*stages}) > 1
        kind = _kind(alone[str(weaker)], beside, _margin(entry), masked=masked)
        yield Interplay(
            subject=str(weaker),
            among=str(stronger),
            alone=alone[str(weaker)],
            beside=beside,
            gap=gap,
            kind=kind,
            held_by=str(stages[1]) if kind is Kind.MASKED else None,
        )


def interplays(entries: Iterable[Entry], known: Mapping[str, Optimization]) -> tuple[Interplay, ...]:
    """All of one workload, those of the widest gap first; of stacks the largest that was measured is taken apart."""
    measured = tuple(one for one in entries if one.row.estimate is not None)
    found = list(of_pairs(measured, known))
    whole = largest(measured)
    if whole is not None:
        found += of_stack(whole, measured, known)
    return tuple(sorted(found, key=lambda one: (-abs(one.gap.log), one.subject, one.among)))


def largest(entries: Iterable[Entry]) -> Entry | None:
    """The stack with most switches beyond its reference, of two at least; None where all are single switches."""
    stacks = (one for one in entries if len(_beyond_reference(one)) > 1)
    return max(stacks, key=lambda one: len(_beyond_reference(one)), default=None)


def _beyond_reference(entry: Entry) -> set[Switch]:
    return {*entry.row.comparison.treatment.switches} - {*entry.row.comparison.reference.switches}


def _margin(entry: Entry) -> float:
    """That of its machine."""
    return entry.row.estimate.terms.margin if entry.row.estimate else MARGIN


def _kind(alone: Gain, beside: Gain, margin: float, *, masked: bool) -> Kind:
    if verdict(beside.low, beside.high, margin) is Verdict.SLOWER and alone.log > beside.log:
        return Kind.CONFLICT
    if masked:
        return Kind.MASKED
    return Kind.SYNERGY if beside.log > alone.log else Kind.REDUNDANT


def _bottleneck(arm: Profile | None) -> Bottleneck | None:
    return arm.bottleneck if arm else None


def _other_stage(stage: Stage, held: Bottleneck | None) -> str | None:
    """The ceiling that holds a stack back, where it is not the one that a switch of this stage lifts."""
    own = "input" if stage is Stage.INPUT else "compute"
    return held.stage if held is not None and held.stage != own else None
