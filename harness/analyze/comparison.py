"""The comparison: cells that several places share, side by side, and what keeps the others from being compared."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.analyze.apart import Lonely, Scale, lonely_of, nothing_shared, scales_of
from harness.analyze.bottleneck import Bottleneck
from harness.analyze.collection import Entry, Question
from harness.analyze.contrast import Contrast, Difference, contrast
from harness.analyze.costs import Prices
from harness.analyze.limits import Known
from harness.analyze.places import Place, Unlike, exactly, unlike_environments, unlike_protocols
from harness.analyze.profile import Profile
from harness.analyze.throughput import Throughput, throughputs
from harness.core.cell import Cell
from harness.core.mistake import Mistake
from harness.core.optimization import Timing
from harness.core.recipe import Value

Setting = tuple[Value, Value]  # there and here


@dataclass(frozen=True, slots=True, kw_only=True)
class Against:
    """What one place says of a cell beside another place: the contrast, and what else differs between the two."""

    letter: str  # of the other place
    contrast: Contrast
    bottlenecks: tuple[Bottleneck | None, Bottleneck | None]  # of the reference, there and here
    settings: Mapping[str, Setting]  # seen in the treatment on both, and not alike

    @property
    def moved(self) -> bool:
        """Whether another stage holds the reference back."""
        there, here = self.bottlenecks
        return there is not None and here is not None and there.stage != here.stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A cell in one place."""

    letter: str
    entry: Entry
    against: Against | None  # None in the first place that has a ratio, and where there is none

    @property
    def word(self) -> str:
        """Its verdict, or why there is none."""
        return str(self.entry.row.estimate.verdict) if self.entry.row.estimate else "no ratio"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """A cell that two places have, at least."""

    question: Question
    subject: str
    found: tuple[Found, ...]  # in the order of the places

    @property
    def contrasts(self) -> tuple[Contrast, ...]:
        """All that is said of it beside the first place."""
        return tuple(one.against.contrast for one in self.found if one.against)

    @property
    def differs(self) -> bool:
        """Whether it surely pays more or less somewhere."""
        return any(one.differs for one in self.contrasts)

    @property
    def disagrees(self) -> bool:
        """Whether places that decide it decide differently: faster here, slower or without effect there."""
        words = {one.word for one in self.found} - {"no ratio", "undecided"}
        return len(words) > 1

    @property
    def difference(self) -> Difference | None:
        """The most that can be said of it in one word; None where fewer than two places have a ratio."""
        order = (Difference.MORE, Difference.LESS, Difference.UNDECIDED, Difference.ALIKE)
        return min((one.difference for one in self.contrasts), key=order.index, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Cells with one reference and one timing on the same data, those that differ most first."""

    cell: Cell  # the reference
    name: str
    timing: Timing
    data: str
    cells: tuple[Shared, ...]
    throughputs: tuple[Throughput, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Places, what differs between them, the cells that they share and those that they do not."""

    places: tuple[Place, ...]
    environments: tuple[Unlike, ...]
    protocols: tuple[Unlike, ...]
    groups: tuple[Group, ...]
    scales: Mapping[str, tuple[Scale, ...]]  # of workloads that were not measured alike
    lonely: Mapping[str, tuple[Lonely, ...]]  # by workload
    currency: str

    @property
    def measured(self) -> Mapping[str, frozenset[str]]:
        """The workloads of each place, by its letter."""
        return {place.letter: frozenset(entry.table.cell.workload for entry in place.entries) for place in self.places}

    @property
    def cells(self) -> tuple[Shared, ...]:
        """All cells that are shared."""
        return tuple(cell for group in self.groups for cell in group.cells)


def compare(places: Sequence[Place], known: Known, prices: Prices) -> Comparison:
    """Everything that can be said of places beside each other; raises Mistake where they share no cell."""
    by_question: dict[Question, list[tuple[Place, Entry]]] = defaultdict(list)
    for place in places:
        for entry in place.entries:
            by_question[exactly(entry)].append((place, entry))
    shared = [_shared(question, found) for question, found in by_question.items() if len(found) > 1]
    scales = scales_of(places)
    if not shared:
        raise Mistake(nothing_shared(places, scales))
    return Comparison(
        places=tuple(places),
        environments=unlike_environments(places),
        protocols=unlike_protocols(places),
        groups=tuple(_groups(places, shared, known, prices)),
        scales=scales,
        lonely=lonely_of(places, {question for question, found in by_question.items() if len(found) == 1}),
        currency=prices.currency,
    )


def _shared(question: Question, found: Sequence[tuple[Place, Entry]]) -> Shared:
    first = next(((place, entry) for place, entry in found if entry.row.estimate), None)
    return Shared(
        question=question,
        subject=found[0][1].row.subject,
        found=tuple(
            Found(letter=place.letter, entry=entry, against=_against(entry, *first) if first else None)
            for place, entry in found
        ),
    )


def _against(entry: Entry, place: Place, first: Entry) -> Against | None:
    here, there = entry.row.estimate, first.row.estimate
    if entry is first or here is None or there is None:
        return None
    return Against(
        letter=place.letter,
        contrast=contrast(here, there),
        bottlenecks=(_bottleneck(first.table.profile), _bottleneck(entry.table.profile)),
        settings=_unlike_settings(first.row.treatment, entry.row.treatment),
    )


def _bottleneck(profile: Profile | None) -> Bottleneck | None:
    return profile.bottleneck if profile else None


def _unlike_settings(there: Profile | None, here: Profile | None) -> dict[str, Setting]:
    theirs, ours = (dict(one.facts) if one else {} for one in (there, here))
    return {
        name: (theirs[name], ours[name]) for name in sorted(theirs.keys() & ours.keys()) if theirs[name] != ours[name]
    }


def _groups(places: Sequence[Place], shared: Sequence[Shared], known: Known, prices: Prices) -> Iterator[Group]:
    by_reference: dict[tuple[Cell, Timing, str], list[Shared]] = defaultdict(list)
    for cell in shared:
        by_reference[cell.question.reference, cell.question.timing, cell.question.data].append(cell)
    for (reference, timing, data), cells in by_reference.items():
        yield Group(
            cell=reference,
            name=cells[0].found[0].entry.table.name,
            timing=timing,
            data=data,
            cells=tuple(sorted(cells, key=_weight)),
            throughputs=throughputs(places, cells[0].question, known, prices),
        )


def _weight(cell: Shared) -> tuple[bool, bool, float]:
    """What surely differs comes first, before all where verdicts disagree, and then the largest difference."""
    return not cell.differs, not cell.disagrees, -max((_certain(one) for one in cell.contrasts), default=-1.0)


def _certain(one: Contrast) -> float:
    """How far from 1 a ratio is for certain: the bound that is nearer to 1, as a factor."""
    return max(one.low, 1 / one.high if one.high else 0.0)
