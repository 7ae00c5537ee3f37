"""Advice: what the matrix of a run says to switch on, to leave, to measure further, and to combine.

Every recommendation comes from the first rule of one table whose condition holds (docs/decisions/advice.md).
"""

import ast
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from math import hypot
from typing import NamedTuple

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
from harness.analyze.collection import TOO_SMALL, StoredRow, StoredRun
from harness.analyze.estimate import OF_TABLE, replicates_to_decide
from harness.analyze.evidence import Evidence
from harness.analyze.grouping import together
from harness.analyze.matrix import Row, Table, no_verdict
from harness.analyze.profile import Profile, host_memory
from harness.analyze.quality import Agreement
from harness.analyze.soundness import Absence
from harness.analyze.verdict import Verdict, verdict
from harness.core.configuration import Comparison, Configuration, Conflict, Option, compose
from harness.core.emulation import is_emulated
from harness.core.mistake import Mistake
from harness.core.optimization import TRAINS, Numerics, Optimization, Stage, Timing
from harness.core.workload import Workload

_Evidence = Mapping[Comparison, Evidence]

# Remedies: the code that an optimization's page says to write, and whether it is more than a setting.

WRITTEN_BY_HAND = frozenset({Stage.SYNC, Stage.EVALUATION})  # no setting waits for the device or scores a model


def snippet(page: str) -> str:
    """The first block of code of a page, which is what it indents by four spaces; empty where it has none."""
    blocks = groupby(page.splitlines(), key=lambda line: line.startswith("    "))
    return next((textwrap.dedent("\n".join(lines)) for is_code, lines in blocks if is_code), "")


def remedy(optimization: Optimization, device: str) -> str:
    """The code to write on a kind of device; pages show it for CUDA, and so it is for one that is emulated."""
    named = "cuda" if is_emulated(device) else device
    return snippet(optimization.page).replace('"cuda"', f'"{named}"')


def is_own_code(optimization: Optimization) -> bool:
    """Whether it mends a system's own code: its data set, its loop, or a function or class to be written."""
    if optimization.workload is not None or optimization.stage in WRITTEN_BY_HAND:
        return True
    try:
        found = ast.parse(snippet(optimization.page))
    except SyntaxError:
        return False  # a command or a fragment
    return any(isinstance(node, (ast.FunctionDef, ast.ClassDef)) for node in ast.walk(found))


class Recommendation(StrEnum):
    """What to do with an option."""

    SWITCH_ON = "switch on"
    WITH_WARNING = "faster, with a warning"  # quality differs, was not shown or is meant to change; or see SLOWER_LAST
    LEAVE_OFF = "leave off"
    NO_EFFECT = "makes no difference"
    UNDECIDED = "undecided"
    NO_ADVICE = "no advice"  # the machine was too disturbed, or is known to miss effects of this size


class Reason(StrEnum):
    """Why an option gets its recommendation."""

    DISTURBED = "the machine was too disturbed"
    WITHHELD = "calibration showed that the machine misses effects of this size"
    OF_TABLE = OF_TABLE
    CHANGES_TASK = "faster, and it is meant to change what is learned"
    QUALITY_NOT_SHOWN = "faster, and its losses were not seen to agree"
    SLOWER_LAST = "faster by itself, slower beside all others of the largest combination"
    FASTER = "faster by itself"
    FASTER_LAST = "faster beside all others of the largest combination"
    SLOWER = "slower"
    NO_EFFECT = "no effect"
    TOO_WIDE = "the interval allows more than one verdict"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One option with all that speaks for it and against it."""

    effect: Effect  # on the smallest stack that it was measured on
    elsewhere: tuple[Effect, ...]  # on larger stacks
    last: Gain | None  # beside all others of the largest measured stack
    optimization: Optimization | None  # None where this version does not know it
    numerics: frozenset[Numerics | None]  # what it promises of losses; None where nobody knows
    break_even: BreakEven | None

    @property
    def option(self) -> Option:
        """The option."""
        return self.effect.option

    @property
    def worth(self) -> float:
        """The log gain to order by: alone, or the mean of alone and last where both are known, its share of a stack."""
        alone = self.effect.gain.log
        return alone if self.last is None else (alone + self.last.log) / 2

    @property
    def last_verdict(self) -> Verdict:
        """The verdict of its gain beside all others, by the machine's own margin; undecided where nobody looked."""
        if self.last is None or self.effect.estimate.looked_up:
            return Verdict.UNDECIDED
        return verdict(self.last.low, self.last.high, self.effect.estimate.thresholds.margin)

    @property
    def gains(self) -> bool:
        """Whether it is surely faster: by itself, or beside all others where it is not surely slower by itself."""
        hidden = self.last_verdict.gains and not self.effect.verdict.loses
        return self.effect.verdict.gains or hidden

    @property
    def is_composed(self) -> bool:
        """Whether its ratio of whole steps comes from that of a part."""
        return self.effect.row.on_steps is not None

    @property
    def is_disturbed(self) -> bool:
        """Whether the machine was too restless: for what was timed, or for the steps that its ratio is composed of."""
        shown = self.effect.row.shown
        return self.effect.estimate.disturbed or (shown is not None and shown.verdict is Verdict.DISTURBED)

    @property
    def changes_task(self) -> bool:
        """Whether it is meant to change what is learned."""
        return Numerics.DIFFERENT in self.numerics

    @property
    def rule(self) -> "Rule":
        """The first rule whose condition holds."""
        return next(rule for rule in RULES if rule.condition(self))

    @property
    def recommendation(self) -> Recommendation:
        """What to do with it."""
        return self.rule.recommendation

    @property
    def is_own_code(self) -> bool:
        """Whether it mends a system's own code."""
        return self.optimization is not None and is_own_code(self.optimization)

    @property
    def replicates(self) -> int | None:
        """About how many replicates would decide about an undecided one; of a part of a step none are known to."""
        undecided = self.recommendation is Recommendation.UNDECIDED
        return replicates_to_decide(self.effect.estimate) if undecided and not self.is_composed else None


class Rule(NamedTuple):
    """A condition, what is recommended where it is the first that holds, and why."""

    condition: Callable[[Item], bool]
    recommendation: Recommendation
    reason: Reason


RULES = (
    Rule(lambda one: one.is_disturbed, Recommendation.NO_ADVICE, Reason.DISTURBED),
    Rule(lambda one: one.effect.estimate.looked_up, Recommendation.NO_ADVICE, Reason.OF_TABLE),
    Rule(lambda one: one.effect.estimate.withheld, Recommendation.NO_ADVICE, Reason.WITHHELD),
    Rule(lambda one: one.gains and one.changes_task, Recommendation.WITH_WARNING, Reason.CHANGES_TASK),
    Rule(lambda one: one.gains and not one.effect.learns_alike, Recommendation.WITH_WARNING, Reason.QUALITY_NOT_SHOWN),
    Rule(lambda one: one.gains and one.last_verdict.loses, Recommendation.WITH_WARNING, Reason.SLOWER_LAST),
    Rule(lambda one: one.effect.verdict.gains, Recommendation.SWITCH_ON, Reason.FASTER),
    Rule(lambda one: one.gains, Recommendation.SWITCH_ON, Reason.FASTER_LAST),
    Rule(lambda one: one.effect.verdict.loses, Recommendation.LEAVE_OFF, Reason.SLOWER),
    Rule(lambda one: one.effect.verdict is Verdict.NO_EFFECT, Recommendation.NO_EFFECT, Reason.NO_EFFECT),
    Rule(lambda _: True, Recommendation.UNDECIDED, Reason.TOO_WIDE),
)


def _items(
    rows: Sequence[Row], last: Mapping[str, Gain], found: _Evidence, known: Mapping[str, Optimization]
) -> tuple[Item, ...]:
    by_option = together(((one.option, one.timing in TRAINS), one) for one in effects(rows))
    items = []
    for (option, trains), seen in by_option.items():
        first, *others = sorted(seen, key=lambda one: len(one.below.options))
        items.append(
            Item(
                effect=first,
                elsewhere=tuple(others),
                last=last.get(str(option)) if trains else None,
                optimization=known.get(option.name),
                numerics=_numerics({option.name}, (first.row,), found, known),
                break_even=_break_even(first, found),
            )
        )
    return tuple(sorted(items, key=lambda one: (one.effect.timing not in TRAINS, -one.worth, str(one.option))))


def _numerics(
    names: set[str], rows: Iterable[Row], found: _Evidence, known: Mapping[str, Optimization]
) -> frozenset[Numerics | None]:
    """What options promise of losses; where this version does not know all, what the run has kept of their rows too."""
    told: set[Numerics | None] = {known[name].numerics for name in names if name in known}
    if not names <= known.keys():
        kept = (found.get(row.comparison) for row in rows)
        told |= {evidence.numerics if evidence else None for evidence in kept}
    return frozenset(told)


def _break_even(effect: Effect, found: _Evidence) -> BreakEven | None:
    """Of training alone: nobody counts the passes over an evaluation set."""
    evidence, without = found.get(effect.row.comparison), effect.without_it
    if evidence is None or without is None or effect.timing not in TRAINS or effect.row.on_steps:
        return None
    arms = evidence.treatment, evidence.reference
    ours, theirs = reversed(arms) if effect.turned else arms
    return break_even(ours, theirs, effect.gain, effect.below.batch / without.rate)


# Ready-made stacks: the fastest, a reproducible and a balanced one, each by conditions that were fixed beforehand.
#
# Only a stack that was measured has a number. The same conditions put together the options that pay one by one; where
# nobody has measured that stack, it is named as a question to ask next.

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
    break_even: BreakEven | None
    numerics: frozenset[Numerics | None]  # of what it has beyond the base; None where nobody knows

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
    def keeps_bits(self) -> bool:
        """Whether the same bits were seen all the way from the base."""
        return all(row.quality and row.quality.status is Agreement.SAME_BITS for row in self.rows)

    @property
    def is_small(self) -> bool:
        """Whether it needs little more memory than the base."""
        ours, theirs = self.profile, self.base_profile
        if ours is None or theirs is None:
            return False
        pairs: list[tuple[int | None, ...]] = [(ours.device_bytes or 0, theirs.device_bytes or 0)]
        if not ours.emulated:
            pairs.append(host_memory(ours, theirs)[1])
        return all(one is not None and other is not None and one <= MOST_MEMORY * other for one, other in pairs)

    @property
    def starts_soon(self) -> bool:
        """Whether a slower start has soon paid for itself."""
        paid_s = self.break_even.seconds if self.break_even else None
        return paid_s is not None and paid_s <= LONGEST_PAYBACK_S

    @property
    def pays(self) -> bool:
        """Whether it is surely faster, on a machine that was quiet enough to say so."""
        behind = [row.estimate for row in self.rows if row.estimate is not None]
        margin = max(one.thresholds.margin for one in behind)
        quiet = not any(one.disturbed or one.looked_up for one in behind)
        return quiet and verdict(self.gain.low, self.gain.high, margin).gains

    def is_for(self, style: Style) -> bool:
        """Whether every condition of a style holds."""
        return all(condition(self) for condition in CONDITIONS[style])


def _keeps_task(one: Candidate) -> bool:
    return Numerics.DIFFERENT not in one.numerics


CONDITIONS: Mapping[Style, tuple[Callable[[Candidate], bool], ...]] = {
    Style.FASTEST: (_keeps_task,),
    Style.REPRODUCIBLE: (lambda one: one.keeps_bits, lambda one: one.numerics <= {Numerics.EXACT}),
    Style.BALANCED: (
        _keeps_task,
        lambda one: one.gain.ratio >= LEAST_GAIN,
        lambda one: one.learns_alike,
        lambda one: one.is_small,
        lambda one: one.starts_soon,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyMade:
    """One ready-made stack."""

    style: Style
    best: Candidate | None  # by its lower bound, so that of many stacks not the luckiest wins
    among: int  # measured stacks that keep the conditions
    untried: Comparison | None  # what they put together from single options, where nobody has measured it


@dataclass(frozen=True, slots=True, kw_only=True)
class _Base:
    """What stacks of training are put together from."""

    config: Configuration
    timing: Timing
    workload: Workload | None  # None where this version does not know it
    known: Mapping[str, Optimization]
    found: _Evidence

    def candidates(self, rows: Iterable[Row]) -> list[Candidate]:
        """Every stack timed against the base, or against another stack that was; one for each configuration."""
        timed = [row for row in rows if row.comparison.timing is self.timing]
        paths: dict[Configuration, tuple[Row, ...]] = {}
        for row in timed:
            if row.comparison.reference == self.config and row.comparison.treatment != self.config:
                paths.setdefault(row.comparison.treatment, (row,))
        direct = dict(paths)
        for row in timed:
            through = direct.get(row.comparison.reference)
            if through and row.comparison.treatment != self.config:
                paths.setdefault(row.comparison.treatment, (*through, row))
        return [self._candidate(config, path) for config, path in paths.items()]

    def _candidate(self, config: Configuration, rows: tuple[Row, ...]) -> Candidate:
        total = combined(*((1.0, gain(row.estimate)) for row in rows if row.estimate))
        first, final = (self.found.get(row.comparison) for row in (rows[0], rows[-1]))
        before = rows[0].reference
        paid = None
        if first is not None and final is not None and before is not None:
            paid = break_even(final.treatment, first.reference, total, self.config.batch / before.rate)
        return Candidate(config=config, gain=total, rows=rows, break_even=paid, numerics=self._promised(config, rows))

    def _promised(self, config: Configuration, rows: Iterable[Row]) -> frozenset[Numerics | None]:
        added = {one.name for one in config.options if one not in self.config.options}
        return _numerics(added, rows, self.found, self.known)

    def singles(self, items: Iterable[Item]) -> dict[Option, Candidate]:
        """The options that pay one by one, in their order; one that is a loss beside the others is none of them."""
        return {
            one.option: Candidate(
                config=one.effect.above,
                gain=one.effect.gain,
                rows=(one.effect.row,),
                break_even=one.break_even,
                numerics=self._promised(one.effect.above, (one.effect.row,)),
            )
            for one in items
            if one.recommendation is Recommendation.SWITCH_ON
            and one.effect.timing in TRAINS
            and not one.effect.turned
            and not one.last_verdict.loses
        }

    def ready_made(self, style: Style, measured: Sequence[Candidate], singles: Mapping[Option, Candidate]) -> ReadyMade:
        """The best measured stack of a style, and the one that its conditions put together from single options."""
        kept = [one for one in measured if one.pays and one.is_for(style)]
        stack = self._together([option for option, one in singles.items() if one.is_for(style)])
        config = Configuration(
            workload=self.config.workload, size=self.config.size, batch=self.config.batch, options=stack
        )
        tried = config == self.config or any(one.config == config for one in measured)
        label = "+".join(str(one) for one in stack if one not in self.config.options)
        asked = Comparison(label=label, treatment=config, reference=self.config, timing=self.timing)
        return ReadyMade(
            style=style,
            best=max(kept, key=lambda one: one.gain.low, default=None),
            among=len(kept),
            untried=None if tried else asked,
        )

    def _together(self, options: Sequence[Option]) -> tuple[Option, ...]:
        """The base and these options in turn; what conflicts with those before it or lacks what it needs stays off."""
        stack = self.config.options
        for option in (*options, *options):  # what needs another is tried again when that is there
            others = tuple(one for one in stack if one.name != option.name)
            taken = len(others) < len(stack) and option.name not in {one.name for one in self.config.options}
            further = tuple(sorted((*others, option)))
            if not taken and self._stands(further, option):
                stack = further
        return stack

    def _stands(self, stack: tuple[Option, ...], option: Option) -> bool:
        """Whether a stack can be run, with an option that neither makes another idle nor is made so."""
        names = {one.name for one in stack}
        if self.workload is None or not names <= self.known.keys():
            return False
        own = self.known[option.name]
        idles = names & {*own.supersedes} or any(option.name in self.known[name].supersedes for name in names)
        if idles or not {*own.requires} <= names:
            return False
        try:
            compose(self.workload, stack, self.known)
        except (Conflict, Mistake):
            return False
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadAdvice:
    """The advice about one workload."""

    workload: str
    base: Table | None  # rows against the reference with the fewest options; None where nothing has a ratio
    items: tuple[Item, ...]  # training before evaluation, the largest gain first
    whole: Row | None  # the largest measured stack
    device: str  # where it was measured
    joint_effects: tuple[JointEffect, ...]
    ready_made: tuple[ReadyMade, ...]  # empty where no training was timed
    looked_at: int  # measured stacks of training against the base, one option or more
    parts: tuple[Row, ...]  # rows that time the loader or the step alone

    @property
    def is_small(self) -> bool:
        """Whether it was measured at a size that shows that things run, and no more."""
        return self.base is not None and self.base.config.size == TOO_SMALL

    @property
    def foremost(self) -> "Foremost | None":
        """What to do first: the combination that surely gains most, else the first option; None where nothing gains."""
        made = [one.best for one in self.ready_made if one.best]
        if made:
            best = max([one for one in made if one.learns_alike] or made, key=lambda one: one.gain.low)
            first, last = best.rows[0], best.rows[-1]
            return Foremost(
                label=last.label,
                reference=first.comparison.reference,
                treatment=best.config,
                gain=best.gain,
                alike=best.learns_alike,
            )
        single = next(iter(self.recommended(Recommendation.SWITCH_ON)), None)
        if single is None:
            return None
        effect = single.effect
        return Foremost(
            label=str(single.option),
            reference=effect.below,
            treatment=effect.above,
            gain=effect.gain,
            alike=effect.learns_alike,
        )

    def recommended(self, *wanted: Recommendation) -> tuple[Item, ...]:
        """The items with one of these recommendations, in order."""
        return tuple(one for one in self.items if one.recommendation in wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Foremost:
    """A configuration that is advised in place of another, and what a run showed it to gain."""

    label: str
    reference: Configuration
    treatment: Configuration
    gain: Gain
    alike: bool  # its losses were seen to agree

    def objections(self, afresh: Row) -> Iterator[str]:
        """Why a fresh measurement does not bear it out, the gravest reason first; none where it does."""
        found, quality = afresh.result, afresh.quality
        if isinstance(found, Absence):
            yield found.words
            return
        if words := no_verdict(found):
            yield words
        if not found.verdict.gains:
            yield f"its verdict is {found.verdict}"
        if self.alike and not learns_alike(afresh):
            yield f"quality {quality.status}: {quality.sentence}" if quality else "its losses were not compared"
        again = gain(found)
        if abs(again.log - self.gain.log) > hypot(again.half_width, self.gain.half_width):
            yield "its ratio lies further from the one before than both intervals allow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What a run says to do."""

    run: StoredRun
    workloads: tuple[WorkloadAdvice, ...]


def advise(
    run: StoredRun, evidence: Iterable[Evidence], known: Mapping[str, Optimization], workloads: Mapping[str, Workload]
) -> Advice:
    """The advice of one run, finished or not, workload by workload, with what this version knows beside the run."""
    found = {one.comparison: one for one in reversed(tuple(evidence))}
    advised = (_of_workload(name, run, found, known, workloads.get(name)) for name in run.matrix.workloads)
    return Advice(run=run, workloads=tuple(advised))


def _of_workload(
    name: str, run: StoredRun, found: _Evidence, known: Mapping[str, Optimization], workload: Workload | None
) -> WorkloadAdvice:
    tables = [table for table in run.matrix.tables if table.config.workload == name]
    entries = [
        StoredRow(run=run, table=table, row=row)
        for table in tables
        for row in table.rows
        if row.estimate is not None and table.timing in WHOLE
    ]
    rows, base, whole = [entry.row for entry in entries], _base(tables), largest(entries)
    measured_whole = {row.comparison.treatment for row in rows}
    composed = [
        row for table in tables for row in table.rows if row.on_steps and row.comparison.treatment not in measured_whole
    ]
    items = _items([*rows, *composed], first_and_last(whole, entries)[1] if whole else {}, found, known)
    measured: list[Candidate] = []
    ready_made: tuple[ReadyMade, ...] = ()
    if base is not None and base.timing in TRAINS:
        start = _Base(config=base.config, timing=base.timing, workload=workload, known=known, found=found)
        measured, singles = start.candidates(rows), start.singles(items)
        ready_made = tuple(start.ready_made(style, measured, singles) for style in Style)
    return WorkloadAdvice(
        workload=name,
        base=base,
        items=items,
        whole=whole.row if whole is not None else None,
        device=run.environment.device,
        joint_effects=joint_effects(entries, known),
        ready_made=ready_made,
        looked_at=len(measured),
        parts=tuple(row for table in tables if table.timing not in WHOLE for row in table.rows if row.estimate),
    )


def _base(tables: Sequence[Table]) -> Table | None:
    """The table to start from: of training where any was timed, on the smallest stack, with the most ratios."""
    counts = [(table, sum(row.estimate is not None for row in table.rows)) for table in tables]
    order = [Timing.STEP, Timing.EPOCH, Timing.EVALUATION, Timing.COMPUTE, Timing.LOADER]
    filled = [(order.index(one.timing), len(one.config.options), -count, one) for one, count in counts if count]
    return min(filled, key=lambda one: one[:3])[-1] if filled else None
