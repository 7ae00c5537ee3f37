"""Predicted: what the stage model says beyond the measured configurations, in words, before any format is chosen.

A predicted ratio is written with a sign that no measured one has, and with its own interval; it has no verdict.
"""

from collections.abc import Iterator

from harness.analyze.attribution import Gain
from harness.analyze.search.prediction import CrossCheck, Predicted, Prediction, UpperBound
from harness.analyze.search.shares import Decomposition, WorkloadPrediction
from harness.analyze.search.stage_model import Stack
from harness.report.document import Column, Heading, Part, Text, tabled
from harness.report.words import NOTHING, called, factor, one_line, ratio

TITLE = "Predicted, not measured"
HEADS = "stack that was not measured", "predicted, 90 %"
PARTS = "part", "alone, 95 %", "share by the model, 95 %", "last, 95 %"
CHECKS = "stack", "measured", "predicted, 90 %", "alone multiplied"


def outlook_parts(outlook: WorkloadPrediction) -> Iterator[Part]:
    """What was predicted and not measured, in italics where a measured ratio would be upright."""
    yield Heading(title(outlook))
    yield from map(Text, prediction_sentences(outlook))
    yield from tabled((HEADS[0], Column(name=HEADS[1], style="italic")), rows(outlook))
    if outlook.decomposition is not None:
        yield from decomposition_parts(outlook.decomposition, f"What {outlook.decomposition.label} is made of")
    if outlook.check is not None:
        yield Heading("Foretold and measured", 3)
        yield from map(Text, check_sentences(outlook.check))
        yield from tabled(CHECKS, check_rows(outlook))


def decomposition_parts(found: Decomposition, title: str) -> Iterator[Part]:
    """What each option of a measured stack brings."""
    yield from (Heading(title, 3), Text(part_sentence(found)))
    yield from tabled(PARTS, part_rows(found))


def title(outlook: WorkloadPrediction) -> str:
    """What a section is about: `Predicted, not measured: leak, size quick, batch 64, against the baseline`."""
    config = outlook.config
    return one_line(
        f"{TITLE}: {config.workload}, size {config.size}, batch {config.batch}, against {called(outlook.name)}"
    )


def prediction_sentences(outlook: WorkloadPrediction) -> Iterator[str]:
    """What must be known before a predicted number, or the words that stand in its place."""
    said = outlook.prediction
    if isinstance(said, str):
        yield f"Nothing is predicted: {one_line(said)}."
    else:
        yield _trust(said)
        yield from _left(said, outlook)
        yield from map(upper_bound, said.upper_bounds)


def _trust(said: Prediction) -> str:
    held = said.validation
    return (
        f"A stage model was fitted to the measured configurations. Without knowing {held.stacks} of them it predicted "
        f"their ratios with an error of {_percent(held.median_error)} in the median, {100 * held.inside:.0f} % inside "
        "their 90 % intervals. What it says of other stacks was not measured, and decides no verdict."
    )


def _left(said: Prediction, outlook: WorkloadPrediction) -> Iterator[str]:
    if said.unmeasured == 0:
        yield "Every possible stack of these options was measured: nothing is left to predict."
    elif outlook.best is not None:
        count = "too many to count" if said.unmeasured is None else f"{said.unmeasured:,}"
        label, found = outlook.best
        yield f"Stacks that were not measured: {count}. The fastest measured is {one_line(label)}: {ratio(found)}."


def upper_bound(found: UpperBound) -> str:
    """The most that each stage of a stack could still give, by the model, the largest first."""
    ordered = sorted(found.stages.items(), key=lambda one: -one[1])
    words = ", ".join(f"{stage} {factor(times)}x" for stage, times in ordered)
    return f"By the model, a stage that cost nothing would make {one_line(found.name)} faster by at most: {words}."


def rows(outlook: WorkloadPrediction) -> Iterator[tuple[str, str]]:
    """The fastest stacks that were not measured, each with what is predicted."""
    if not isinstance(outlook.prediction, str):
        for one in outlook.prediction.fastest:
            yield stack(one.arrangement.options, outlook), predicted(one)


def predicted(one: Predicted) -> str:
    """A predicted ratio, never to be taken for a measured one: `≈ 1.83x [1.71, 1.95]`."""
    return f"≈ {ratio(one)}"


def stack(found: Stack, outlook: WorkloadPrediction) -> str:
    """A stack by the shortest of its names: what it adds to the reference, or what it lacks of all together."""
    plain = [str(one) for one in found if one not in outlook.config.options]
    lacking = [str(one) for one in outlook.whole if one not in found]
    added = "+".join(plain) or outlook.name
    if outlook.decomposition is None or set(found) - set(outlook.whole) or len(lacking) >= len(plain):
        return one_line(added)
    return one_line(
        f"{outlook.decomposition.label} without {', '.join(lacking)}" if lacking else outlook.decomposition.label
    )


def part_rows(decomposition: Decomposition) -> Iterator[tuple[str, str, str, str]]:
    """What each option of a measured stack brings, in the three ways in which that can be said."""
    for one in decomposition.parts:
        yield one_line(str(one.option)), _gain(one.alone), _gain(one.share), _gain(one.last)


def part_sentence(decomposition: Decomposition) -> str:
    """What the three columns are, and what the shares multiply to."""
    known = [one.share.log for one in decomposition.parts if one.share is not None]
    said = (
        f"{one_line(decomposition.label)} gives {ratio(decomposition.total)} as measured. "
        "Alone is what an option adds to the "
        "reference, last what it adds to all the others"
    )
    if len(known) < len(decomposition.parts):
        return said + "; shares would be the model's, and there are none without it."
    product = Gain(log=sum(known), half_width=0.0).ratio
    return said + f"; its share is the mean over all orders, by the model. Shares multiply to {factor(product)}x."


def check_sentences(check: CrossCheck) -> Iterator[str]:
    """How well the configurations of a matrix foretell all other measured stacks."""
    others = len(check.configs)
    yield (
        f"Here the others were measured as well: the model, fitted to {check.fitted} of {check.fitted + others} "
        f"configurations (those of the design matrix), foretells the other {others} with an error of "
        f"{_percent(check.median_error)} in the median and {_percent(check.worst_error)} at worst; "
        f"{100 * check.inside:.0f} % lie inside their 90 % intervals."
    )
    if check.multiplied_error is not None:
        yield (
            "Multiplying what each option gives alone misses the same stacks by "
            f"{_percent(check.multiplied_error)} in the median."
        )


def check_rows(outlook: WorkloadPrediction) -> Iterator[tuple[str, str, str, str]]:
    """Each stack that the model did not know, as measured, as it foretold it, and as singles would have it."""
    for one in outlook.check.configs if outlook.check else ():
        product = NOTHING if one.multiplied is None else f"{factor(one.multiplied)}x"
        name = stack(one.predicted.arrangement.options, outlook)
        yield name, f"{factor(one.ratio)}x", predicted(one.predicted), product


def _gain(found: Gain | None) -> str:
    return NOTHING if found is None else ratio(found)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
