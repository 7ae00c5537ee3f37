"""Advice: what the matrix of a run says to switch on, to leave, to measure further, and to stack."""

import ast
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from harness.analyze.attribution import (
    WHOLE,
    BreakEven,
    Effect,
    Gain,
    JointEffect,
    break_even,
    combined,
    effects,
    first_and_last,
    gain,
    joint_effects,
    largest,
    learns_alike,
)
from harness.analyze.collection import TOO_SMALL, Entry, Kept
from harness.analyze.comparison import TRAINS
from harness.analyze.estimate import replicates_to_decide
from harness.analyze.evidence import Evidence
from harness.analyze.matrix import Row, Table
from harness.analyze.profile import Profile, host_memory
from harness.analyze.quality import Agreement
from harness.analyze.verdict import Verdict, verdict
from harness.core.configuration import Comparison, Configuration, Conflict, Option, compose
from harness.core.mistake import Mistake
from harness.core.optimization import Numerics, Optimization, Stage, Timing
from harness.core.workload import Workload

# Ready-made stacks: the fastest, a reproducible and a balanced one, each by a rule that was fixed beforehand.
#
# Only a stack that was measured has a number. A rule also puts together the options that pay one by one; where nobody
# has measured that stack, it is named as a question to ask next.

LEAST_GAIN = 1.03
MOST_MEMORY = 1.25  # times the reference's peak, of host and device each
LONGEST_PAYBACK_S = 600.0  # of training, until a slower start has paid for itself


class Style(StrEnum):
    """What a ready-made stack is for."""

    FASTEST = "fastest"
    REPRODUCIBLE = "reproducible"
    BALANCED = "balanced"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A measured stack over the base: directly, or by way of one other stack, whose logs then add."""

    config: Configuration
    gain: Gain
    rows: tuple[Row, ...]  # the one against the base first
    break_even: BreakEven | None = None

    @property
    def profile(self) -> Profile | None:
        """What the stack showed."""
        return self.rows[-1].treatment

    @property
    def base_profile(self) -> Profile | None:
        """What the base showed beside it."""
        return self.rows[0].reference

    @property
    def label(self) -> str:
        """What the matrix calls it."""
        return self.rows[-1].label

    @property
    def learns_alike(self) -> bool:
        """Whether quality was judged alike all the way from the base."""
        return all(learns_alike(row) for row in self.rows)

    @property
    def pays(self) -> bool:
        """Whether it is surely faster, on a machine that was quiet enough to say so."""
        behind = [row.estimate for row in self.rows if row.estimate is not None]
        margin = max(one.thresholds.margin for one in behind)
        quiet = not any(one.disturbed for one in behind)
        return quiet and verdict(self.gain.low, self.gain.high, margin) is Verdict.FASTER


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyMade:
    """One ready-made stack."""

    style: Style
    best: Candidate | None  # by its lower bound, so that of many stacks not the luckiest wins
    among: int  # measured stacks that keep the rule
    untried: Comparison | None  # what the rule puts together from single options, where nobody has measured it


@dataclass(frozen=True, slots=True, kw_only=True)
class Kit:
    """What stacks are put together from: the base, its workload, and what is known of optimizations."""

    base: Configuration
    timing: Timing
    workload: Workload | None  # None where this version does not know it
    known: Mapping[str, Optimization]

    def numerics(self, config: Configuration) -> set[Numerics | None]:
        """The classes of what a stack has beyond the base; None stands for an optimization that is not known."""
        added = (one for one in config.options if one not in self.base.options)
        return {self.known[one.name].numerics if one.name in self.known else None for one in added}


Keeps = Callable[[Candidate, Kit], bool]


def candidates(rows: Iterable[Row], kit: Kit) -> tuple[Candidate, ...]:
    """Every stack that was timed against the base, or against another stack that was; one for each configuration."""
    timed = [row for row in rows if row.estimate is not None and row.comparison.timing is kit.timing]
    found: dict[Configuration, Candidate] = {}
    for row in (row for row in timed if row.comparison.reference == kit.base):
        if row.estimate and row.comparison.treatment != kit.base:
            config = row.comparison.treatment
            found.setdefault(config, Candidate(config=config, gain=gain(row.estimate), rows=(row,)))
    direct = dict(found)
    for row in timed:
        through, config = direct.get(row.comparison.reference), row.comparison.treatment
        if through is not None and row.estimate and config not in found and config != kit.base:
            both = combined((1.0, through.gain), (1.0, gain(row.estimate)))
            found[config] = Candidate(config=config, gain=both, rows=(*through.rows, row))
    return tuple(found.values())


def keeps_the_task(candidate: Candidate, kit: Kit) -> bool:
    """Whether nothing in it is known to change what is learned."""
    return Numerics.DIFFERENT not in kit.numerics(candidate.config)


def is_reproducible(candidate: Candidate, kit: Kit) -> bool:
    """Whether all of it promises the same bits, and the same bits were seen."""
    seen = all(row.quality and row.quality.status is Agreement.SAME_BITS for row in candidate.rows)
    return seen and kit.numerics(candidate.config) <= {Numerics.EXACT}


def is_balanced(candidate: Candidate, kit: Kit) -> bool:
    """Whether it gains noticeably, learns alike, and costs little memory and start-up."""
    worth_it = candidate.gain.ratio >= LEAST_GAIN and candidate.learns_alike and keeps_the_task(candidate, kit)
    return worth_it and _is_small(candidate.profile, candidate.base_profile) and _starts_soon(candidate.break_even)


def _is_small(ours: Profile | None, theirs: Profile | None) -> bool:
    if ours is None or theirs is None:
        return False
    pairs = (host_memory(ours, theirs)[1], (ours.device_bytes or 0, theirs.device_bytes or 0))
    return all(one <= MOST_MEMORY * other for one, other in pairs)


def _starts_soon(found: BreakEven | None) -> bool:
    return found is not None and found.seconds is not None and found.seconds <= LONGEST_PAYBACK_S


RULES: Mapping[Style, Keeps] = {
    Style.FASTEST: keeps_the_task,
    Style.REPRODUCIBLE: is_reproducible,
    Style.BALANCED: is_balanced,
}


def ready_made(measured: Sequence[Candidate], singles: Mapping[Option, Candidate], kit: Kit) -> tuple[ReadyMade, ...]:
    """The three stacks; `singles` are the options that pay one by one, in the order in which they are put together."""
    return tuple(_made(style, measured, singles, kit) for style in Style)


def _made(style: Style, measured: Sequence[Candidate], singles: Mapping[Option, Candidate], kit: Kit) -> ReadyMade:
    kept = [one for one in measured if one.pays and RULES[style](one, kit)]
    stack = together([option for option, one in singles.items() if RULES[style](one, kit)], kit)
    config = Configuration(workload=kit.base.workload, size=kit.base.size, batch=kit.base.batch, options=stack)
    tried = config == kit.base or any(one.config == config for one in measured)
    label = "+".join(str(one) for one in stack if one not in kit.base.options)
    asked = Comparison(label=label, treatment=config, reference=kit.base, timing=kit.timing)
    return ReadyMade(
        style=style,
        best=max(kept, key=lambda one: one.gain.low, default=None),
        among=len(kept),
        untried=None if tried else asked,
    )


def together(options: Sequence[Option], kit: Kit) -> tuple[Option, ...]:
    """The base and these options in turn; what conflicts with those before it or lacks what it needs stays off."""
    stack = kit.base.options
    for option in (*options, *options):  # what needs another is tried again when that is there
        others = tuple(one for one in stack if one.name != option.name)
        taken = len(others) < len(stack) and option.name not in {one.name for one in kit.base.options}
        further = tuple(sorted((*others, option)))
        if not taken and _stands(further, option, kit):
            stack = further
    return stack


def _stands(stack: tuple[Option, ...], option: Option, kit: Kit) -> bool:
    """Whether a stack can be run, with an option that neither makes another idle nor is made so."""
    names = {one.name for one in stack}
    if kit.workload is None or not names <= kit.known.keys():
        return False
    own = kit.known[option.name]
    idles = names & {*own.supersedes} or any(option.name in kit.known[name].supersedes for name in names)
    if idles or not {*own.requires} <= names:
        return False
    try:
        compose(kit.workload, stack, kit.known)
    except (Conflict, Mistake):
        return False
    return True


# Remedies: the code that an optimization's page says to write, and whether it is more than a setting.

WRITTEN_BY_HAND = frozenset({Stage.SYNC, Stage.EVALUATION})  # no setting waits for the device or scores a model


def snippet(page: str) -> str:
    """The first block of code of a page, which is what it indents by four spaces; empty where it has none."""
    blocks = groupby(page.splitlines(), key=lambda line: line.startswith("    "))
    return next((textwrap.dedent("\n".join(lines)) for is_code, lines in blocks if is_code), "")


def remedy(optimization: Optimization, device: str) -> str:
    """The code to write on a kind of device; pages show it for CUDA."""
    return snippet(optimization.page).replace('"cuda"', f'"{device}"')


def is_own_code(optimization: Optimization) -> bool:
    """Whether it mends a system's own code: its data set, its loop, or a function or class to be written."""
    if optimization.workload is not None or optimization.stage in WRITTEN_BY_HAND:
        return True
    try:
        found = ast.parse(snippet(optimization.page))
    except SyntaxError:
        return False  # a command or a fragment
    return any(isinstance(node, (ast.FunctionDef, ast.ClassDef)) for node in ast.walk(found))


class Call(StrEnum):
    """What to do with an option."""

    SWITCH_ON = "switch on"
    WITH_WARNING = "faster, with a warning"  # its quality differs, was not shown, or is meant to change
    LEAVE_OFF = "leave off"
    NO_EFFECT = "makes no difference"
    UNDECIDED = "undecided"
    NO_ADVICE = "no advice"  # the machine was too disturbed, or is known to miss effects of this size


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One option with all that speaks for it and against it."""

    effect: Effect  # on the smallest stack that it was measured on
    call: Call
    elsewhere: tuple[Effect, ...]  # on larger stacks
    last: Gain | None  # beside all others of the largest measured stack
    last_verdict: Verdict | None  # of that gain
    optimization: Optimization | None  # None where this version does not know it
    is_own_code: bool
    break_even: BreakEven | None
    replicates: int | None  # that would decide about an undecided one

    @property
    def option(self) -> Option:
        """The option."""
        return self.effect.option

    @property
    def worth(self) -> float:
        """The log gain to order by: alone, or the mean of alone and last where both are known, its share of a stack."""
        alone = self.effect.gain.log
        return alone if self.last is None else (alone + self.last.log) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Counsel:
    """The advice about one workload."""

    workload: str
    base: Table | None  # rows against the reference with the fewest options; None where nothing has a ratio
    items: tuple[Item, ...]  # training before evaluation, the largest gain first
    whole: Row | None  # the largest measured stack
    device: str  # where it was measured: cpu or cuda
    joint_effects: tuple[JointEffect, ...]
    ready_made: tuple[ReadyMade, ...]  # empty where no training was timed
    looked_at: int  # measured stacks of training against the base, one option or more
    parts: tuple[Row, ...]  # rows that time the loader or the step alone

    @property
    def is_small(self) -> bool:
        """Whether it was measured at a size that shows that things run, and no more."""
        return self.base is not None and self.base.config.size == TOO_SMALL

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
    named = (
        *(table.config.workload for table in matrix.tables),
        *(no_result.workload for no_result in matrix.no_results),
    )
    counsels = (_counsel(name, kept, found, shelf) for name in dict.fromkeys(named))
    return Advice(kept=kept, counsels=tuple(counsels))


_Found = Mapping[Comparison, Evidence]


def _counsel(workload: str, kept: Kept, found: _Found, shelf: Shelf) -> Counsel:
    tables = [table for table in kept.matrix.tables if table.config.workload == workload]
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
        joint_effects=joint_effects(entries, shelf.known),
        ready_made=() if kit is None else ready_made(measured, _singles(items), kit),
        looked_at=len(measured),
        parts=tuple(row for table in tables if table.timing not in WHOLE for row in table.rows if row.estimate),
    )


def _base(tables: Sequence[Table]) -> Table | None:
    """The table to start from: of training where any was timed, on the smallest stack, with the most ratios."""
    counts = [(table, sum(row.estimate is not None for row in table.rows)) for table in tables]
    order = [Timing.STEP, Timing.EPOCH, Timing.EVALUATION, Timing.COMPUTE, Timing.LOADER]
    filled = [(order.index(one.timing), len(one.config.options), -count, one) for one, count in counts if count]
    return min(filled, key=lambda one: one[:3])[-1] if filled else None


def _kit(base: Table | None, workload: str, shelf: Shelf) -> Kit | None:
    if base is None or base.timing not in TRAINS:
        return None
    return Kit(base=base.config, timing=base.timing, workload=shelf.workloads.get(workload), known=shelf.known)


def _items(rows: Sequence[Row], last: Mapping[str, Gain], found: _Found, shelf: Shelf) -> tuple[Item, ...]:
    by_option: dict[tuple[Option, bool], list[Effect]] = {}
    for one in effects(rows):
        by_option.setdefault((one.option, one.timing in TRAINS), []).append(one)
    items = [
        _item(seen, last.get(str(option)) if trains else None, found, shelf)
        for (option, trains), seen in by_option.items()
    ]
    return tuple(sorted(items, key=lambda one: (one.effect.timing not in TRAINS, -one.worth, str(one.option))))


def _item(seen: Sequence[Effect], last: Gain | None, found: _Found, shelf: Shelf) -> Item:
    first, *others = sorted(seen, key=lambda one: len(one.below.options))
    optimization = shelf.known.get(first.option.name)
    estimate = first.estimate
    beside = verdict(last.low, last.high, estimate.thresholds.margin) if last else None
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
        replicates=replicates_to_decide(estimate) if undecided else None,
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


def _with_break_even(one: Candidate, found: _Found, base: Configuration) -> Candidate:
    first, final = (found.get(row.comparison) for row in (one.rows[0], one.rows[-1]))
    if first is None or final is None or one.base_profile is None:
        return one
    paid = break_even(final.treatment, first.reference, one.gain, base.batch / one.base_profile.rate)
    return Candidate(config=one.config, gain=one.gain, rows=one.rows, break_even=paid)


def _singles(items: Iterable[Item]) -> dict[Option, Candidate]:
    """The options that pay one by one; one that is a loss beside the others is none of them."""
    paying = (
        one for one in items if one.call is Call.SWITCH_ON and one.effect.timing in TRAINS and not one.effect.turned
    )
    return {
        one.option: Candidate(
            config=one.effect.above, gain=one.effect.gain, rows=(one.effect.row,), break_even=one.break_even
        )
        for one in paying
        if one.last_verdict is not Verdict.SLOWER
    }
