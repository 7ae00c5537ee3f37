"""What keeps cells apart: other sizes, batches or data, other stacks under one name, and what one place lacks."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.analyze.collection import Entry, Question
from harness.analyze.places import Place, exactly
from harness.core.cell import Cell


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How big a workload was measured in one place."""

    letter: str
    size: str
    batch: int
    data: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lonely:
    """A cell that one place alone has, with a ratio, and what the others say of it."""

    letter: str
    subject: str
    words: tuple[str, ...]  # of other places: another stack under that name, or why it was not made there


def scales_of(places: Sequence[Place]) -> dict[str, tuple[Scale, ...]]:
    """The sizes, batches and data of every workload that was not measured alike wherever it was measured."""
    found: dict[str, dict[Scale, None]] = defaultdict(dict)
    for place in places:
        for question in map(exactly, place.entries):
            cell = question.treatment
            scale = Scale(letter=place.letter, size=cell.size, batch=cell.batch, data=question.data)
            found[cell.workload][scale] = None
    return {name: tuple(scales) for name, scales in found.items() if not _alike(tuple(scales))}


def _alike(scales: Sequence[Scale]) -> bool:
    """Whether a workload was measured at the same sizes, batches and data wherever it was measured."""
    by_letter: dict[str, set[tuple[str, int, str]]] = defaultdict(set)
    for one in scales:
        by_letter[one.letter].add((one.size, one.batch, one.data))
    sets = list(by_letter.values())
    return all(one == sets[0] for one in sets)


def lonely_of(places: Sequence[Place], questions: Collection[Question]) -> dict[str, tuple[Lonely, ...]]:
    """The cells that answer those questions, which one place alone has, by workload."""
    found: dict[str, list[Lonely]] = defaultdict(list)
    for place in places:
        for entry in place.entries:
            question = exactly(entry)
            if question in questions and entry.row.estimate:
                words = tuple(_elsewhere(entry, question, [one for one in places if one is not place]))
                lonely = Lonely(letter=place.letter, subject=entry.row.comparison.subject, words=words)
                found[question.treatment.workload].append(lonely)
    return {name: tuple(several) for name, several in found.items()}


def _elsewhere(entry: Entry, question: Question, others: Sequence[Place]) -> Iterator[str]:
    """What other places have in its stead: another stack under the same name, or the words of a hole."""
    for other in others:
        for its in other.entries:
            theirs = exactly(its)
            alike = (theirs.reference, theirs.timing, theirs.data) == (
                question.reference,
                question.timing,
                question.data,
            )
            if alike and its.row.subject == entry.row.subject and theirs.copy == question.copy:
                yield f"{other.letter} has {_less(theirs.treatment, question.treatment)} under that name"
        holes = (hole for run in other.runs for hole in run.matrix.holes)
        reasons = (hole.reason for hole in holes if _is_about(hole.workload, hole.subject, entry))
        yield from (f"{other.letter}: {reason}" for reason in dict.fromkeys(reasons))


def _is_about(workload: str, subject: str, entry: Entry) -> bool:
    return workload == entry.table.cell.workload and subject in {
        entry.row.subject,
        entry.row.comparison.subject.partition("=")[0],
    }


def _less(theirs: Cell, ours: Cell) -> str:
    added = [str(one) for one in theirs.switches if one not in ours.switches]
    lacking = [f"no {one}" for one in ours.switches if one not in theirs.switches]
    return ", ".join((*added, *lacking))


def nothing_shared(places: Sequence[Place], scales: Mapping[str, tuple[Scale, ...]]) -> str:
    """Why places that share no cell cannot be compared, and what would help."""
    workloads = [{entry.table.cell.workload for entry in place.entries} for place in places]
    common = sorted(set.intersection(*workloads)) if workloads else []
    if not common:
        said = ", ".join(
            f"{place.letter}: {' '.join(sorted(one)) or 'nothing'}"
            for place, one in zip(places, workloads, strict=True)
        )
        return f"These runs have no workload in common ({said}); run one workload on both."
    apart = next((name for name in common if name in scales), None)
    if apart is None:
        return (
            f"These runs have no comparison in common; run {common[0]} on both with the same --design and --reference."
        )
    said = ", ".join(f"{one.size} with batch {one.batch} {_where(one)}" for one in scales[apart])
    return f"These runs have no cell in common: {apart} has {said}; give both the same --size, --batch and data."


def _where(one: Scale) -> str:
    return f"on {one.letter} ({one.data})" if one.data else f"on {one.letter}"
