"""Designs: which comparisons answer a question; pure functions from a scope to comparisons and missing results."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from harness.core.claims import ANY, Claim, Metric, Resolution, Tried, Untried, options
from harness.core.configuration import (
    CONTROLS,
    SHARES,
    Comparison,
    Conflict,
    Option,
    batch_of,
    batch_scale,
    compose,
    unmet,
)
from harness.core.environment import Environment
from harness.core.mistake import Mistake
from harness.core.optimization import SEVERAL_ITEMS, Optimization, Stage, Timing
from harness.core.plan import Block, NoResult
from harness.core.recipe import in_turns
from harness.core.workload import Workload
from harness.plan.feasibility import (
    Entry,
    Scope,
    all_options,
    based_on,
    compare,
    hindrance,
    ordered,
    single,
    together,
    with_batch,
    with_required,
)

# The design `calibration`: the reference against itself, and against itself with delays of known length.

COPIES = 20  # of references in all: fewer could not tell a sound machine from one that is not


def calibration(scope: Scope) -> Iterator[Entry]:
    """The reference beside delays of 3 and 10 % and against copies of itself, twenty over all workloads.

    The delays come first: where time runs out, what they say cannot be had from anything else.
    """
    controlled = replace(scope, known={**scope.known, **CONTROLS})
    for share in SHARES:
        yield from (single(controlled, control, share) for control in CONTROLS.values())
    yield from _copies(scope, copies(scope))


def copies(scope: Scope) -> int:
    """One workload's share of all copies, and at least as many as a block has places."""
    return max(-(-COPIES // scope.workloads), scope.protocol.treatments)


# Balanced stacks: the few further stacks that tell most about every option, beside those that are measured anyway.
#
# Coordinate exchange (R. K. Meyer and C. J. Nachtsheim 1995) towards a D-optimal design: one option of one stack is
# changed at a time, and the change is kept if the determinant of the information about all single effects grows. Stacks
# that cannot be are never visited, and what needs another is switched off with it.

Stack = tuple[Option, ...]  # sorted
Array = NDArray[np.float64]
PASSES = 20  # over all options of all stacks at most; most often five find no more
DRAWS = 20  # for each stack that is wanted, before there are thought to be no others
RIDGE = 1e-3  # of an effect that no stack shows yet, so that the determinant is never 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """The stacks that there are: at most one level of each optimization, on top of what is always on."""

    below: Stack
    levels: tuple[tuple[Option, ...], ...]  # of each optimization that varies
    needs: Mapping[str, tuple[str, ...]]  # optimization -> others that it makes no sense without
    possible: Callable[[Stack], bool]

    def with_level(self, stack: Stack, levels: Sequence[Option], level: Option | None) -> Stack:
        """The stack with this level, or what is always on, in place of others; what then lacks something is off."""
        name = levels[0].name
        kept = [one for one in stack if one.name != name]
        return self.sound([*kept, level] if level else [*kept, *(one for one in self.below if one.name == name)])

    def sound(self, options: Iterable[Option]) -> Stack:
        """These options in order, without those that need what is not among them."""
        found = tuple(options)
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
    """A stack with each option changed where that tells more, given all other stacks."""
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


# Designs that cross options: what each gives alone, what it gives last, pairs, all subsets, balanced stacks.
#
# They are about the options that `all` stacks, or about those that were chosen by name.

MOST = 6  # options of a factorial: 63 stacks beside the reference


def matrix(scope: Scope) -> Iterator[Entry]:
    """All together, each alone, each removed from all, and k/2 balanced stacks: enough to predict all others."""
    whole, *last = removed(scope)
    entries = [whole, *_singles(scope), *last]
    yield from entries
    timing = _timing_of_whole(scope)
    space = space_of(scope, (levels for levels in varied(scope) if scope.known[levels[0].name].timed_on is timing))
    measured = [scope.reference.options, *(one.treatment.options for one in entries if isinstance(one, Comparison))]
    count = -(-sum(map(len, space.levels)) // 2)
    for stack in balanced(space, measured, count, np.random.default_rng(0)):
        label = "+".join(str(one) for one in stack if one not in scope.reference.options)
        yield compare(scope, label, stack, timing)


def removed(scope: Scope) -> Iterator[Entry]:
    """All together, and each switched off again: what it still gives when all others are on."""
    _check_requirements(scope)
    whole = full_stack(scope)
    yield compare(scope, "all", whole, _timing_of_whole(scope))
    for levels in varied(scope):
        option = next((one for one in levels if one in whole), None)
        if option:
            yield _without(scope, whole, option)
        elif not _absent(scope, levels[0]):
            reason = "is no part of it, since it conflicts with what was named before"
            yield NoResult(workload=scope.workload.name, label=f"all without {levels[0]}", reason=reason)


def pairs(scope: Scope) -> Iterator[Entry]:
    """Each alone and every two together: which of them help or hinder each other."""
    yield from _singles(scope)
    for one, other in combinations(varied(scope), 2):
        yield from (_two(scope, pair) for pair in product(one, other))


def factorial(scope: Scope) -> Iterator[Entry]:
    """Every subset of a few options, six at most, against the reference."""
    _check_requirements(scope)
    options = varied(scope)
    if len(options) > MOST:
        count = len(options)
        raise Mistake(f"All subsets of {count} options are too many; name {MOST} at most, each with --only NAME.")
    for picked in product(*((None, *levels) for levels in options)):
        added = tuple(option for option in picked if option)
        if added:
            yield _subset(scope, added)


def full_stack(scope: Scope) -> Stack:
    """All that is switched on together: `all`, or what was chosen, as far as it goes together."""
    if not scope.chosen:
        return all_options(scope)
    first = {option.name: option for option in reversed(scope.chosen)}  # of several levels the one that is named first
    tried = (one for one in scope.chosen if first[one.name] == one and not _absent(scope, one))
    return together(scope, sorted(tried, key=lambda one: bool(scope.known[one.name].requires)))


def varied(scope: Scope) -> list[tuple[Option, ...]]:
    """The levels of each optimization that a crossed design options, in the order in which they are tried."""
    whole = scope.chosen or all_options(scope)
    names = dict.fromkeys(one.name for one in whole) if scope.chosen else {one.name: None for one in ordered(scope)}
    levels = (tuple(one for one in whole if one.name == name and one not in scope.reference.options) for name in names)
    return [one for one in levels if one]


def space_of(scope: Scope, levels: Iterable[tuple[Option, ...]]) -> Space:
    """The stacks of some optimizations that can be run against the scope's reference."""
    able = (tuple(one for one in alike if not _absent(scope, one)) for alike in levels)
    known: dict[Stack, bool] = {}

    def possible(stack: Stack) -> bool:
        if stack not in known:
            known[stack] = isinstance(compare(scope, "", stack), Comparison)
        return known[stack]

    return Space(
        below=scope.reference.options,
        levels=tuple(alike for alike in able if alike),
        needs={name: one.requires for name, one in scope.known.items() if one.requires},
        possible=possible,
    )


def _singles(scope: Scope) -> Iterator[Entry]:
    for levels in varied(scope):
        yield from (single(scope, scope.known[one.name], one.level) for one in levels)


def _check_requirements(scope: Scope) -> None:
    present = {one.name for one in (*scope.chosen, *scope.reference.options)}
    for option in scope.chosen:
        for name in scope.known[option.name].requires:
            if name not in present:
                raise Mistake(f"{option} needs {name}: name it too, with --only {name}, or put it into --reference.")


def _without(scope: Scope, whole: Stack, option: Option) -> Entry:
    """The whole without one option and what needs it, against the whole."""
    rest = tuple(one for one in whole if one != option)
    orphans = [one for one in rest if option.name in scope.known[one.name].requires]
    nor = f" (nor {', '.join(map(str, orphans))}, which cannot be without)" if orphans else ""
    left = tuple(one for one in rest if one not in orphans)
    before = tuple(one for one in scope.reference.options if one.name == option.name)  # another level of it
    label = f"all without {option}{nor}"
    return compare(based_on(scope, whole), label, tuple(sorted((*left, *before))), _timing(scope, (option,)))


def _two(scope: Scope, pair: tuple[Option, Option]) -> Entry:
    """Two switches on top of the reference and of what they require."""
    below = scope
    for option in pair:
        below = based_on(below, with_required(below, scope.known[option.name]))
    names = {option.name for option in pair}
    common = tuple(one for one in below.reference.options if one.name not in names or one in scope.reference.options)
    return _subset(based_on(scope, common), pair)


def _subset(scope: Scope, added: tuple[Option, ...]) -> Entry:
    """Some switches on top of the reference, or the words for why they cannot be."""
    names = {option.name for option in added}
    stack = tuple(sorted((*(one for one in scope.reference.options if one.name not in names), *added)))
    label, present = "+".join(map(str, added)), {one.name for one in stack}
    for option in added:
        lacking = sorted(set(scope.known[option.name].requires) - present)
        reason = _absent(scope, option) or (
            f"{option} needs {', '.join(lacking)}, which is off here" if lacking else ""
        )
        if reason:
            return NoResult(workload=scope.workload.name, label=label, reason=reason)
    try:
        return compare(scope, label, stack, _timing(scope, added))
    except Conflict as conflict:
        return NoResult(workload=scope.workload.name, label=label, reason=str(conflict))


def _timing(scope: Scope, options: Iterable[Option]) -> Timing:
    """What several options are timed on together: whole epochs hold steps, an evaluation holds neither."""
    asked: Mapping[Timing, Option] = {scope.known[one.name].timed_on: one for one in options}
    if Timing.EVALUATION in asked and len(asked) > 1 and not scope.probe:
        other = next(option for timing, option in asked.items() if timing is not Timing.EVALUATION)
        raise Conflict(f"{asked[Timing.EVALUATION]} acts on evaluations, {other} does not")
    return max(asked, key=[Timing.STEP, Timing.EPOCH, Timing.EVALUATION].index)


def _timing_of_whole(scope: Scope) -> Timing:
    """What the whole stack is timed on: training steps, unless all of it acts on evaluations."""
    asked = {scope.known[levels[0].name].timed_on for levels in varied(scope)}
    return Timing.EVALUATION if asked == {Timing.EVALUATION} else Timing.STEP


def _absent(scope: Scope, option: Option) -> str | None:
    return hindrance(scope, scope.known[option.name], option.level)


# The design `claims`: what the ledger's claims come to on this machine, and the comparisons that test them.

NO_DEVICE_TIMES = "the device's own time is seen on CUDA devices only"
NO_DEVICE_MEMORY = "a device's memory is seen on CUDA devices only"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimContext:
    """One workload on one machine: what claims are resolved on."""

    workload: Workload
    environment: Environment
    known: Mapping[str, Optimization]


def resolve(claim: Claim, context: ClaimContext) -> Resolution:
    """The pair of stacks that tests a claim here, with words for what had to be left out; or why nothing can.

    Options that this machine cannot run are left out if something remains of what the treatment adds, and none of
    them is essential; else the claim's stand-in is tried in the treatment's place.
    """
    if hindrance := _hindrance(claim, context):
        return Untried(reason=hindrance)
    found = _tried(claim, context)
    if isinstance(found, Tried) or not claim.stand_in:
        return found
    reference = claim.stand_in_reference or claim.reference
    other = _tried(replace(claim, treatment=claim.stand_in, reference=reference, essential=()), context)
    if isinstance(other, Untried):
        return found
    over = f" over {reference}" if claim.stand_in_reference else ""
    words = f"tested with {claim.stand_in}{over} in place of {claim.treatment}: {found.reason}"
    return replace(other, shortfalls=(words, *other.shortfalls))


def concerns(claim: Claim, workload: Workload) -> bool:
    """Whether a claim is tested on a workload."""
    return claim.workload in {ANY, workload.name}


Question = tuple[tuple[Option, ...], tuple[Option, ...], Timing]  # treatment, reference, and what they are timed on


def questions(claims: Iterable[Claim], context: ClaimContext) -> frozenset[Question]:
    """The comparisons that test a claim here."""
    resolved = (resolve(claim, context) for claim in claims if concerns(claim, context.workload))
    return frozenset((one.treatment, one.reference, one.timing) for one in resolved if isinstance(one, Tried))


def marked(block: Block, asked: Collection[Question]) -> Block:
    """The block with the positions of what was asked."""
    found = ((one.treatment.options, one.reference.options, one.timing) for one in block.comparisons)
    return replace(block, claimed=tuple(position for position, one in enumerate(found, 1) if one in asked))


def _hindrance(claim: Claim, context: ClaimContext) -> str | None:
    if claim.untestable:
        return claim.untestable
    if claim.metric is Metric.DEVICE_SHARE and not context.environment.accelerated:
        return NO_DEVICE_TIMES
    if claim.metric is Metric.DEVICE_MEMORY and not context.environment.accelerated:
        return NO_DEVICE_MEMORY
    named = (one for stack in (claim.treatment, claim.reference) for one in _meant(stack, context))
    absent = next((one.name for one in named if one.name not in context.known), None)
    return f"there is no optimization '{absent}'" if absent else None


def _meant(stack: str, context: ClaimContext) -> tuple[Option, ...]:
    return options(stack, context.workload, context.environment.device)


def _tried(claim: Claim, context: ClaimContext) -> Resolution:
    meant = tuple(_meant(stack, context) for stack in (claim.treatment, claim.reference))
    (ours, our_reasons), (theirs, their_reasons) = (_runnable(stack, context) for stack in meant)
    reasons = {**their_reasons, **our_reasons}
    lost = set(meant[0]) - set(meant[1]) and not set(ours) - set(theirs)  # nothing of what it would have added
    if lost or ours == theirs or any(option.name in claim.essential for option in reasons):
        words = "; ".join(f"{', '.join(names)} {why}" for why, names in _by_reason(reasons).items())
        return Untried(reason=words or f"nothing differs on {context.workload.name}")
    for stack in (ours, theirs):
        try:
            compose(context.workload, stack, context.known)
        except (Conflict, Mistake) as impossible:
            return Untried(reason=str(impossible).rstrip("."))
    known = (claim.deviation,) if claim.deviation else ()
    left_out = tuple(f"tested without {', '.join(names)}: {why}" for why, names in _by_reason(reasons).items())
    short = (*known, *left_out, *_of_a_gpu(claim, context.environment), *_of_cores(claim, ours, context.environment))
    return Tried(treatment=ours, reference=theirs, timing=claim.timing, shortfalls=short)


A_GPU = re.compile(r"\b(?:[AHV]\d{2,3}G?|[LT]4|L40S?|RTX \d+|GPUs?|CUDA|g5)\b")  # as conditions name one
A_CPU = re.compile(r"\bCPUs?\b")
_BY_A_DEVICE = frozenset({Metric.THROUGHPUT, Metric.RATE, Metric.START_UP})  # how fast it is decides them


def _of_a_gpu(claim: Claim, environment: Environment) -> Iterator[str]:
    """That another kind of device took the place of the one of which something was said; what loads is the host's."""
    if claim.metric not in _BY_A_DEVICE or claim.timing is Timing.LOADER:
        return
    said = f"{claim.text} {claim.conditions} {claim.said_of}"
    if environment.device == "cpu" and A_GPU.search(said):
        yield "said of a GPU, and tested on a CPU"
    if environment.device != "cpu" and A_CPU.search(said) and not A_GPU.search(said):
        yield "said of a CPU, and tested beside a GPU"


def _of_cores(claim: Claim, stack: Iterable[Option], environment: Environment) -> Iterator[str]:
    """That workers shared fewer cores, of which the machine of a promise may have more."""
    workers, cores = next((one.level for one in stack if one.name == "workers"), None), environment.cores
    if claim.metric is Metric.THROUGHPUT and isinstance(workers, int) and workers > cores:
        shared = "1 core" if cores == 1 else f"{cores} cores"
        yield f"{workers} workers shared {shared} (the machine of the promise may have more)"


def _by_reason(reasons: Mapping[Option, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for option, why in sorted(reasons.items()):
        found.setdefault(why, []).append(str(option))
    return found


def _runnable(stack: tuple[Option, ...], context: ClaimContext) -> tuple[tuple[Option, ...], dict[Option, str]]:
    """What of a stack this machine can run, and why not the rest."""
    workload, known = context.workload, context.known
    with suppress(Conflict, Mistake):  # a stack that cannot be is told with words where it is composed
        workload = workload.under(compose(workload, stack, known), batch_scale(stack, known))
    reasons = {one: unmet(known[one.name], context.environment, workload, one.level) for one in stack}
    return tuple(one for one, why in reasons.items() if why is None), {one: why for one, why in reasons.items() if why}


def alone(scope: Scope) -> Iterator[Entry]:
    """All optimizations of the training step together, then each alone, then what the real system had switched on."""
    everything_on, *found = combined(scope)
    yield everything_on
    for optimization in ordered(scope):
        yield single(scope, optimization, optimization.usual_level(scope.environment))
    yield from found


def stages(scope: Scope) -> Iterator[Entry]:
    """What counts on whole steps, and every other option on the part of the step that it changes: `composition.py`.

    All together and what goes to the cause are timed on steps, then options that change the loader alone or the step
    alone on that, the cause last: what it shows on steps tells how much of a part's gain arrives there, and it has a
    ratio already. The rest follows, on steps. Where these are hardly more than loading, steps on batches of the device
    are far cheaper: they come first.
    """
    everything_on, *others = combined(scope)
    first, whole = [everything_on], others
    apart: dict[Timing, list[Entry]] = {one: [] for one in _parts(scope)}
    causes: dict[Timing, list[Entry]] = {one: [] for one in apart}
    loads = Timing.COMPUTE in apart and Timing.LOADER not in apart
    for optimization in ordered(scope):
        entry = single(scope, optimization, optimization.usual_level(scope.environment))
        if not isinstance(entry, Comparison) or entry.reference != scope.reference:
            whole.append(entry)
            continue
        is_cause = optimization.name in scope.workload.first_look[:1]
        part = (causes if is_cause else apart).get(optimization.alone_on) if optimization.alone_on else None
        if part is not None and optimization.alone_on:
            part.append(replace(entry, timing=optimization.alone_on))
        if is_cause:
            first.append(entry)
        elif part is None:
            whole.append(entry)
    alone = [one for timing, part in apart.items() for one in (*part, *causes[timing])]
    yield from (*alone, *first) if loads else (*first, *alone)
    yield from sorted(whole, key=_kind)


MOST_LOADING = 0.9  # of a step: a loader that takes more is timed in no less time than whole steps


def _parts(scope: Scope) -> Iterator[Timing]:
    """The parts of a step that are timed alone: none where the reference loads ahead, since steps are then no sum.

    The loader, unless it takes nearly all of a step; and the step on batches that lie on the device, unless items have
    shapes of their own, so that a few batches do not stand for all. Nor is a step a sum where a loop of the user's own
    may leave its losses on the device, and loads while that is at work.
    """
    runs_ahead = scope.environment.accelerated and "deferred_metrics" in scope.workload.fixed
    if scope.probe or runs_ahead or not in_turns(compose(scope.workload, scope.reference.options, scope.known)):
        return
    size = scope.workload.sizes[scope.reference.size]
    if size.step_s - size.compute_s <= MOST_LOADING * size.step_s:
        yield Timing.LOADER
    if SEVERAL_ITEMS.met(scope.environment, scope.workload) and "varying_shapes" not in scope.workload.traits:
        yield Timing.COMPUTE


def _kind(entry: Entry) -> tuple[int, str]:
    """What is measured beside what: one timing and one reference; what cannot be measured comes last."""
    kinds = list(Timing)
    return (len(kinds), "") if isinstance(entry, NoResult) else (kinds.index(entry.timing), str(entry.reference))


def combined(scope: Scope) -> Iterator[Entry]:
    """All optimizations of the training step together, and what the real system had switched on."""
    yield compare(scope, "all", all_options(scope))
    if scope.original and scope.original != scope.reference.options:
        yield compare(scope, "original", scope.original)


def levels(scope: Scope) -> Iterator[Entry]:
    """Each optimization at each of its levels."""
    for optimization in ordered(scope):
        for level in sorted(optimization.levels, key=str) or (None,):
            yield single(scope, optimization, level)


def evaluation(scope: Scope) -> Iterator[Entry]:
    """Each optimization of the evaluation at each of its levels, timed on whole passes over the evaluation set."""
    for optimization in ordered(scope):
        if optimization.timed_on is Timing.EVALUATION:
            for level in optimization.levels or (None,):
                yield single(scope, optimization, level)


def batches(scope: Scope) -> Iterator[Entry]:
    """Other batches than the reference's, and batches whose gradients add up: other trainings, in tables of their own.

    They are those of the workload's report, as many times the usual batch as there; or half, twice and four times the
    usual one and two that add up, where no report names any.
    """
    usual, real = scope.reference.batch, scope.workload.sizes.get("standard")
    named = scope.workload.batches if real else ()
    if not named:
        found = [*((1, times * usual // 2) for times in (1, 4, 8)), (2, usual)]
    else:
        scale = usual / real.batch if real else 1.0
        asked = (batch_of(f"batch={one}") or (1, usual) for one in named)
        found = [(parts, max(1, round(each * scale))) for parts, each in asked]
    for parts, each in dict.fromkeys(one for one in found if one[1] and one != (1, usual)):
        yield with_batch(scope, f"batch={parts}x{each}" if parts > 1 else f"batch={each}")


MOST_DOUBLINGS = 10


def doubled_batches(scope: Scope) -> Iterator[Entry]:
    """The reference's batch doubled, as often as an epoch has the samples and ten times at most: what still fits?"""
    usual = scope.reference.batch
    most = scope.workload.sizes[scope.reference.size].samples
    for times in (2**power for power in range(1, MOST_DOUBLINGS + 1)):
        if times * usual <= most:
            yield with_batch(scope, f"batch={times * usual}")


def against_itself(scope: Scope) -> Iterator[Entry]:
    """The reference against ten copies of itself: every ratio is 1, so what differs is the machine's noise."""
    yield from _copies(scope, 10)


def _copies(scope: Scope, count: int) -> Iterator[Comparison]:
    config, timing = scope.reference, scope.probe or Timing.STEP
    for copy in range(count):
        yield Comparison(label="itself", treatment=config, reference=config, timing=timing, copy=copy)


def claims(scope: Scope) -> Iterator[Entry]:
    """What tests the ledger's claims: each pair of stacks once, every claim on a reference of its own."""
    if scope.reference.options or scope.probe:
        raise Mistake("A claim names its own reference and what it is timed on; leave out --reference and --probe.")
    entries = list(_of_claims(scope))
    # Every block pays for its reference: what shares one with most others is decided at the least cost, so it is first.
    sharing = Counter((one.reference, one.timing) for one in entries if isinstance(one, Comparison))
    yield from sorted(
        entries, key=lambda one: -sharing[one.reference, one.timing] if isinstance(one, Comparison) else 0
    )


def _of_claims(scope: Scope) -> Iterator[Entry]:
    context = ClaimContext(workload=scope.workload, environment=scope.environment, known=scope.known)
    seen: list[Tried] = []
    for claim in scope.claims:
        found = resolve(claim, context) if concerns(claim, scope.workload) else None
        if isinstance(found, Untried):
            yield NoResult(workload=scope.workload.name, label=claim.name, reason=found.reason)
        elif found and (same := replace(found, shortfalls=())) not in seen:
            seen.append(same)
            yield _tested(scope, found)


def _tested(scope: Scope, tried: Tried) -> Entry:
    allowance_s = scope.protocol.start_allowance_s
    slow = next((one for one in tried.treatment if scope.known[one.name].start_s > allowance_s), None)
    if slow and (reason := hindrance(scope, scope.known[slow.name])):
        return NoResult(workload=scope.workload.name, label=tried.label, reason=reason)
    return compare(based_on(scope, tried.reference), tried.label, tried.treatment, tried.timing)


def distributed(scope: Scope) -> Iterator[Entry]:
    """Two ranks against one, with the same batch and with twice the batch, then options of ranks on top of two."""
    found = sorted(
        (one for one in scope.optimizations if one.stage is Stage.RANKS), key=lambda one: (one.requires, one.name)
    )
    for one in found:
        level = one.usual_level(scope.environment)
        yield single(scope, one, level)
        if not one.requires and isinstance(level, int):
            scale = Option(name="batch_scale", level=level)
            label = f"{scale}+{one.name}={level}"
            if reason := hindrance(scope, one, level):
                yield NoResult(workload=scope.workload.name, label=label, reason=reason)
            else:
                yield compare(scope, label, together(scope, (scale, Option(name=one.name, level=level))))


DESIGNS: Mapping[str, Callable[[Scope], Iterator[Entry]]] = {
    "stages": stages,
    "alone": alone,
    "combined": combined,
    "levels": levels,
    "batches": batches,
    "doubled_batches": doubled_batches,
    "evaluation": evaluation,
    "against_itself": against_itself,
    "calibration": calibration,
    "claims": claims,
    "matrix": matrix,
    "removed": removed,
    "pairs": pairs,
    "factorial": factorial,
    "distributed": distributed,
}
# Those that --only narrows to the options that are named, instead of taking the design's place.
CROSSED = frozenset({"matrix", "removed", "pairs", "factorial"})
