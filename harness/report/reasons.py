"""Reasons: sentences on what lies beside a difference, and on what cannot be compared or told."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from harness.analyze.apart import Lonely, Scale
from harness.analyze.bottleneck import Bottleneck
from harness.analyze.comparison import Against, Comparison, Shared
from harness.analyze.places import Unlike

NO_ENERGY = "Energy for a sample is not told: these runs recorded none."

Of = TypeVar("Of", Lonely, Scale)


def by_value(values: Mapping[str, str]) -> str:
    """What places say, those that say the same together: `A, C 2.11.0; B 2.9.1`."""
    letters: dict[str, list[str]] = defaultdict(list)
    for letter, value in values.items():
        letters[value].append(letter)
    return "; ".join(f"{', '.join(places)} {value}" for value, places in letters.items())


def wordless(cells: Sequence[Shared]) -> Iterator[str]:
    """The words where cells have no ratio or no verdict in one place, those with the same words together."""
    told: dict[tuple[str, str], list[str]] = defaultdict(list)
    for cell in cells:
        for one in cell.found:
            row = one.entry.row
            if row.absence is not None:
                told[one.letter, row.absence.words].append(cell.subject)
            if row.estimate is not None and row.estimate.disturbed:
                told[one.letter, "the machine was too restless for a verdict"].append(cell.subject)
    for (letter, words), subjects in told.items():
        yield f"{', '.join(subjects)} on {letter}: {words}"


def why(cells: Sequence[Shared], reference: str, facts: Sequence[Unlike]) -> Iterator[str]:
    """What else differs where cells differ; nothing shows that it is the cause. What is said alike is said once."""
    told: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for cell in cells:
        for one in cell.found:
            if one.against and (cell.disagrees or one.against.contrast.differs):
                for cause in _causes(one.letter, one.against, reference, facts):
                    told[cause][cell.subject].append(one.letter)
    for cause, subjects in told.items():
        named = (f"{name} ({', '.join(letters)})" for name, letters in subjects.items())
        yield f"{cause}: {', '.join(named)}"


def _causes(letter: str, against: Against, reference: str, facts: Sequence[Unlike]) -> Iterator[str]:
    there, here = against.bottlenecks
    if there and here and against.moved:
        yield f"The {stage(there)} holds {reference} back on {against.letter}, the {stage(here)} here"
    for name, (was, now) in against.settings.items():
        yield f"Seen {name} {_shown(was)} on {against.letter}, {_shown(now)} here"
    if not against.moved and not against.settings:
        unlike = [one.fact for one in facts if one.values[letter] != one.values[against.letter]]
        rest = ", ".join((*unlike, "when it was measured"))
        yield f"The same stage and settings as on {against.letter}, so that there remains {rest}"


def _shown(value: object) -> str:
    return "not seen" if value is None else str(value)


def stage(found: Bottleneck) -> str:
    """The stage that holds an arm back."""
    return "input" if found.stage == "input" else "training step"


def missing(comparison: Comparison) -> Iterator[str]:
    """Why shares, costs and energy are not told where they are not."""
    words: dict[str, dict[str, None]] = defaultdict(dict)
    unpriced: dict[str, None] = {}
    for one in (one for group in comparison.groups for one in group.throughputs):
        if isinstance(one.reference.share, str):
            words[one.reference.share][one.letter] = None
        if one.reference.cost is None:
            unpriced[one.letter] = None
    for reason, letters in words.items():
        yield f"Share of the device's limit on {', '.join(letters)}: {reason}."
    if unpriced:
        add = "add one to prices.toml in the folder of results, or name a file with --prices"
        yield f"Cost on {', '.join(unpriced)}: no price is known; {add}."
    yield NO_ENERGY


def apart(comparison: Comparison) -> Iterator[str]:
    """What is not compared: cells without a ratio, other sizes and stacks, and what one place alone has."""
    yield from _nowhere(comparison)
    for workload, scales in comparison.scales.items():
        told = "; ".join(_scale(letter, group) for letter, group in _by_letter(scales).items())
        yield (
            f"{workload} was not measured alike everywhere ({told}): other sizes, batches or data are other cells, "
            "without a ratio between them"
        )
    for workload, several in comparison.lonely.items():
        where = {letter for letter, names in comparison.measured.items() if workload in names}
        if len(where) == 1:
            yield f"{workload} was measured on {min(where)} alone"
            continue
        for letter, group in _by_letter(several).items():
            yield f"{workload}, on {letter} alone: {', '.join(dict.fromkeys(map(_lonely, group)))}"


def _by_letter(several: Iterable[Of]) -> Mapping[str, Sequence[Of]]:
    found: dict[str, list[Of]] = defaultdict(list)
    for one in several:
        found[one.letter].append(one)
    return found


def _scale(letter: str, scales: Sequence[Scale]) -> str:
    sizes: dict[str, list[str]] = defaultdict(list)
    for one in scales:
        sizes[f"size {one.size}{on_data(one.data)}"].append(str(one.batch))
    return f"{letter} " + ", ".join(f"{size} with batch {' and '.join(batches)}" for size, batches in sizes.items())


def _nowhere(comparison: Comparison) -> Iterator[str]:
    """Cells that all have and none has a ratio of, those with the same words together."""
    alike: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for group in comparison.groups:
        for cell in group.cells:
            absences = [(one.letter, one.entry.row.absence) for one in cell.found]
            if all(absence for _, absence in absences):
                words = {letter: absence.words for letter, absence in absences if absence}
                alike[group.cell.workload, by_value(words)].append(cell.subject)
    for (workload, said), subjects in alike.items():
        yield f"{workload}, without a ratio anywhere: {', '.join(subjects)} ({said})"


def on_data(data: str) -> str:
    """On which real data, if on any."""
    return f" on {data}" if data else ""


def _lonely(one: Lonely) -> str:
    return f"{one.subject} ({'; '.join(one.words)})" if one.words else one.subject
