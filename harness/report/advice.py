"""The page of advice: sections of points for each workload, in the order in which one acts on them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from harness.analyze.advice import Advice, Call, Counsel, Item
from harness.analyze.bottleneck import Bottleneck
from harness.analyze.effect import WHOLE
from harness.analyze.profile import Profile
from harness.core.optimization import Optimization
from harness.report import sentences
from harness.report.advice_items import Point, full, open_question, short, withheld
from harness.report.advice_stacks import meeting, stack, unwritten
from harness.report.words import factor, share

DOMINATES, MINOR = 1.5, 1.25  # times faster without a stage: where to begin, and where not to
IDLE = 0.5  # of the time, from which a device that waits for its host is worth a word


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Points under one heading."""

    key: str
    title: str
    lead: str = ""
    points: tuple[Point, ...] = ()
    is_appendix: bool = False  # left out on the terminal


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """The advice about one workload."""

    workload: str
    title: str
    leads: tuple[str, ...]
    warnings: tuple[str, ...]
    sections: tuple[Section, ...]
    skipped: tuple[tuple[str, str], ...]  # subjects, and the words that they share


def chapters(advice: Advice, known: Mapping[str, Optimization]) -> tuple[Chapter, ...]:
    """One for each workload of a run."""
    return tuple(_chapter(one, advice, known) for one in advice.counsels)


def _chapter(counsel: Counsel, advice: Advice, known: Mapping[str, Optimization]) -> Chapter:
    found = tuple(one for one in _sections(counsel, known) if one.points)
    return Chapter(
        workload=counsel.workload,
        title=sentences.title(counsel.base) if counsel.base else f"{counsel.workload}: no ratio yet",
        leads=tuple(_leads(counsel)),
        warnings=tuple(_warnings(counsel)),
        sections=found,
        skipped=sentences.holes(advice.kept.matrix, counsel.workload),
    )


def without_advice(counsel: Counsel) -> str | None:
    """Why nothing is advised about a workload without a ratio of a switch on whole steps or passes; None elsewhere."""
    if counsel.base is None:
        return "No comparison has a ratio yet, so that nothing can be advised; the reasons stand below."
    if counsel.base.timing not in WHOLE:
        return "No ratio of training was measured, only of its parts, so that nothing can be advised to switch on."
    if not counsel.items and counsel.whole is None and not counsel.looked_at:
        return "No comparison that has a ratio switches anything on or off, so that nothing can be advised."
    return None


def _leads(counsel: Counsel) -> Iterator[str]:
    profile = counsel.base.profile if counsel.base else None
    if unadvised := without_advice(counsel):
        yield unadvised
    elif not counsel.called(Call.SWITCH_ON, Call.WITH_WARNING) and counsel.items:
        stacked = any(one.best for one in counsel.ready_made)
        yield f"No single switch was surely faster here{'' if stacked else ', and no measured stack either'}."
    if counsel.base and profile and profile.bottleneck:
        yield sentences.cause(counsel.base.name, profile.bottleneck)
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
    return f"Begin there ({sentences.bound(found)}): what acts on the other stage gains {factor(elsewhere)}x at most."


def _waits(profile: Profile) -> bool:
    held = profile.bottleneck is not None and profile.bottleneck.stage == "compute"
    return held and profile.device_span is not None and profile.device_span < IDLE


def _warnings(counsel: Counsel) -> Iterator[str]:
    if counsel.is_small:
        yield "Measured at size smoke, which shows that things run: its times are no advice."
    if counsel.parts:
        told = f"{len(counsel.parts)} ratios time the loader or the step alone"
        yield f"{told}: they tell what a part gains, and no more than that of training."


def _sections(counsel: Counsel, known: Mapping[str, Optimization]) -> Iterator[Section]:
    yield from _gains(counsel)
    some = any(one.best or one.untried for one in counsel.ready_made)
    made = tuple(stack(one, counsel, known) for one in counsel.ready_made) if some else ()
    yield Section(key="stacks", title="Three ready-made stacks", lead=_of_stacks(counsel), points=made)
    yield Section(
        key="together",
        title="How switches meet",
        lead="The figure is what a switch brings beside others over what it brings alone.",
        points=tuple(map(meeting, counsel.interplays)),
    )
    yield from _rest(counsel)
    yield Section(
        key="code",
        title="The code of what these stacks switch on",
        points=unwritten(counsel, known),
        is_appendix=True,
    )


def _gains(counsel: Counsel) -> Iterator[Section]:
    """What is faster, the largest gain first."""
    switches = tuple(one for one in counsel.called(Call.SWITCH_ON) if not one.is_own_code)
    own = tuple(one for one in counsel.called(Call.SWITCH_ON) if one.is_own_code)
    yield Section(
        key="on",
        title="Switch on",
        lead="The largest gain first.",
        points=tuple(full(one, counsel) for one in switches),
    )
    yield Section(
        key="own",
        title="Fix in your own code",
        lead="These are causes in the system's own code rather than settings of PyTorch. The largest gain first.",
        points=tuple(full(one, counsel) for one in own),
    )
    yield Section(
        key="warning",
        title="Faster, with a warning",
        lead="Not recommended before its score was compared.",
        points=tuple(full(one, counsel) for one in counsel.called(Call.WITH_WARNING)),
    )


def _rest(counsel: Counsel) -> Iterator[Section]:
    """What is not switched on, and what is not known."""
    yield Section(
        key="off",
        title="Leave off",
        lead="Surely slower here, the most harmful last.",
        points=tuple(short(one, counsel) for one in counsel.called(Call.LEAVE_OFF)),
    )
    yield Section(
        key="same",
        title="Makes no difference",
        lead="Within 2 % of nothing; decide by what else it costs.",
        points=tuple(short(one, counsel) for one in counsel.called(Call.NO_EFFECT)),
    )
    yield Section(
        key="undecided",
        title="Undecided",
        lead="The intervals allow more than one verdict. The fewest restarts first.",
        points=tuple(map(open_question, sorted(counsel.called(Call.UNDECIDED), key=_restarts))),
    )
    yield Section(
        key="withheld",
        title="No advice: verdict withheld",
        lead="The machine was too disturbed, or has shown that it misses effects of this size.",
        points=tuple(map(withheld, counsel.called(Call.NO_ADVICE))),
    )


def _restarts(item: Item) -> float:
    return float("inf") if item.restarts is None else item.restarts


def _of_stacks(counsel: Counsel) -> str:
    base = counsel.base.name if counsel.base else "the reference"
    return (
        f"Numbers against {base}, and only of stacks that were measured, one switch or more: {counsel.looked_at} here."
    )
