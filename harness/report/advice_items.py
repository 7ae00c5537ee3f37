"""Points of advice about single switches: the gain, what it costs and what speaks against it, in words."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from harness.analyze.advice import Call, Counsel, Item
from harness.analyze.deciding import MOST_RESTARTS
from harness.analyze.effect import Effect
from harness.analyze.profile import Profile, host_memory
from harness.analyze.quality import Agreement, Quality
from harness.analyze.remedy import remedy
from harness.analyze.start_up import BreakEven
from harness.core.cell import Comparison
from harness.core.optimization import Numerics, Optimization
from harness.report.sentences import TIMED, behind
from harness.report.words import duration, ratio, size

NUMERICS = {
    Numerics.EXACT: "the same losses, bit for bit",
    Numerics.CLOSE: "losses as near as those of another seed",
    Numerics.DIFFERENT: "a change of what is learned",
}
_NO_SLOWER_S = 0.05  # of a start, which nobody notices
_MOST_NAMES = 4  # of switches, told one by one


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
    lead: str = ""  # to that command


def full(item: Item, counsel: Counsel) -> Point:
    """Everything that there is to say of a switch that gains."""
    one = item.optimization
    return Point(
        name=str(item.switch),
        title=one.title if one else "",
        figure=ratio(item.effect.gain),
        verdict=item.effect.verdict,
        main=(*_price(item), *_of_level(item, counsel)),
        sentences=tuple(_of_gain(item, counsel)),
        warnings=tuple(_warnings(item, counsel)),
        code=remedy(one, counsel.device) if one else "",
    )


def short(item: Item, counsel: Counsel) -> Point:
    """The figure and what it rests on, for what is not switched on."""
    effect = item.effect
    return Point(
        name=str(item.switch),
        title=item.optimization.title if item.optimization else "",
        figure=ratio(effect.gain),
        verdict=effect.verdict,
        main=(_measured(effect, counsel), *_elsewhere(item, counsel), *notes(effect)),
    )


def open_question(item: Item) -> Point:
    """What would decide about an undecided switch."""
    return Point(
        name=str(item.switch),
        figure=ratio(item.effect.gain),
        verdict=item.effect.verdict,
        main=(_decided_by(item),),
        ask=item.effect.row.comparison,
    )


def withheld(item: Item) -> Point:
    """Why there is no advice from a row, and how to get some."""
    return Point(
        name=str(item.switch),
        figure=ratio(item.effect.gain),
        main=notes(item.effect),
        ask=item.effect.row.comparison,
        lead="On a quieter machine:",
    )


def _decided_by(item: Item) -> str:
    if item.restarts is None:
        return f"It lies too near to where two verdicts meet, or is known too badly: not even {MOST_RESTARTS} restarts."
    now = item.effect.estimate.processes
    return f"About {item.restarts} restarts instead of {now} would decide, if the estimate stays where it is."


def _price(item: Item) -> Iterator[str]:
    """Memory, start-up, quality and reproducibility in one line; the evidence tells them in full."""
    ours, theirs, quality = item.effect.with_it, item.effect.without_it, item.effect.row.quality
    found = []
    if ours is not None and theirs is not None:
        kind, host = host_memory(ours, theirs)
        found.append(f"{kind} {_change(*host)}")
        if ours.device_bytes is not None and theirs.device_bytes:
            found.append(f"device peak {_change(ours.device_bytes, theirs.device_bytes)}")
        if ours.joules and theirs.joules:
            found.append(f"energy a sample {_change(ours.joules, theirs.joules)}")
    if item.break_even is not None:
        later = max(0.0, item.break_even.extra_s[1])
        found.append(f"start +{duration(later)}" if later > _NO_SLOWER_S else "no slower start")
    found.append(f"quality {quality.status}" if quality else "quality not judged")
    if item.optimization is not None:
        found.append(f"numerics {item.optimization.numerics}")
    yield f"Costs: {', '.join(found)}."


def _of_gain(item: Item, counsel: Counsel) -> Iterator[str]:
    yield _measured(item.effect, counsel)
    yield from _in_stack(item, counsel)
    yield from _meetings(item, counsel)
    yield from _elsewhere(item, counsel)
    yield from costs(item.effect.with_it, item.effect.without_it)
    yield from starts(item.break_even)
    yield quality(item.effect.row.quality, item.optimization.numerics if item.optimization else None)
    if item.optimization:
        yield from _ties(item.optimization)
    yield from notes(item.effect)


def _measured(effect: Effect, counsel: Counsel) -> str:
    """What was timed, on top of what, and how much stands behind it."""
    instead = f", instead of {', '.join(map(str, effect.instead_of))}" if effect.instead_of else ""
    turned = "; measured as what its absence costs" if effect.turned else ""
    return f"{_place(effect, counsel)}{instead}: {behind(effect.estimate)}{turned}."


def _place(effect: Effect, counsel: Counsel) -> str:
    """What was timed and on top of what, long stacks by their names or their lengths."""
    timed, whole = f"On {TIMED[effect.timing]}", counsel.whole
    if whole is not None and effect.above == whole.comparison.treatment:
        return f"{timed}, last in {whole.subject}"
    if not effect.turned:
        return f"{timed}, on top of {shortened(effect.row.reference_name)}"
    return f"{timed}, on top of {shortened('+'.join(map(str, effect.below.switches)) or 'plain')}"


def shortened(stack: str) -> str:
    """A stack by its switches, or by their number where they are many."""
    names = stack.split("+")
    return stack if len(names) <= _MOST_NAMES else f"{names[0]} and {len(names) - 1} others"


def _of_level(item: Item, counsel: Counsel) -> Iterator[str]:
    """A word where the code, which is an example, shows another level than the one that was measured."""
    level, one = item.switch.level, item.optimization
    if one is not None and level is not None and str(level) not in remedy(one, counsel.device):
        yield f"The code is an example; what was measured is {item.switch}."


def _in_stack(item: Item, counsel: Counsel) -> Iterator[str]:
    whole = counsel.whole
    if item.last is None or whole is None or item.effect.turned:
        return
    yield f"Beside all others of {whole.subject} it brings {ratio(item.last)}."


def _meetings(item: Item, counsel: Counsel) -> Iterator[str]:
    """Whether it simply multiplies with others, where that was seen not to be so."""
    for one in counsel.interplays:
        pair = [one.subject, one.among]
        if str(item.switch) in pair:
            pair.remove(str(item.switch))
            yield f"With {pair[0]}: {one.kind}."


def _elsewhere(item: Item, counsel: Counsel) -> Iterator[str]:
    """The same switch on larger stacks, but for what is told of it beside all others."""
    for one in item.elsewhere:
        if item.last is None or one.gain != item.last:
            yield f"{_place(one, counsel)}: {ratio(one.gain)}, {one.verdict}."


def costs(ours: Profile | None, theirs: Profile | None) -> Iterator[str]:
    """Memory of both arms and the time to the first step."""
    if ours is None or theirs is None:
        return
    kind, host = host_memory(ours, theirs)
    found = [_memory(kind, *host)]
    if ours.device_bytes is not None and theirs.device_bytes:
        found.append(_memory("device peak", ours.device_bytes, theirs.device_bytes))
    yield f"Memory: {'; '.join(found)}."
    yield f"First step after {duration(ours.first_step_s)}, without it {duration(theirs.first_step_s)}."


def _memory(where: str, ours: int, theirs: int) -> str:
    return f"{where} {size(ours)} instead of {size(theirs)} ({_change(ours, theirs)})"


def _change(ours: float, theirs: float) -> str:
    """In whole percent: `+20 %`, `±0 %`."""
    percent = round(100 * (ours / theirs - 1))
    return f"{percent:+d} %" if percent else "±0 %"


def starts(found: BreakEven | None) -> Iterator[str]:
    """What a start costs beyond the other arm's, and when that is paid back."""
    if found is None:
        return
    low, high = found.extra_s
    if high <= _NO_SLOWER_S:
        yield "It starts no more slowly."
        return
    extra = _from_to(duration(max(0.0, low)), duration(high))
    if found.steps is None or found.seconds is None:
        yield f"Its start takes {extra} longer, which nothing pays back."
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


def _warnings(item: Item, counsel: Counsel) -> Iterator[str]:
    if item.call is Call.WITH_WARNING:
        yield from quality_warnings(item.effect.row.quality, item.optimization)
    calls = {str(one.switch): one.call for one in counsel.items}
    base = counsel.base.cell.switches if counsel.base else ()
    for below in (one for one in item.effect.below.switches if one not in base and not item.effect.turned):
        call = calls.get(str(below))
        if call not in {Call.SWITCH_ON, None}:
            yield f"It was measured on top of {below}, about which the advice is: {call}."


def quality_warnings(found: Quality | None, optimization: Optimization | None) -> Iterator[str]:
    """Why a faster stack is not simply recommended."""
    if optimization is not None and optimization.numerics is Numerics.DIFFERENT:
        yield "It changes what is learned: train to the end and compare the score before you keep it."
    elif found is not None and found.status is Agreement.DIFFERS:
        yield "Its losses are not the reference's: train to the end and compare the score before you keep it."
    else:
        yield "Nothing shows that it learns alike: compare the score before you keep it."
