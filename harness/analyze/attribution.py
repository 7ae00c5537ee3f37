"""Attribution: what each option of a stack brings, as factors that multiply to the ratio of the whole.

A share is the Shapley value of a log ratio (L. S. Shapley 1953, A value for n-person games): what an option adds,
averaged over all orders in which the stack can be built. Let options interact in pairs only, which is to say that the
interaction indices of larger sets are zero (M. Grabisch and M. Roubens 1999, An axiomatic approach to the concept of
interaction among players in cooperative games). A set S then has the log ratio

    v(S) = sum of a_i over S + sum of b_ij over the pairs in S,

so that switch i adds a_i + sum of b_ij over those that were there before it. Each other option is there before it in
half of all orders: the share is a_i + half the sum of all b_ij. Put on first it adds a_i; put on last it adds a_i and
the whole sum. The share is therefore exactly the mean of what it adds first and what it adds last, and the shares add
up to v of the whole. What is left over beyond the shares shows interactions of more than two, or parts that nobody
measured; it is kept as an amount of its own, and nothing is scaled to make it vanish.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from harness.analyze.collection import StoredRow
from harness.analyze.estimate import Estimate
from harness.analyze.evidence import Side
from harness.analyze.matrix import Row
from harness.analyze.profile import Bottleneck, Profile
from harness.analyze.quality import LEARNS_ALIKE
from harness.analyze.verdict import MARGIN, Verdict, verdict
from harness.core.configuration import Comparison, Configuration, Option, parse_option
from harness.core.optimization import Optimization, Stage, Timing
from harness.core.records import Ready


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


def combined(*weighted: tuple[float, Gain]) -> Gain:
    """A sum of weighted gains.

    Half-widths are added, not their squares: arms share references, so errors may go together, and the deviation of a
    sum is never more than the sum of deviations.
    """
    return Gain(
        log=math.fsum(weight * one.log for weight, one in weighted),
        half_width=math.fsum(abs(weight) * one.half_width for weight, one in weighted),
    )


class Basis(StrEnum):
    """What a share was computed from."""

    BOTH = "first and last"  # the Shapley share, if only pairs interact
    FIRST = "alone"
    LAST = "last"


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one option brings to a stack."""

    name: str
    gain: Gain
    basis: Basis


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """A stack's gain in parts: the shares, the largest first, and what there is beyond them; they add up to `total`."""

    total: Gain
    shares: tuple[Share, ...]
    beyond: Gain
    unmeasured: tuple[str, ...]  # options without a share: they are in `beyond`

    @property
    def is_exact(self) -> bool:
        """Whether every share is a Shapley share, as far as only pairs interact."""
        return not self.unmeasured and all(one.basis is Basis.BOTH for one in self.shares)


def attribute(names: Iterable[str], total: Gain, alone: Mapping[str, Gain], last: Mapping[str, Gain]) -> Attribution:
    """The shares of options in a stack, from what each adds to nothing and what each adds to all the others.

    An option with one of the two is credited with that one, and its basis says so; one with neither has no share.
    """
    names, shares = tuple(names), []
    for name in names:
        known = [side[name] for side in (alone, last) if name in side]
        if known:
            basis = Basis.BOTH if len(known) == 2 else Basis.FIRST if name in alone else Basis.LAST
            mean = combined(*((1 / len(known), one) for one in known))
            shares.append(Share(name=name, gain=mean, basis=basis))
    shares.sort(key=lambda one: (-one.gain.log, one.name))
    return Attribution(
        total=total,
        shares=tuple(shares),
        beyond=combined((1.0, total), *((-1.0, one.gain) for one in shares)),
        unmeasured=tuple(name for name in names if name not in alone and name not in last),
    )


def attributed(whole: StoredRow, others: Iterable[StoredRow]) -> Attribution:
    """The shares of one measured stack, from whatever else was measured in its environment, on its data and timing.

    Raises ValueError where the stack has no estimate.
    """
    if whole.row.estimate is None:
        raise ValueError("only a stack with an estimate can be taken apart")
    first, last = first_and_last(whole, others)
    return attribute(map(str, _added(whole.row.comparison)), gain(whole.row.estimate), first, last)


def first_and_last(whole: StoredRow, others: Iterable[StoredRow]) -> tuple[Mapping[str, Gain], Mapping[str, Gain]]:
    """What each option of a stack adds to nothing, and what it adds to all the others, where that was measured."""
    reference, known = whole.row.comparison.reference, _gains(whole, others)
    first, last = {}, {}
    for option in _added(whole.row.comparison):
        alone = known.get((_with(reference, option), reference))
        if alone is not None:
            first[str(option)] = alone
        added = _last(option, whole, known)
        if added is not None:
            last[str(option)] = added
    return first, last


_Pairs = Mapping[tuple[Configuration, Configuration], Gain]  # treatment and reference


def _gains(like: StoredRow, entries: Iterable[StoredRow]) -> _Pairs:
    """All gains under the same conditions whose verdict is not withheld for a disturbed machine."""
    wanted = _conditions(like)
    return {
        (one.row.comparison.treatment, one.row.comparison.reference): gain(one.row.estimate)
        for one in entries
        if one.row.estimate is not None and not one.row.estimate.disturbed and _conditions(one) == wanted
    }


def _conditions(entry: StoredRow) -> tuple[str, str, Timing]:
    return entry.run.environment.digest, entry.data, entry.row.comparison.timing


def _last(option: Option, whole: StoredRow, known: _Pairs) -> Gain | None:
    """What an option adds to all others: measured so, the other way round, or both against the reference."""
    treatment, reference = whole.row.comparison.treatment, whole.row.comparison.reference
    rest = _without(treatment, option, reference)
    if (treatment, rest) in known:
        return known[treatment, rest]
    if (rest, treatment) in known:
        return combined((-1.0, known[rest, treatment]))
    if (rest, reference) in known and (treatment, reference) in known:
        return combined((1.0, known[treatment, reference]), (-1.0, known[rest, reference]))
    return None


def _added(comparison: Comparison) -> tuple[Option, ...]:
    """The options that the treatment has beyond its reference."""
    return tuple(option for option in comparison.treatment.options if option not in comparison.reference.options)


def _with(config: Configuration, option: Option) -> Configuration:
    return _stacked(config, (*(one for one in config.options if one.name != option.name), option))


def _without(config: Configuration, option: Option, reference: Configuration) -> Configuration:
    """The stack with an option as the reference has it: off, or at the reference's level."""
    before = tuple(one for one in reference.options if one.name == option.name)
    return _stacked(config, (*(one for one in config.options if one.name != option.name), *before))


def _stacked(config: Configuration, options: Iterable[Option]) -> Configuration:
    return Configuration(workload=config.workload, size=config.size, batch=config.batch, options=tuple(sorted(options)))


def beyond_product(whole: StoredRow, others: Iterable[StoredRow]) -> Gain | None:
    """A stack over the product of its options alone; None where it is no stack or lacks one of them."""
    reference, added = whole.row.comparison.reference, _added(whole.row.comparison)
    if whole.row.estimate is None or whole.row.estimate.disturbed or len(added) < 2:
        return None
    known = _gains(whole, others)
    alone = [known[pair] for option in added if (pair := (_with(reference, option), reference)) in known]
    if len(alone) < len(added):
        return None
    return combined((1.0, gain(whole.row.estimate)), *((-1.0, one) for one in alone))


# Effects: what one option does to a stack, whichever way round the two were compared.

WHOLE = frozenset({Timing.STEP, Timing.EPOCH, Timing.EVALUATION})  # what a user waits for, rather than a part of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """A stack with one option against the same stack without it."""

    option: Option
    gain: Gain  # with it over without it
    verdict: Verdict
    estimate: Estimate  # as measured
    row: Row
    turned: bool  # measured as the stack without it over the stack with it

    @property
    def below(self) -> Configuration:
        """The stack without it."""
        return self.row.comparison.treatment if self.turned else self.row.comparison.reference

    @property
    def above(self) -> Configuration:
        """The stack with it."""
        return self.row.comparison.reference if self.turned else self.row.comparison.treatment

    @property
    def without_it(self) -> Profile | None:
        """What the stack without it showed."""
        return self.row.treatment if self.turned else self.row.reference

    @property
    def with_it(self) -> Profile | None:
        """What the stack with it showed."""
        return self.row.reference if self.turned else self.row.treatment

    @property
    def timing(self) -> Timing:
        """What it is an effect on: what was timed, or whole steps where it is composed from a part."""
        return Timing.STEP if self.row.on_steps else self.row.comparison.timing

    @property
    def instead_of(self) -> tuple[Option, ...]:
        """What the stack without it has in its place."""
        return tuple(one for one in self.below.options if one not in self.above.options)

    @property
    def learns_alike(self) -> bool:
        """Whether its losses, and its score where that is timed, were seen to agree with the reference's."""
        return learns_alike(self.row)


def learns_alike(row: Row) -> bool:
    """Whether quality was judged and found the same or close."""
    return row.quality is not None and row.quality.status in LEARNS_ALIKE


def effects(rows: Iterable[Row]) -> tuple[Effect, ...]:
    """The effect of every row whose two configurations differ by one option; loader and compute alone are no whole."""
    found = (_effect(row) for row in rows if row.comparison.timing in WHOLE or row.on_steps)
    return tuple(one for one in found if one is not None)


def _effect(row: Row) -> Effect | None:
    estimate, comparison = row.estimate, row.comparison
    if estimate is None:
        return None
    added = _added(comparison)
    taken = tuple(one for one in comparison.reference.options if one not in comparison.treatment.options)
    shown = row.on_steps or estimate
    turned, found, word = not added, Gain(log=math.log(shown.ratio), half_width=shown.half_width), shown.verdict
    if len(taken if turned else added) != 1:
        return None
    if turned:
        found = combined((-1.0, found))
        margin = math.inf if estimate.looked_up else estimate.thresholds.margin  # else undecided, as its row is
        word = verdict(found.low, found.high, margin, disturbed=estimate.disturbed)
    return Effect(option=(*added, *taken)[0], gain=found, verdict=word, estimate=estimate, row=row, turned=turned)


# Interactions: options that do not simply multiply, each with a name for how they meet.
#
# An option is compared with itself: what it gives alone, and what it gives last, when the whole stack is on but for it.
# Where only pairs interact, the gap between the two logs is the sum of its interactions with all others. A gap is named
# only if it is wider than its interval, and than 3 %.

LEAST_GAP = math.log(1.03)


class Kind(StrEnum):
    """How options meet."""

    MASKED = "masked"  # by another stage, which holds the stack back with or without it
    REDUNDANT = "redundant"  # with others of its stage, which do the same work
    SYNERGY = "synergy"  # with others of its stage: together more than the product
    CONFLICT = "conflict"  # slower together than without one of them


@dataclass(frozen=True, slots=True, kw_only=True)
class JointEffect:
    """One option among others, or two by themselves."""

    label: str
    among: str  # the other option, or the name of the stack
    alone: Gain
    beside: Gain  # what it gives when the others are on
    gap: Gain  # beside over alone
    kind: Kind
    held_by: str | None  # the upper bound that masks it: input or compute; of a pair the stage of the other


def _is_clear(gap: Gain) -> bool:
    return abs(gap.log) > max(gap.half_width, LEAST_GAP)


def _of_stack(
    whole: StoredRow, others: Sequence[StoredRow], known: Mapping[str, Optimization]
) -> Iterator[JointEffect]:
    """Every option of a measured stack whose gap is clear, among those measured both alone and last."""
    first, last = first_and_last(whole, others)
    before, after = (arm.bottleneck if arm else None for arm in (whole.row.reference, whole.row.treatment))
    for label in first.keys() & last.keys() if len(_added(whole.row.comparison)) > 2 else ():  # two are a pair
        alone, beside = first[label], last[label]
        gap, name = combined((1.0, beside), (-1.0, alone)), parse_option(label).name
        if _is_clear(gap) and name in known:
            held_by = _other_stage(known[name].stage, before if gap.log > 0 else after)
            kind = _kind(alone, beside, _margin(whole), masked=held_by is not None)
            yield JointEffect(
                label=label,
                among=whole.row.label,
                alone=alone,
                beside=beside,
                gap=gap,
                kind=kind,
                held_by=held_by if kind is Kind.MASKED else None,
            )


def _of_pairs(entries: Sequence[StoredRow], known: Mapping[str, Optimization]) -> Iterator[JointEffect]:
    """Every measured stack of two whose parts were measured alone against the same reference, if the gap is clear."""
    for entry in entries:
        added = _added(entry.row.comparison)
        gap = beyond_product(entry, entries) if len(added) == 2 else None
        if gap is None or not _is_clear(gap) or entry.row.estimate is None:
            continue
        alone = first_and_last(entry, entries)[0]
        weaker, stronger = sorted(added, key=lambda one: alone[str(one)].log)
        beside = combined((1.0, gain(entry.row.estimate)), (-1.0, alone[str(stronger)]))
        stages = [known[one.name].stage for one in (weaker, stronger) if one.name in known]
        masked = len({*stages}) > 1
        kind = _kind(alone[str(weaker)], beside, _margin(entry), masked=masked)
        yield JointEffect(
            label=str(weaker),
            among=str(stronger),
            alone=alone[str(weaker)],
            beside=beside,
            gap=gap,
            kind=kind,
            held_by=str(stages[1]) if kind is Kind.MASKED else None,
        )


def joint_effects(entries: Iterable[StoredRow], known: Mapping[str, Optimization]) -> tuple[JointEffect, ...]:
    """All of one workload, those of the widest gap first; of stacks the largest that was measured is taken apart."""
    measured = tuple(one for one in entries if one.row.estimate is not None)
    found = list(_of_pairs(measured, known))
    whole = largest(measured)
    if whole is not None:
        found += _of_stack(whole, measured, known)
    return tuple(sorted(found, key=lambda one: (-abs(one.gap.log), one.label, one.among)))


def largest(entries: Iterable[StoredRow]) -> StoredRow | None:
    """The stack with most options beyond its reference, of two at least; None where all are single options."""
    stacks = (one for one in entries if len(_added(one.row.comparison)) > 1)
    return max(stacks, key=lambda one: len(_added(one.row.comparison)), default=None)


def _margin(entry: StoredRow) -> float:
    return entry.row.estimate.thresholds.margin if entry.row.estimate else MARGIN


def _kind(alone: Gain, beside: Gain, margin: float, *, masked: bool) -> Kind:
    if verdict(beside.low, beside.high, margin).loses and alone.log > beside.log:
        return Kind.CONFLICT
    if masked:
        return Kind.MASKED
    return Kind.SYNERGY if beside.log > alone.log else Kind.REDUNDANT


def _other_stage(stage: Stage, held: Bottleneck | None) -> str | None:
    """The upper bound that holds a stack back, where it is not the one that an option of this stage lifts."""
    own = "input" if stage is Stage.INPUT else "compute"
    return held.stage if held is not None and held.stage != own else None


# Start-up: what an arm takes before its steps run as they do later, and when a slower start has paid for itself.


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakEven:
    """After how many steps a gain has paid for a slower start: the least start by the highest gain, and the opposite.

    With start-ups F and steps t of both arms that is N* = (F_B - F_A) / (t_A - t_B). The starts are those of single
    replicates, the gains the ends of the interval.
    """

    extra_s: tuple[float, float]  # start-up beyond the other arm's, the least and the most
    steps: tuple[float, float | None] | None  # None: never, since a step is no shorter; at the end: as far as is known
    step_s: float  # of the arm with the gain

    @property
    def seconds(self) -> float | None:
        """Training time until the worst start has surely paid for itself; None where it may never do."""
        return None if self.steps is None or self.steps[1] is None else self.steps[1] * self.step_s


def start_up_s(ready: Ready) -> float:
    """Building, the first step, and what the warm-up took beyond as many steps at the speed of its end."""
    return ready.build_s + ready.first_step_s + max(0.0, ready.warm_up_s - ready.warm_up_steps * ready.step_s)


def break_even(ours: Side, theirs: Side, gain: Gain, step_s: float) -> BreakEven | None:
    """Of one arm against another whose step takes `step_s`; None where no replicate has both in fresh processes."""
    first, other = ours.first_starts, theirs.first_starts
    extra = [start_up_s(first[replicate]) - start_up_s(other[replicate]) for replicate in first.keys() & other.keys()]
    if not extra:
        return None
    low, high = min(extra), max(extra)
    saved_s, most_s, least_s = (step_s * (1 - 1 / one) for one in (gain.ratio, gain.high, gain.low))
    surely = max(0.0, high) / least_s if least_s > 0 else None
    steps = (max(0.0, low) / most_s, surely) if saved_s > 0 else None
    return BreakEven(extra_s=(low, high), steps=steps, step_s=step_s / gain.ratio)
