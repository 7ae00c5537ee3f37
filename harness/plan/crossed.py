"""Designs that cross switches: what each gives alone, what it gives last, pairs, all subsets, balanced stacks.

They are about the switches that `everything` stacks, or about those that were chosen by name.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations, product

import numpy as np

from harness.core.cell import Comparison, Switch
from harness.core.compose import Conflict
from harness.core.mistake import Mistake
from harness.core.optimization import Timing
from harness.core.plan import Hole
from harness.plan.balanced import Space, Stack, balanced
from harness.plan.entries import (
    Entry,
    Scope,
    based_on,
    compare,
    everything,
    hindrance,
    ordered,
    single,
    together,
    with_required,
)

MOST = 6  # switches of a factorial: 63 stacks beside the reference


def matrix(scope: Scope) -> Iterator[Entry]:
    """All together, each alone, each removed from all, and k/2 balanced stacks: enough to predict all others."""
    whole, *last = removed(scope)
    entries = [whole, *_singles(scope), *last]
    yield from entries
    timing = _timing_of_whole(scope)
    space = space_of(scope, (levels for levels in varied(scope) if scope.known[levels[0].name].timed_on is timing))
    measured = [scope.reference.switches, *(one.treatment.switches for one in entries if isinstance(one, Comparison))]
    count = -(-sum(map(len, space.levels)) // 2)
    for stack in balanced(space, measured, count, np.random.default_rng(0)):
        subject = "+".join(str(one) for one in stack if one not in scope.reference.switches)
        yield compare(scope, subject, stack, timing)


def removed(scope: Scope) -> Iterator[Entry]:
    """All together, and each switched off again: what it still gives when all others are on."""
    _check_requirements(scope)
    whole = full_stack(scope)
    yield compare(scope, "everything", whole, _timing_of_whole(scope))
    for levels in varied(scope):
        switch = next((one for one in levels if one in whole), None)
        if switch:
            yield _without(scope, whole, switch)
        elif not _absent(scope, levels[0]):
            reason = "is no part of it, since it conflicts with what was named before"
            yield Hole(workload=scope.workload.name, subject=f"everything without {levels[0]}", reason=reason)


def pairs(scope: Scope) -> Iterator[Entry]:
    """Each alone and every two together: which of them help or hinder each other."""
    yield from _singles(scope)
    for one, other in combinations(varied(scope), 2):
        yield from (_two(scope, pair) for pair in product(one, other))


def factorial(scope: Scope) -> Iterator[Entry]:
    """Every subset of a few switches, six at most, against the reference."""
    _check_requirements(scope)
    switches = varied(scope)
    if len(switches) > MOST:
        count = len(switches)
        raise Mistake(f"All subsets of {count} switches are too many; name {MOST} at most, each with --only NAME.")
    for picked in product(*((None, *levels) for levels in switches)):
        added = tuple(switch for switch in picked if switch)
        if added:
            yield _subset(scope, added)


def full_stack(scope: Scope) -> Stack:
    """All that is switched on together: `everything`, or what was chosen, as far as it goes together."""
    if not scope.chosen:
        return everything(scope)
    first = {switch.name: switch for switch in reversed(scope.chosen)}  # of several levels the one that is named first
    tried = (one for one in scope.chosen if first[one.name] == one and not _absent(scope, one))
    return together(scope, sorted(tried, key=lambda one: bool(scope.known[one.name].requires)))


def varied(scope: Scope) -> list[tuple[Switch, ...]]:
    """The levels of each optimization that a crossed design switches, in the order in which they are tried."""
    whole = scope.chosen or everything(scope)
    names = dict.fromkeys(one.name for one in whole) if scope.chosen else {one.name: None for one in ordered(scope)}
    levels = (tuple(one for one in whole if one.name == name and one not in scope.reference.switches) for name in names)
    return [one for one in levels if one]


def space_of(scope: Scope, levels: Iterable[tuple[Switch, ...]]) -> Space:
    """The stacks of some optimizations that can be run against the scope's reference."""
    able = (tuple(one for one in alike if not _absent(scope, one)) for alike in levels)
    known: dict[Stack, bool] = {}

    def possible(stack: Stack) -> bool:
        if stack not in known:
            known[stack] = isinstance(compare(scope, "", stack), Comparison)
        return known[stack]

    return Space(
        below=scope.reference.switches,
        levels=tuple(alike for alike in able if alike),
        needs={name: one.requires for name, one in scope.known.items() if one.requires},
        possible=possible,
    )


def _singles(scope: Scope) -> Iterator[Entry]:
    for levels in varied(scope):
        yield from (single(scope, scope.known[one.name], one.level) for one in levels)


def _check_requirements(scope: Scope) -> None:
    present = {one.name for one in (*scope.chosen, *scope.reference.switches)}
    for switch in scope.chosen:
        for name in scope.known[switch.name].requires:
            if name not in present:
                raise Mistake(f"{switch} needs {name}: name it too, with --only {name}, or put it into --reference.")


def _without(scope: Scope, whole: Stack, switch: Switch) -> Entry:
    """The whole without one switch and what needs it, against the whole."""
    rest = tuple(one for one in whole if one != switch)
    orphans = [one for one in rest if switch.name in scope.known[one.name].requires]
    nor = f" (nor {', '.join(map(str, orphans))}, which cannot be without)" if orphans else ""
    left = tuple(one for one in rest if one not in orphans)
    before = tuple(one for one in scope.reference.switches if one.name == switch.name)  # another level of it
    subject = f"everything without {switch}{nor}"
    return compare(based_on(scope, whole), subject, tuple(sorted((*left, *before))), _timing(scope, (switch,)))


def _two(scope: Scope, pair: tuple[Switch, Switch]) -> Entry:
    """Two switches on top of the reference and of what they require."""
    below = scope
    for switch in pair:
        below = based_on(below, with_required(below, scope.known[switch.name]))
    names = {switch.name for switch in pair}
    common = tuple(one for one in below.reference.switches if one.name not in names or one in scope.reference.switches)
    return _subset(based_on(scope, common), pair)


def _subset(scope: Scope, added: tuple[Switch, ...]) -> Entry:
    """Some switches on top of the reference, or the words for why they cannot be."""
    names = {switch.name for switch in added}
    stack = tuple(sorted((*(one for one in scope.reference.switches if one.name not in names), *added)))
    subject, present = "+".join(map(str, added)), {one.name for one in stack}
    for switch in added:
        lacking = sorted(set(scope.known[switch.name].requires) - present)
        reason = _absent(scope, switch) or (
            f"{switch} needs {', '.join(lacking)}, which is off here" if lacking else ""
        )
        if reason:
            return Hole(workload=scope.workload.name, subject=subject, reason=reason)
    try:
        return compare(scope, subject, stack, _timing(scope, added))
    except Conflict as conflict:
        return Hole(workload=scope.workload.name, subject=subject, reason=str(conflict))


def _timing(scope: Scope, switches: Iterable[Switch]) -> Timing:
    """What several switches are timed on together: whole epochs hold steps, an evaluation holds neither."""
    asked: Mapping[Timing, Switch] = {scope.known[one.name].timed_on: one for one in switches}
    if Timing.EVALUATION in asked and len(asked) > 1 and not scope.probe:
        other = next(switch for timing, switch in asked.items() if timing is not Timing.EVALUATION)
        raise Conflict(f"{asked[Timing.EVALUATION]} acts on evaluations, {other} does not")
    return max(asked, key=[Timing.STEP, Timing.EPOCH, Timing.EVALUATION].index)


def _timing_of_whole(scope: Scope) -> Timing:
    """What the whole stack is timed on: training steps, unless all of it acts on evaluations."""
    asked = {scope.known[levels[0].name].timed_on for levels in varied(scope)}
    return Timing.EVALUATION if asked == {Timing.EVALUATION} else Timing.STEP


def _absent(scope: Scope, switch: Switch) -> str | None:
    return hindrance(scope, scope.known[switch.name], switch.level)
