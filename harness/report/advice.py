"""Advice: sections of points for each workload, in the order in which one acts on them."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.analyze.advice import (
    LEAST_GAIN,
    LONGEST_PAYBACK_S,
    MOST_MEMORY,
    Advice,
    Candidate,
    Foremost,
    Item,
    ReadyMade,
    Reason,
    Recommendation,
    Style,
    WorkloadAdvice,
    remedy,
)
from harness.analyze.attribution import WHOLE, BreakEven, Effect, Gain, JointEffect, Kind, learns_alike
from harness.analyze.estimate import MOST_REPLICATES
from harness.analyze.profile import Bottleneck, Profile, host_memory
from harness.analyze.quality import Agreement, Quality
from harness.core.configuration import Comparison, Option
from harness.core.optimization import Numerics, Optimization
from harness.core.plan import Request
from harness.report import document
from harness.report import matrix as sentences
from harness.report.document import (
    COLOURS,
    Code,
    Column,
    Facts,
    Heading,
    Items,
    Part,
    Span,
    Text,
    tabled,
    to_json,
    warning,
)
from harness.report.matrix import COMPOSED, TIMED, behind
from harness.report.words import NOTHING, change, duration, one_line, ratio, roughly, share, size, stage

# Points of advice about single options: the gain, what it costs and what speaks against it, in words.

NUMERICS = {
    Numerics.EXACT: "the same losses, bit for bit",
    Numerics.CLOSE: "losses as near as those of another seed",
    Numerics.DIFFERENT: "another training",
}
_NO_SLOWER_S = 0.05  # of a start, which nobody notices
_MOST_NAMES = 4  # of options, told one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One piece of advice before any format is chosen; foreign text in it is not escaped yet."""

    name: str
    title: str = ""
    figure: str = ""
    verdict: str = ""
    main: tuple[str, ...] = ()
    sentences: tuple[str, ...] = ()  # the evidence, which a page may fold away
    warnings: tuple[str, ...] = ()
    code: str = ""
    ask: Comparison | None = None  # whose command stands below
    command: str = ""  # that stands in place of that one
    lead: str = ""  # to that command


def gained(item: Item) -> str:
    """What an option gains in training steps, marked where that is composed from a part of them."""
    return COMPOSED * item.is_composed + ratio(item.effect.gain)


def full(item: Item, about: WorkloadAdvice) -> Point:
    """Everything that there is to say of an option that gains."""
    one = item.optimization
    return Point(
        name=str(item.option),
        title=one.title if one else "",
        figure=gained(item),
        verdict=item.effect.verdict,
        main=(*_price(item), *_of_level(item, about)),
        sentences=tuple(_of_gain(item, about)),
        warnings=tuple(_warnings(item, about)),
        code=remedy(one, about.device) if one else "",
    )


def short(item: Item, about: WorkloadAdvice) -> Point:
    """The figure and what it rests on, for what is not switched on."""
    effect = item.effect
    return Point(
        name=str(item.option),
        title=item.optimization.title if item.optimization else "",
        figure=gained(item),
        verdict=effect.verdict,
        main=(_measured(effect, about), *_elsewhere(item, about), *notes(effect)),
    )


def open_question(item: Item, about: WorkloadAdvice) -> Point:
    """What would decide about an undecided option."""
    return Point(
        name=str(item.option),
        figure=gained(item),
        verdict=item.effect.verdict,
        main=(_decided_by(item),),
        ask=item.effect.row.comparison,
        command=_on_whole_steps(item, about.device),
    )


def withheld(item: Item, about: WorkloadAdvice) -> Point:
    """Why there is no advice from a row, and how to get some."""
    return Point(
        name=str(item.option),
        figure=gained(item),
        main=notes(item.effect),
        ask=item.effect.row.comparison,
        lead="On a quieter machine:",
        command=_on_whole_steps(item, about.device),
    )


def _decided_by(item: Item) -> str:
    if item.is_composed:
        part = item.effect.row.comparison.timing
        return f"It is composed from the {part} alone, of which more replicates may never decide it: time whole steps."
    if item.replicates is None:
        return f"Not even {MOST_REPLICATES} replicates would: too near a verdict's limit, or too wide an interval."
    now = item.effect.estimate.processes
    return f"About {item.replicates} replicates instead of {now} would decide, if the estimate stays where it is."


def _on_whole_steps(item: Item, device: str) -> str:
    """The command that times whole steps of what is composed from a part; empty for what was timed itself."""
    if not item.is_composed:
        return ""
    treatment, reference = item.effect.row.comparison.treatment, item.effect.row.comparison.reference
    asked = Request(
        workloads=(treatment.workload,), size=treatment.size, batch=reference.batch, stack=treatment.stack,
        reference=reference.stack or "baseline", device=device,
    )  # fmt: skip
    return asked.command


def _price(item: Item) -> Iterator[str]:
    """Memory, start-up, quality and reproducibility in one line; the evidence tells them in full."""
    ours, theirs, quality = item.effect.with_it, item.effect.without_it, item.effect.row.quality
    found = []
    if ours is not None and theirs is not None and item.effect.row.on_steps is None:
        kind, host = host_memory(ours, theirs)
        found.append(f"{kind} {change(*host)}")
        if ours.device_bytes is not None and theirs.device_bytes:
            found.append(f"device peak {change(ours.device_bytes, theirs.device_bytes)}")
        if ours.joules and theirs.joules:
            found.append(f"energy a sample {change(ours.joules, theirs.joules)}")
    if item.break_even is not None:
        later = max(0.0, item.break_even.extra_s[1])
        found.append(f"start +{duration(later)}" if later > _NO_SLOWER_S else "no slower start")
    found.append(f"quality {quality.status}" if quality else "quality not judged")
    if item.optimization is not None:
        found.append(f"numerics {item.optimization.numerics}")
    yield f"Costs: {', '.join(found)}."


def _of_gain(item: Item, about: WorkloadAdvice) -> Iterator[str]:
    yield _measured(item.effect, about)
    yield from _in_stack(item, about)
    yield from _meetings(item, about)
    yield from _elsewhere(item, about)
    if item.effect.row.on_steps is None:
        yield from costs(item.effect.with_it, item.effect.without_it, shared=item.effect.estimate.shared)
    yield from starts(item.break_even)
    yield quality(item.effect.row.quality, item.optimization.numerics if item.optimization else None)
    if item.optimization:
        yield from _ties(item.optimization)
    yield from notes(item.effect)


def _measured(effect: Effect, about: WorkloadAdvice) -> str:
    """What was timed, on top of what, and how much stands behind it."""
    instead = f", instead of {', '.join(map(str, effect.instead_of))}" if effect.instead_of else ""
    turned = "; measured as what its absence costs" if effect.turned else ""
    return f"{_place(effect, about)}{instead}: {behind(effect.estimate)}{turned}."


def _place(effect: Effect, about: WorkloadAdvice) -> str:
    """What was timed and on top of what, long stacks by their names or their lengths."""
    timed, whole = f"On {TIMED[effect.timing]}", about.whole
    if effect.row.on_steps is not None:
        timed += f", composed from the {effect.row.comparison.timing} alone"
    if whole is not None and effect.above == whole.comparison.treatment:
        return f"{timed}, last in {whole.label}"
    if not effect.turned:
        return f"{timed}, on top of {shortened(effect.row.reference_name)}"
    return f"{timed}, on top of {shortened(effect.below.stack or 'baseline')}"


def shortened(stack: str) -> str:
    """A stack by its options, or by their number where they are many."""
    names = stack.split("+")
    return stack if len(names) <= _MOST_NAMES else f"{names[0]} and {len(names) - 1} others"


def _of_level(item: Item, about: WorkloadAdvice) -> Iterator[str]:
    """A word where the code, which is an example, shows another level than the one that was measured."""
    level, one = item.option.level, item.optimization
    if one is not None and level is not None and str(level) not in remedy(one, about.device):
        yield f"The code is an example; what was measured is {item.option}."


def _in_stack(item: Item, about: WorkloadAdvice) -> Iterator[str]:
    whole = about.whole
    if item.last is None or whole is None or item.effect.turned:
        return
    yield f"Beside all others of {whole.label} it brings {ratio(item.last)}."


def _meetings(item: Item, about: WorkloadAdvice) -> Iterator[str]:
    """Whether it simply multiplies with others, where that was seen not to be so."""
    for one in about.joint_effects:
        pair = [one.label, one.among]
        if str(item.option) in pair:
            pair.remove(str(item.option))
            yield f"With {pair[0]}: {one.kind}."


def _elsewhere(item: Item, about: WorkloadAdvice) -> Iterator[str]:
    """The same switch on larger stacks, but for what is told of it beside all others."""
    for one in item.elsewhere:
        if item.last is None or one.gain != item.last:
            yield f"{_place(one, about)}: {ratio(one.gain)}, {one.verdict}."


def costs(ours: Profile | None, theirs: Profile | None, *, shared: bool) -> Iterator[str]:
    """Memory of both arms and the time to the first step, which arms that share a warm process do not tell."""
    if ours is None or theirs is None:
        return
    kind, host = host_memory(ours, theirs)
    found = [] if ours.emulated else [_memory(kind, *host)]
    if ours.device_bytes is not None and theirs.device_bytes:
        found.append(_memory("device peak", ours.device_bytes, theirs.device_bytes))
    if found:
        yield f"Memory: {'; '.join(found)}."
    if not shared:
        yield f"First step after {duration(ours.first_step_s)}, without it {duration(theirs.first_step_s)}."


def _memory(where: str, ours: int | None, theirs: int | None) -> str:
    if ours is None or theirs is None:
        return f"{where} not measured, since arms shared a process"
    return f"{where} {size(ours)} instead of {size(theirs)} ({change(ours, theirs)})"


def starts(found: BreakEven | None) -> Iterator[str]:
    """What a start costs beyond the other arm's, and when that is paid back."""
    if found is None:
        return
    low, high = found.extra_s
    if high <= _NO_SLOWER_S:
        yield "It starts no more slowly."
        return
    extra = _from_to(duration(max(0.0, low)), duration(high))
    if found.steps is None:
        yield f"Its start takes {extra} longer, which nothing pays back."
        return
    if found.steps[1] is None or found.seconds is None:
        steps = f"{math.ceil(found.steps[0]):,}"
        yield f"Its start takes {extra} longer, paid back after {steps} steps at the earliest: its gain may be none."
        return
    if found.seconds < 1:
        yield f"Its start takes {extra} longer, which a second of training pays back."
        return
    steps = _from_to(f"{math.ceil(found.steps[0]):,}", f"{math.ceil(found.steps[1]):,}")
    yield f"Its start takes {extra} longer, paid back after {steps} steps: {duration(found.seconds)} of training."


def _from_to(low: str, high: str) -> str:
    return high if low == high else f"{low} to {high}"


def quality(found: Quality | None, numerics: Numerics | None) -> str:
    """What it promises of the losses, and what was seen of them."""
    seen = f"{found.status} ({found.sentence})" if found else "nothing was reported to judge it by"
    return f"Quality: it promises {NUMERICS[numerics]}; seen, {seen}." if numerics else f"Quality: seen, {seen}."


def _ties(one: Optimization) -> Iterator[str]:
    if one.requires:
        yield f"Requires {', '.join(one.requires)}."
    if one.excludes:
        yield f"Excludes {', '.join(one.excludes)}."


def notes(effect: Effect) -> tuple[str, ...]:
    """The notes of a row but for those on quality, which is told in full."""
    return tuple(f"Note: {one}." for one in effect.row.notes if not one.startswith("quality "))


def _warnings(item: Item, about: WorkloadAdvice) -> Iterator[str]:
    if item.rule.reason is Reason.SLOWER_LAST and item.last and about.whole:
        yield f"It is slower beside all others of {about.whole.label}, {ratio(item.last)}: leave it out there."
    elif item.recommendation is Recommendation.WITH_WARNING:
        yield from quality_warnings(item.effect.row.quality, item.optimization)
    calls = {str(one.option): one.recommendation for one in about.items}
    base = about.base.config.options if about.base else ()
    for below in (one for one in item.effect.below.options if one not in base and not item.effect.turned):
        call = calls.get(str(below))
        if call not in {Recommendation.SWITCH_ON, None}:
            yield f"It was measured on top of {below}, about which the advice is: {call}."


def quality_warnings(found: Quality | None, optimization: Optimization | None) -> Iterator[str]:
    """Why a faster stack is not simply recommended."""
    if optimization is not None and optimization.numerics is Numerics.DIFFERENT:
        yield "It is another training: train to the end and compare the score before you keep it."
    elif found is not None and found.status is Agreement.DIFFERS:
        yield "Its losses are not the reference's: train to the end and compare the score before you keep it."
    else:
        yield "Nothing shows that it learns alike: compare the score before you keep it."


# Points of advice about several options: ready-made stacks, and how options meet.

RULES = {
    Style.FASTEST: "The fastest measured stack in which nothing is known to change what is learned.",
    Style.REPRODUCIBLE: "Only what promises the same losses, bit for bit, and was seen to keep that.",
    Style.BALANCED: (
        f"A gain of {100 * (LEAST_GAIN - 1):.0f} % at least, quality judged alike, at most "
        f"{100 * (MOST_MEMORY - 1):.0f} % more memory, and a start that {LONGEST_PAYBACK_S / 60:.0f} minutes of "
        "training pay back."
    ),
}


def stack(made: ReadyMade, about: WorkloadAdvice, known: Mapping[str, Optimization]) -> Point:
    """One ready-made stack: its number where it has one, and what its rule would put together where nobody did."""
    best, earlier = made.best, about.ready_made[: list(Style).index(made.style)]
    twin = next((one for one in earlier if best and one.best and one.best.config == best.config), None)
    same = next((one for one in earlier if one.untried == made.untried), None) if made.untried else None
    # What measures it once more, where one comparison does and nobody has asked for it yet.
    again = best.rows[-1].comparison if best and len(best.rows) == 1 and not twin else None
    return Point(
        name=made.style.capitalize(),
        figure=ratio(best.gain) if best else "",
        verdict="faster" if best else "",
        main=(RULES[made.style], _told(best, twin, about), *_put_together(made, same)),
        sentences=tuple(_best(best, made.among, about, known)) if best and not twin else (),
        warnings=tuple(_stack_warnings(best)) if best else (),
        ask=None if same else made.untried or again,
        lead="This measures what the rule puts together:"
        if made.untried
        else "This measures it again, in fresh processes:",
    )


def _put_together(made: ReadyMade, same: ReadyMade | None) -> Iterator[str]:
    """What the rule makes of single options, where that was not measured."""
    if made.untried is None:
        return
    names = made.untried.label.replace("+", ", ")
    put = f"the same as for the {same.style} one" if same else names
    yield f"From what pays one by one the rule puts together {put}: not measured as a stack."


def _told(best: Candidate | None, twin: ReadyMade | None, about: WorkloadAdvice) -> str:
    """What the best measured stack is."""
    if best is None:
        return "No stack that was measured here keeps this rule and is surely faster."
    if twin is not None:
        return f"It is the same stack as the {twin.style} one."
    shown = ", ".join(map(str, added(best, about))) or "the reference without what it names"
    return f"It is {shown}." if shown == best.label else f"{best.label}: {shown}."


def _best(best: Candidate, among: int, about: WorkloadAdvice, known: Mapping[str, Optimization]) -> Iterator[str]:
    named = added(best, about)
    if len(best.rows) > 1:
        yield f"Over {about.base.name if about.base else 'the reference'} by way of {best.rows[0].label}."
    if among > 1:
        yield f"The best of {among} that keep the rule, so it looks a little better than it is."
    shared = any(row.estimate.shared for row in best.rows if row.estimate)
    yield from costs(best.profile, best.base_profile, shared=shared)
    yield from starts(best.break_even)
    # A stack promises no more than the option in it that promises least.
    promises = (known[one.name].numerics for one in named if one.name in known)
    yield quality(best.rows[-1].quality, max(promises, key=list(Numerics).index, default=None))


def added(best: Candidate, about: WorkloadAdvice) -> tuple[Option, ...]:
    """What a stack has beyond the base."""
    base = about.base.config.options if about.base else ()
    return tuple(one for one in best.config.options if one not in base)


def _stack_warnings(best: Candidate) -> Iterator[str]:
    """Of the first comparison on its way from the base that was not seen to learn alike."""
    row = next((row for row in best.rows if not learns_alike(row)), None)
    if row is not None:
        yield from quality_warnings(row.quality, None)


def unwritten(about: WorkloadAdvice, known: Mapping[str, Optimization]) -> tuple[Point, ...]:
    """The code of every option that a ready-made stack names."""
    names: dict[str, None] = {}
    for made in about.ready_made:
        options = added(made.best, about) if made.best else ()
        untried = made.untried.treatment.options if made.untried else ()
        names |= dict.fromkeys(str(one) for one in (*options, *untried))
    found = ((name, known.get(name.partition("=")[0])) for name in names)
    return tuple(
        Point(
            name=name,
            title=one.title,
            main=(f"Stage {one.stage}, numerics {one.numerics}.",),
            code=remedy(one, about.device),
        )
        for name, one in found
        if one is not None
    )


def meeting(one: JointEffect) -> Point:
    """How an option meets others, with the gap that shows it."""
    return Point(
        name=f"{one.label} and {one.among}",
        title=str(one.kind),
        figure=ratio(one.gap),
        main=(
            f"{one.label} brings {ratio(one.alone)} alone and {ratio(one.beside)} beside the rest.",
            _why(one),
        ),
    )


def _why(one: JointEffect) -> str:
    if one.kind is Kind.CONFLICT:
        return "Conflict: together they are slower than without it, so choose."
    if one.kind is Kind.SYNERGY:
        return "Synergy: they help each other, so switch them on together."
    if one.kind is Kind.REDUNDANT:
        return "Redundant: others of its stage do the same work, so one of them is enough."
    holder = f"the {stage(one.held_by or '')}"
    if one.gap.log > 0:
        return f"Masked: {holder} hides it until the others are on."
    return f"Masked: once the others are on, {holder} holds the stack back."


DOMINATES, MINOR = 1.5, 1.25  # times faster without a stage: where to begin, and where not to
IDLE = 0.5  # of the time, from which a device that waits for its host is worth a word


Points = tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """Points under one heading."""

    key: str
    title: str
    lead: str
    points: Points


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """The advice about one workload."""

    workload: str
    title: str
    leads: tuple[str, ...]
    warnings: tuple[str, ...]
    sections: tuple[Section, ...]
    skipped: tuple[tuple[str, str], ...]  # configurations, and the words that they share


def chapters(advice: Advice, known: Mapping[str, Optimization]) -> tuple[Chapter, ...]:
    """One for each workload of a run."""
    return tuple(_chapter(one, advice, known) for one in advice.workloads)


def _chapter(about: WorkloadAdvice, advice: Advice, known: Mapping[str, Optimization]) -> Chapter:
    found = tuple(one for one in _sections(about, known) if one.points)
    return Chapter(
        workload=about.workload,
        title=sentences.title(about.base) if about.base else f"{about.workload}: no ratio yet",
        leads=tuple(_leads(about)),
        warnings=tuple(_chapter_warnings(about)),
        sections=found,
        skipped=sentences.no_results(advice.run.matrix, about.workload),
    )


def without_advice(about: WorkloadAdvice) -> str | None:
    """Why nothing is advised about a workload without a ratio of a switch on whole steps or passes; None elsewhere."""
    if about.base is None:
        return "No comparison has a ratio yet, so that nothing can be advised; the reasons stand below."
    if about.base.timing not in WHOLE:
        return "No ratio of training was measured, only of its parts, so that nothing can be advised to switch on."
    if not about.items and about.whole is None and not about.looked_at:
        return "No comparison that has a ratio switches anything on or off, so that nothing can be advised."
    return None


def _leads(about: WorkloadAdvice) -> Iterator[str]:
    profile = about.base.profile if about.base else None
    if unadvised := without_advice(about):
        yield unadvised
    elif not about.recommended(Recommendation.SWITCH_ON, Recommendation.WITH_WARNING) and about.items:
        stacked = any(one.best for one in about.ready_made)
        yield f"No single option was surely faster here{'' if stacked else ', and no measured stack either'}."
    if about.base and profile and profile.bottleneck:
        yield sentences.cause(about.base.name, profile.bottleneck)
        yield _where_to_begin(profile.bottleneck)
    if profile and _waits(profile):
        spanned = share(profile.device_span or 0)
        yield f"From the first kernel of a step to its last passes {spanned} of the time: the host holds the device up."


def _where_to_begin(found: Bottleneck) -> str:
    """The stage that dominates, where one does."""
    elsewhere = max(1.0, min(found.loader_rate, found.compute_rate) / found.rate)
    if found.bound < DOMINATES:
        return "Neither stage dominates: no perfect fix of one of them gains much."
    if elsewhere > MINOR:
        return "Both stages cost much: it takes work on both."
    return f"Begin there ({sentences.bound(found)}): the other stage is worth {roughly(elsewhere)}."


def _waits(profile: Profile) -> bool:
    held = profile.bottleneck is not None and profile.bottleneck.stage == "compute"
    return held and profile.device_span is not None and profile.device_span < IDLE


def _chapter_warnings(about: WorkloadAdvice) -> Iterator[str]:
    if about.is_small:
        yield "Measured at size smoke, which shows that things run: its times are no advice."
    if about.parts:
        told = f"{len(about.parts)} ratios time the loader or the step alone"
        yield f"{told}: they tell what a part gains, and no more than that of training."


def _sections(about: WorkloadAdvice, known: Mapping[str, Optimization]) -> Iterator[Section]:
    """What is faster, the largest gain first; then stacks; then what is not switched on, and what is not known."""

    def told(point: Callable[..., Point], what: Recommendation, *, own: bool | None = None) -> Points:
        found = about.recommended(what)
        return tuple(point(one, about) for one in found if own is None or one.is_own_code is own)

    on, some = Recommendation.SWITCH_ON, any(one.best or one.untried for one in about.ready_made)
    made = tuple(stack(one, about, known) for one in about.ready_made) if some else ()
    open_ones = about.recommended(Recommendation.UNDECIDED)
    undecided = sorted(open_ones, key=lambda one: math.inf if one.replicates is None else one.replicates)
    own = "These are causes in the system's own code rather than settings of PyTorch. The largest gain first."
    warned = "Heed the warning before you switch these on."
    meet = "The figure is what an option brings beside others over what it brings alone."
    harmful = "Surely slower here, the most harmful last."
    same = "These change speed by less than 2 %; decide by what else they cost."
    open_ = "The intervals allow more than one verdict. The fewest replicates first."
    doubt = "The machine was too disturbed, or has shown that it misses effects of this size."
    yield Section("on", "Switch on", "The largest gain first.", told(full, on, own=False))
    yield Section("own", "Fix in your own code", own, told(full, on, own=True))
    yield Section("warning", "Faster, with a warning", warned, told(full, Recommendation.WITH_WARNING))
    yield Section("stacks", "Three ready-made stacks", _of_stacks(about), made)
    yield Section("together", "How options meet", meet, tuple(map(meeting, about.joint_effects)))
    yield Section("off", "Leave off", harmful, told(short, Recommendation.LEAVE_OFF))
    yield Section("same", "Makes no difference", same, told(short, Recommendation.NO_EFFECT))
    yield Section("undecided", "Undecided", open_, tuple(open_question(one, about) for one in undecided))
    withheld_ = tuple(withheld(one, about) for one in about.recommended(Recommendation.NO_ADVICE))
    yield Section("withheld", "No advice: verdict withheld", doubt, withheld_)
    yield Section("code", "The code of what these stacks switch on", "", unwritten(about, known))


def _of_stacks(about: WorkloadAdvice) -> str:
    base = about.base.name if about.base else "the reference"
    return f"Numbers against {base}, and only of stacks that were measured, one option or more: {about.looked_at} here."


# The whole advice as a document.

NO_COMMAND = "No command of this version asks for this alone."
RULE = "Ordered by gain; each figure is a ratio with its 95 % interval for its own configuration alone."
Commands = Mapping[Comparison, str]


def advice_parts(
    found: Sequence[Chapter], commands: Commands, heading: Sequence[tuple[str, str]] = ()
) -> Iterator[Part]:
    """All of an advice; `heading` are the facts that every number depends on."""
    yield from (Heading("What to do", 1), Text(RULE))
    if heading:
        yield Facts(tuple(heading))
    for chapter in found:
        yield Heading(chapter.title)
        yield from map(warning, chapter.warnings)
        yield from map(Text, chapter.leads)
        for section in chapter.sections:
            yield Heading(section.title, 3)
            if section.lead:
                yield Text(section.lead)
            yield Items(tuple(_point_item(one, commands) for one in section.points))
        if chapter.skipped:
            yield Heading("Not measured", 3)
            yield from tabled(("configuration", "why"), chapter.skipped)


def _point_item(point: Point, commands: Commands) -> document.Item:
    words = (
        Span(point.name, "bold"),
        *((Span(f" {point.figure}"),) if point.figure else ()),
        *((Span(f" {point.verdict}", COLOURS.get(point.verdict, "")),) if point.figure and point.verdict else ()),
        *((Span(f": {point.title}"),) if point.title else ()),
    )
    parts: list[Part] = [*map(warning, point.warnings), *map(Text, (*point.main, *point.sentences))]
    if point.code:
        parts.append(Code(point.code, "python"))
    if point.ask is not None:
        command = point.command or commands.get(point.ask)
        if told := point.lead if command else NO_COMMAND:
            parts.append(Text(told))
        if command:
            parts.append(Code(one_line(command)))
    return document.Item(words, tuple(parts))


# A summary for a pull request: what was switched on, what it gains and how to measure it again.

_TO_REPEAT = frozenset({"origin", "machine", "software", "environment", "protocol", "noise", "copies"})
_CHANGES = (
    Column(name="training", whole=True),
    Column(name="with"),
    Column(name="in place of"),
    Column(name="speedup, 95 %", whole=True),
    Column(name="memory", right=True, whole=True),
    Column(name="first losses", whole=True),
)


def pull_request_parts(advice: Advice, command: str, folder: str) -> Iterator[Part]:
    """The advised changes with their intervals, the options one by one, and how anybody measures the same again."""
    advised = [(about, about.foremost) for about in advice.workloads if about.foremost]
    yield Heading("Training speed")
    yield from tabled(_CHANGES, (_changed(advice, about, first) for about, first in advised))
    for about in advice.workloads:
        if not about.foremost:
            why = without_advice(about) or "Nothing that was measured is surely faster and learns alike."
            yield Text(f"{one_line(about.workload)}: {why}")
    singles = [
        (one_line(about.workload), str(item.option), gained(item), item.effect.verdict.value)
        for about, _ in advised
        for item in about.items
        if item.recommendation is not Recommendation.NO_ADVICE
    ]
    if singles:
        yield Heading("Options one by one", 3)
        yield from tabled(("training", "option", "speedup, 95 %", "verdict"), singles)
        if any(one[2].startswith(COMPOSED) for one in singles):
            yield Text(f"{COMPOSED}: composed from the ratio of the loader, or of the step, alone.")
    yield Heading("Measured", 3)
    yield Facts(tuple((name, words) for name, words in sentences.heading(advice.run.matrix) if name in _TO_REPEAT))
    yield Text("To measure the same again, and to pack the measurements so that somebody else can check them:")
    yield Code(f"./{one_line(command)}\n./speedmatrix bundle {one_line(folder)}")


def _changed(advice: Advice, about: WorkloadAdvice, first: Foremost) -> tuple[str, ...]:
    rows = (row for row in advice.run.matrix.rows if row.estimate)
    asked = first.reference, first.treatment
    row = next((one for one in rows if (one.comparison.reference, one.comparison.treatment) == asked), None)
    before = first.reference.stack or "baseline"
    names = one_line(about.workload), one_line(first.label), one_line(before)
    return *names, ratio(first.gain), *((sentences.grown(row), sentences.quality(row)) if row else (NOTHING, NOTHING))


# Advice as JSON: the same in numbers, under a schema number that rises when a name changes its meaning.

SCHEMA = 2


def advice_to_json(advice: Advice, commands: Mapping[Comparison, str]) -> str:
    """The advice as JSON; units are in the names, an endless bound is null."""
    environment = advice.run.environment
    found = {
        "schema": SCHEMA,
        "run": advice.run.name,
        "machine": environment.machine,
        "environment": environment.digest,
        "contributed": advice.run.contributed,
        "workloads": [_counsel_data(one, advice, commands) for one in advice.workloads],
    }
    return to_json(found)


def _counsel_data(about: WorkloadAdvice, advice: Advice, commands: Mapping[Comparison, str]) -> dict[str, Any]:
    base = about.base
    return {
        "workload": about.workload,
        "reference": str(base.config) if base else None,
        "reference_name": base.name if base else None,
        "bottleneck": base.profile.bottleneck if base and base.profile else None,
        "no_advice": without_advice(about),
        "items": [_item_data(one, commands, about.device) for one in about.items],
        "interplays": [_joint_effect_data(one) for one in about.joint_effects],
        "stacks": [_stack_data(one, commands) for one in about.ready_made],
        "measured_stacks": about.looked_at,
        "skipped": [
            {"subjects": labels, "why": why} for labels, why in sentences.no_results(advice.run.matrix, about.workload)
        ],
    }


def _item_data(item: Item, commands: Mapping[Comparison, str], device: str) -> dict[str, Any]:
    effect, optimization = item.effect, item.optimization
    ours, theirs = effect.with_it, effect.without_it
    kind, host = host_memory(ours, theirs) if ours and theirs else (None, None)
    return {
        "switch": str(item.option),
        "advice": item.recommendation,
        "own_code": item.is_own_code,
        "on_top_of": str(effect.below),
        "timing": effect.timing,
        "composed": item.is_composed,  # from the ratio of a part of the step, whose pairs and restarts these are
        "gain": _gain_data(effect.gain),
        "last": _gain_data(item.last),
        "verdict": effect.verdict,
        "pairs": effect.estimate.pairs,
        "restarts": effect.estimate.processes,
        "numerics": optimization.numerics if optimization else None,
        "quality": effect.row.quality,
        "host_memory": kind,
        "host_bytes": host,
        "device_bytes": [ours.device_bytes, theirs.device_bytes] if ours and theirs else None,
        "start_up": _start_data(item.break_even),
        "requires": optimization.requires if optimization else (),
        "excludes": tuple(optimization.excludes) if optimization else (),
        "snippet": remedy(optimization, device) if optimization else None,
        "restarts_to_decide": item.replicates,
        "command": _on_whole_steps(item, device) or commands.get(effect.row.comparison),
    }


def _gain_data(gain: Gain | None) -> dict[str, float] | None:
    return {"ratio": gain.ratio, "low": gain.low, "high": gain.high} if gain else None


def _start_data(found: BreakEven | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {"extra_s": found.extra_s, "break_even_steps": found.steps, "break_even_s": found.seconds}


def _joint_effect_data(one: JointEffect) -> dict[str, Any]:
    gains = {"alone": _gain_data(one.alone), "beside_others": _gain_data(one.beside), "gap": _gain_data(one.gap)}
    return {"subject": one.label, "among": one.among, "kind": one.kind, "held_by": one.held_by, **gains}


def _stack_data(made: ReadyMade, commands: Mapping[Comparison, str]) -> dict[str, Any]:
    untried = made.untried
    return {
        "style": made.style,
        "best_measured": _candidate_data(made.best),
        "among": made.among,
        "not_measured": {"stack": untried.label, "command": commands.get(untried)} if untried else None,
    }


def _candidate_data(one: Candidate | None) -> dict[str, Any] | None:
    if one is None:
        return None
    config = {
        "subject": one.label,
        "cell": str(one.config),
        "gain": _gain_data(one.gain),
        "learns_alike": one.learns_alike,
    }
    return {**config, "start_up": _start_data(one.break_even)}
