"""Predictions: what the stage model says beyond the measured configurations, and the winner of a search, in words.

A predicted ratio is written with a sign that no measured one has, and with its own interval; it has no verdict.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from harness.analyze.attribution import Gain
from harness.analyze.estimate import Estimate
from harness.analyze.search.prediction import Predicted, Prediction
from harness.analyze.search.shares import Decomposition, WorkloadPrediction
from harness.analyze.search.stage_model import Stack
from harness.analyze.search.winner import Certainty, Winner
from harness.analyze.soundness import Absence
from harness.core.optimization import Stage
from harness.report.document import Code, Column, Heading, Part, Text, plain, tabled, to_json
from harness.report.words import called, factor, one_line, ratio

TITLE = "Predicted, not measured"
HEADS = "stack that was not measured", "predicted, 90 %"
PARTS = "part", "alone, 95 %", "share by the model, 95 %", "last, 95 %"


def prediction_parts(about: WorkloadPrediction) -> Iterator[Part]:
    """What was predicted and not measured, in italics where a measured ratio would be upright."""
    yield Heading(title(about))
    yield from map(Text, prediction_sentences(about))
    yield from tabled((HEADS[0], Column(name=HEADS[1], style="italic")), rows(about))
    if about.decomposition is not None:
        yield from decomposition_parts(about.decomposition, f"What {about.decomposition.label} is made of")


def decomposition_parts(found: Decomposition, title: str) -> Iterator[Part]:
    """What each option of a measured stack brings."""
    yield from (Heading(title, 3), Text(part_sentence(found)))
    yield from tabled(PARTS, part_rows(found))


def title(about: WorkloadPrediction) -> str:
    """What a section is about: `Predicted, not measured: leak, size quick, batch 64, against the baseline`."""
    config = about.config
    return one_line(
        f"{TITLE}: {config.workload}, size {config.size}, batch {config.batch}, against {called(about.name)}"
    )


def prediction_sentences(about: WorkloadPrediction) -> Iterator[str]:
    """What must be known before a predicted number, or the words that stand in its place."""
    said = about.prediction
    if isinstance(said, str):
        yield f"Nothing is predicted: {one_line(said)}."
    else:
        yield _trust(said)
        yield from _left(said, about)
        yield from map(upper_bound, said.upper_bounds.items())


def _trust(said: Prediction) -> str:
    held = said.validation
    return (
        f"A stage model was fitted to the measured configurations. Without knowing {held.stacks} of them it predicted "
        f"their ratios with an error of {100 * held.median_error:.1f} % in the median, "
        f"{100 * held.inside:.0f} % inside their 90 % intervals. What it says of other stacks was not measured, and "
        "decides no verdict."
    )


def _left(said: Prediction, about: WorkloadPrediction) -> Iterator[str]:
    if said.unmeasured == 0:
        yield "Every possible stack of these options was measured: nothing is left to predict."
    else:
        count = "too many to count" if said.unmeasured is None else f"{said.unmeasured:,}"
        fastest = "None that was measured is surely faster and learns alike."
        if about.best is not None:
            label, found = about.best
            fastest = f"Of those measured that learn alike, {one_line(label)} is surely faster by most: {ratio(found)}."
        yield f"Stacks that were not measured: {count}. {fastest}"


def upper_bound(found: tuple[str, Mapping[Stage, float]]) -> str:
    """The most that each stage of a stack could still give, by the model, the largest first."""
    name, stages = found
    ordered = sorted(stages.items(), key=lambda one: -one[1])
    words = ", ".join(f"{stage} {factor(times)}x" for stage, times in ordered)
    return f"By the model, a stage that cost nothing would make {one_line(name)} faster by about: {words}."


def rows(about: WorkloadPrediction) -> Iterator[tuple[str, str]]:
    """The fastest stacks that were not measured, each with what is predicted."""
    if not isinstance(about.prediction, str):
        for one in about.prediction.fastest:
            yield stack(one.arrangement.options, about), predicted(one)


def predicted(one: Predicted) -> str:
    """A predicted ratio, never to be taken for a measured one: `≈ 1.83x [1.71, 1.95]`."""
    return f"≈ {ratio(one)}"


def stack(found: Stack, about: WorkloadPrediction) -> str:
    """A stack by the shortest of its names: what it adds to the reference, or what it lacks of all together."""
    plain = [str(one) for one in found if one not in about.config.options]
    lacking = [str(one) for one in about.whole if one not in found]
    added = "+".join(plain) or about.name
    if about.decomposition is None or set(found) - set(about.whole) or len(lacking) >= len(plain):
        return one_line(added)
    return one_line(
        f"{about.decomposition.label} without {', '.join(lacking)}" if lacking else about.decomposition.label
    )


def part_rows(decomposition: Decomposition) -> Iterator[tuple[str, str, str, str]]:
    """What each option of a measured stack brings, in the three ways in which that can be said."""
    for one in decomposition.parts:
        yield one_line(str(one.option)), ratio(one.alone), ratio(one.share), ratio(one.last)


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


# Both as JSON, and the winner of a search: the stack, its own number, how sure that is, what each part brings.


def prediction_data(about: WorkloadPrediction) -> dict[str, Any]:
    """What was predicted and not measured; `refused` says why there is nothing."""
    said = about.prediction
    return {
        "reference": {**plain(about.config), "name": str(about.config)},
        "refused": said if isinstance(said, str) else None,
        "foretold": None if isinstance(said, str) else said.validation,
        "unmeasured_stacks": None if isinstance(said, str) else said.unmeasured,
        "stacks": [] if isinstance(said, str) else [_stack_data(one) for one in said.fastest],
        "ceilings": {} if isinstance(said, str) else said.upper_bounds,
        "anatomy": decomposition_data(about.decomposition) if about.decomposition else None,
    }


def _stack_data(one: Predicted) -> dict[str, Any]:
    options = [str(option) for option in one.arrangement.options]
    return {"switches": options, "predicted_ratio": one.ratio, "low_90": one.low, "high_90": one.high}


def decomposition_data(found: Decomposition) -> dict[str, Any]:
    """A stack in parts; every ratio with its 95 % interval."""
    parts = []
    for one in found.parts:
        gains = {name: _gain_data(getattr(one, name)) for name in ("alone", "share", "last")}
        parts.append({"switch": str(one.option), **gains})
    return {"subject": found.label, "total": _gain_data(found.total), "parts": parts}


def _gain_data(found: Gain | None) -> dict[str, float] | None:
    return None if found is None else {"ratio": found.ratio, "low_95": found.low, "high_95": found.high}


SCHEMA = 1


def winner_parts(found: Winner) -> Iterator[Part]:
    """What is printed of a winner."""
    yield Text(headline(found), style="bold")
    yield from map(Text, winner_sentences(found))
    if found.decomposition is not None:
        yield from decomposition_parts(found.decomposition, "What each part brings")
    if found.command:
        yield from (Text("To measure it again:"), Code(found.command))
    yield Text("Kept in " + ", ".join(found.runs) + f". Next: ./speedmatrix report {found.runs[-1]}")


def headline(found: Winner) -> str:
    """The stack and its own number: `leak: A+B=2 trains 1.83x [1.79, 1.88] as fast as the baseline`."""
    where = f"{found.reference.workload}, size {found.reference.size}, batch {found.reference.batch}"
    if not found.stack:
        return one_line(f"{where}: no stack was measured that is faster than {called(found.name)}.")
    stack = "+".join(map(str, found.stack))
    if isinstance(found.result, Estimate):
        fast = f"{where}: {stack} trains {ratio(found.result)} as fast as {found.name} ({found.result.verdict})"
        return one_line(f"{fast}, but do not use it: {found.spoilt}." if found.spoilt else f"{fast}.")
    return one_line(f"{where}: {stack} was the fastest in the search, and has no number of its own yet.")


def winner_sentences(found: Winner) -> Iterator[str]:
    """How the number came about, and how sure it is that nothing is faster."""
    if isinstance(found.result, Estimate) and found.sought is not None:
        picked = "made after the stack had been picked"
        if found.chosen_afresh:
            picked = (
                "which also decided whether what gains next to nothing stays in the stack; that makes the number about "
                "1 % too high on average"
            )
        yield (
            f"The number and its 95 % interval come from {found.result.processes} fresh replicates of both, {picked}. "
            f"In the search the fastest had {factor(found.sought)}x, which is too good on average: it was picked for "
            "that."
        )
    if found.idle and found.unusable:
        yield f"Left out: {', '.join(map(str, found.idle))}. The stack with them cannot be used: {found.unusable}."
    elif found.idle:
        idle = ", ".join(map(str, found.idle))
        yield (
            f"Left out, since nothing shows that they gain more than 1 % in it: {idle}. With them the stack was the "
            f"fastest of the search; it is {ratio(found.idle_gain)} as fast with them as without, in the same fresh "
            "replicates."
        )
    if isinstance(found.result, Absence):
        yield f"Its fresh replicates gave no ratio: {one_line(found.result.words)}."
    yield from _sure(found.certainty)
    if found.unfinished:
        yield "Something is left to measure: give the same command again, and it goes on where it stopped."


def _sure(certainty: Certainty) -> Iterator[str]:
    rounds = f"{certainty.rounds} round{'s' if certainty.rounds != 1 else ''} of proposals"
    yield (
        f"{certainty.measured} of {certainty.stacks:,} stacks at most were measured, {rounds}. "
        f"The search ended: {one_line(certainty.ended)}."
    )
    if certainty.measured < certainty.stacks:
        yield from _of_others(certainty)
    for words in certainty.left_out:
        yield f"Left out: {one_line(words)}."


def _of_others(certainty: Certainty) -> Iterator[str]:
    """What is foretold of stacks that were not measured."""
    if isinstance(certainty.model, str):
        yield f"No prediction says what the other stacks would give: {one_line(certainty.model)}."
    else:
        yield (
            f"The model behind it predicted {certainty.model.stacks} stacks that it did not know with an error of "
            f"{100 * certainty.model.median_error:.1f} % in the median."
        )
    if certainty.gain is not None:
        word = "faster" if certainty.gain > 0 else "slower"
        yield (
            f"The best stack that was not measured is predicted to be about {abs(100 * certainty.gain):.1f} % {word} "
            "than the best measured one, with that error."
        )
    if certainty.gain is not None and not certainty.ranked:
        yield "Not all stacks were ranked: only those on the way down from good ones."


def winner_to_json(found: Winner) -> str:
    """The winner as JSON; ratios are null where there is none."""
    certainty, result = found.certainty, found.result
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "reference": str(found.reference),
        "stack": [str(one) for one in found.stack],
        "estimate": result if isinstance(result, Estimate) else None,
        "absence": result if isinstance(result, Absence) else None,
        "spoilt_losses": found.spoilt or None,
        "without_gain": [str(one) for one in found.idle],
        "ratio_with_them": _gain_data(found.idle_gain),
        "ratio_in_the_search": found.sought,
        "anatomy": decomposition_data(found.decomposition) if found.decomposition else None,
        "ended": certainty.ended,
        "model_refused": certainty.model if isinstance(certainty.model, str) else None,
        "foretold": None if isinstance(certainty.model, str) else certainty.model,
        "rounds": certainty.rounds,
        "stacks_measured": certainty.measured,
        "stacks_at_most": certainty.stacks,
        "all_ranked": certainty.ranked,
        "predicted_gain_left": certainty.gain,
        "left_out": certainty.left_out,
        "runs": found.runs,
        "unfinished": found.unfinished,
        "command": found.command or None,
    }
    return to_json(document)
