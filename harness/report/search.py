"""Winners in words: the stack, its own number, how sure that is, what each part brings and how to have it again."""

from collections.abc import Iterator
from typing import Any

from harness.analyze.estimate import Estimate
from harness.analyze.search.winner import Certainty, Winner
from harness.analyze.soundness import Absence
from harness.report import prediction as predicted
from harness.report.document import Code, Part, Text, to_json
from harness.report.matrix import decomposition
from harness.report.words import called, factor, one_line, ratio

SCHEMA = 1


def shown(found: Winner) -> Iterator[Part]:
    """What is printed of a winner."""
    yield Text(headline(found), style="bold")
    yield from map(Text, winner_sentences(found))
    if found.decomposition is not None:
        yield from predicted.decomposition_parts(found.decomposition, "What each part brings")
    if found.command:
        yield from (Text("To measure it again:"), Code(found.command))
    yield Text("Kept in " + ", ".join(found.runs) + f". Next: ./speedmatrix report {found.runs[0]}")


def headline(found: Winner) -> str:
    """The stack and its own number: `leak: A+B=2 trains 1.83x [1.79, 1.88] as fast as the baseline`."""
    where = f"{found.reference.workload}, size {found.reference.size}, batch {found.reference.batch}"
    if not found.stack:
        return one_line(f"{where}: no stack was measured that is faster than {called(found.name)}.")
    stack = "+".join(map(str, found.stack))
    if isinstance(found.result, Estimate):
        return one_line(
            f"{where}: {stack} trains {ratio(found.result)} as fast as {found.name} ({found.result.verdict})."
        )
    return one_line(f"{where}: {stack} was the fastest in the search, and has no number of its own yet.")


def winner_sentences(found: Winner) -> Iterator[str]:
    """How the number came about, and how sure it is that nothing is faster."""
    if isinstance(found.result, Estimate) and found.sought is not None:
        yield (
            f"The number and its 95 % interval come from {found.result.processes} fresh replicates of both, made after "
            f"the stack had been picked. In the search it was {factor(found.sought)}x, which is too good on average: "
            "it was picked for that."
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
    if isinstance(certainty.model, str):
        yield f"No prediction says what the other stacks would give: {one_line(certainty.model)}."
    else:
        yield (
            f"The model behind it foretold {certainty.model.stacks} stacks that it did not know with an error of "
            f"{100 * certainty.model.median_error:.1f} % in the median."
        )
    if certainty.gain is not None:
        word = "faster" if certainty.gain > 0 else "slower"
        yield (
            f"The best stack that was not measured is predicted to be {abs(100 * certainty.gain):.1f} % {word} than "
            "the best measured one."
        )
    if certainty.gain is not None and not certainty.ranked:
        yield "Not all stacks were ranked: only those on the way down from good ones."
    for words in certainty.left_out:
        yield f"Left out: {one_line(words)}."


def winner_to_json(found: Winner) -> str:
    """The winner as JSON; ratios are null where there is none."""
    certainty, result = found.certainty, found.result
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "reference": str(found.reference),
        "stack": [str(one) for one in found.stack],
        "estimate": result if isinstance(result, Estimate) else None,
        "absence": result if isinstance(result, Absence) else None,
        "ratio_in_the_search": found.sought,
        "anatomy": decomposition(found.decomposition) if found.decomposition else None,
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
