"""Points of advice about several switches: ready-made stacks, and how switches meet."""

from collections.abc import Iterable, Iterator, Mapping

from harness.analyze.advice import Counsel
from harness.analyze.effect import learns_alike
from harness.analyze.interplay import Interplay, Kind
from harness.analyze.ready_made import (
    LEAST_GAIN,
    LONGEST_PAYBACK_S,
    MOST_MEMORY,
    Candidate,
    ReadyMade,
    Style,
)
from harness.analyze.remedy import remedy
from harness.core.cell import Comparison, Switch
from harness.core.optimization import Numerics, Optimization
from harness.report.advice_items import Point, costs, quality, quality_warnings, starts
from harness.report.words import ratio

RULES = {
    Style.FASTEST: "The fastest measured stack in which nothing is known to change what is learned.",
    Style.REPRODUCIBLE: "Only what promises the same losses, bit for bit, and was seen to keep that.",
    Style.BALANCED: (
        f"A gain of {100 * (LEAST_GAIN - 1):.0f} % at least, quality judged alike, at most "
        f"{100 * (MOST_MEMORY - 1):.0f} % more memory, and a start that {LONGEST_PAYBACK_S / 60:.0f} minutes of "
        "training pay back."
    ),
}
_STAGES = {"input": "the input", "compute": "the training step"}


def stack(made: ReadyMade, counsel: Counsel, known: Mapping[str, Optimization]) -> Point:
    """One ready-made stack: its number where it has one, and what its rule would put together where nobody did."""
    best, earlier = made.best, counsel.ready_made[: list(Style).index(made.style)]
    twin = next((one for one in earlier if best and one.best and one.best.cell == best.cell), None)
    same = next((one for one in earlier if one.untried == made.untried), None) if made.untried else None
    return Point(
        name=made.style.capitalize(),
        figure=ratio(best.gain) if best else "",
        verdict="faster" if best else "",
        main=(RULES[made.style], _told(best, twin, counsel), *_put_together(made, same)),
        sentences=tuple(_best(best, made.among, counsel, known)) if best and not twin else (),
        warnings=tuple(_warnings(best)) if best else (),
        ask=None if same else made.untried or _again(best, twin),
        lead="This measures what the rule puts together:"
        if made.untried
        else "This measures it again, in fresh processes:",
    )


def _again(best: Candidate | None, twin: ReadyMade | None) -> Comparison | None:
    """What measures a stack once more, where one comparison does and nobody has asked for it yet."""
    return best.rows[-1].comparison if best and len(best.rows) == 1 and not twin else None


def _put_together(made: ReadyMade, same: ReadyMade | None) -> Iterator[str]:
    """What the rule makes of single switches, where that was not measured."""
    if made.untried is None:
        return
    names = made.untried.subject.replace("+", ", ")
    put = f"the same as for the {same.style} one" if same else names
    yield f"From what pays one by one the rule puts together {put}: not measured as a stack."


def _told(best: Candidate | None, twin: ReadyMade | None, counsel: Counsel) -> str:
    """What the best measured stack is."""
    if best is None:
        return "No stack that was measured here keeps this rule and is surely faster."
    if twin is not None:
        return f"It is the same stack as the {twin.style} one."
    shown = ", ".join(map(str, added(best, counsel))) or "the reference without what it names"
    return f"It is {shown}." if shown == best.subject else f"{best.subject}: {shown}."


def _best(best: Candidate, among: int, counsel: Counsel, known: Mapping[str, Optimization]) -> Iterator[str]:
    named = added(best, counsel)
    if len(best.rows) > 1:
        yield f"Over {counsel.base.name if counsel.base else 'the reference'} by way of {best.rows[0].subject}."
    if among > 1:
        yield f"The best of {among} that keep the rule, so it looks a little better than it is."
    yield from costs(best.profile, best.base_profile)
    yield from starts(best.break_even)
    yield quality(best.rows[-1].quality, loosest(known[one.name].numerics for one in named if one.name in known))


def loosest(found: Iterable[Numerics]) -> Numerics | None:
    """What a stack promises: no more than the switch in it that promises least."""
    order = list(Numerics)
    return max(found, key=order.index, default=None)


def added(best: Candidate, counsel: Counsel) -> tuple[Switch, ...]:
    """What a stack has beyond the base."""
    base = counsel.base.cell.switches if counsel.base else ()
    return tuple(one for one in best.cell.switches if one not in base)


def _warnings(best: Candidate) -> Iterator[str]:
    """Of the first comparison on its way from the base that was not seen to learn alike."""
    row = next((row for row in best.rows if not learns_alike(row)), None)
    if row is not None:
        yield from quality_warnings(row.quality, None)


def unwritten(counsel: Counsel, known: Mapping[str, Optimization]) -> tuple[Point, ...]:
    """The code of every switch that a ready-made stack names."""
    names: dict[str, None] = {}
    for made in counsel.ready_made:
        switches = added(made.best, counsel) if made.best else ()
        untried = made.untried.treatment.switches if made.untried else ()
        names |= dict.fromkeys(str(one) for one in (*switches, *untried))
    found = ((name, known.get(name.partition("=")[0])) for name in names)
    return tuple(
        Point(name=name, title=one.title, main=(_sort_of(one),), code=remedy(one, counsel.device))
        for name, one in found
        if one is not None
    )


def _sort_of(one: Optimization) -> str:
    exact = {Numerics.EXACT: "exact", Numerics.CLOSE: "close", Numerics.DIFFERENT: "different"}[one.numerics]
    return f"Stage {one.stage}, numerics {exact}."


def meeting(one: Interplay) -> Point:
    """How a switch meets others, with the gap that shows it."""
    return Point(
        name=f"{one.subject} and {one.among}",
        title=str(one.kind),
        figure=ratio(one.gap),
        main=(
            f"{one.subject} brings {ratio(one.alone)} alone and {ratio(one.beside)} beside the rest.",
            _why(one),
        ),
    )


def _why(one: Interplay) -> str:
    if one.kind is Kind.CONFLICT:
        return "Conflict: together they are slower than without it, so choose."
    if one.kind is Kind.SYNERGY:
        return "Synergy: they help each other, so switch them on together."
    if one.kind is Kind.REDUNDANT:
        return "Redundant: others of its stage do the same work, so one of them is enough."
    stage = _STAGES.get(one.held_by or "", f"stage {one.held_by}")
    if one.gap.log > 0:
        return f"Masked: {stage} hides it until the others are on."
    return f"Masked: once the others are on, {stage} holds the stack back."
