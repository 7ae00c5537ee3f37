"""Side by side: the sentences and tables of a comparison, before any format is chosen; foreign text stands as it is."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness.analyze.bottleneck import Bottleneck
from harness.analyze.comparison import Comparison, Group, Shared
from harness.analyze.contrast import ALIKE, Difference
from harness.analyze.places import Place, Unlike
from harness.analyze.throughput import Speed, Throughput
from harness.report import reasons
from harness.report.sentences import TIMED
from harness.report.words import NOTHING, factor, rate, ratio

UNPAIRED = (
    "Samples a second are unpaired, because machines cannot take turns: they have a range over single restarts, and a "
    "quotient of them has no verdict."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A table; a row with an empty first cell belongs to the one above."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A title and what stands under it, in order: tables, and lists of sentences."""

    title: str
    parts: tuple[Grid | tuple[str, ...], ...]


def sections(comparison: Comparison) -> Iterator[Section]:
    """The whole comparison, the most important first."""
    count = len(comparison.places)
    facts = (*_unlike("", comparison.environments), *_unlike("measured with ", comparison.protocols))
    same = () if comparison.environments else ("Machine and software are alike in every fact that is recorded.",)
    yield Section(title=f"{count} places side by side", parts=(_places(comparison.places), (*same, *facts)))
    yield Section(title="What the cells say together", parts=((summary(comparison), *_reading(comparison)),))
    for group in comparison.groups:
        if any(one.entry.row.estimate for cell in group.cells for one in cell.found):
            yield _group(group, comparison)
    if parted := tuple(reasons.apart(comparison)):
        yield Section(title="Not compared", parts=(parted,))
    yield Section(title="Not told", parts=(tuple(reasons.missing(comparison)),))


def summary(comparison: Comparison) -> str:
    """How many cells are shared, and what became of them."""
    words = [cell.difference for cell in comparison.cells]
    counted = {
        "pay differently": sum(cell.differs for cell in comparison.cells),
        "alike": words.count(Difference.ALIKE),
        "undecided": words.count(Difference.UNDECIDED),
        "without a second ratio": words.count(None),
    }
    told = ", ".join(f"{number} {what}" for what, number in counted.items() if number)
    opposed = sum(cell.disagrees for cell in comparison.cells)
    return f"Shared cells: {len(words)}, of them {told}. Verdicts disagree in {opposed or 'none'}."


def _reading(comparison: Comparison) -> Iterator[str]:
    made = sum(len(cell.contrasts) for cell in comparison.cells)
    yield (
        "A difference is one speedup over another, with a 95 % interval for its own cell alone: of "
        f"{made} intervals about one in twenty misses the truth by chance. Alike means within "
        f"{100 * (ALIKE - 1):.1f} %. They speak of these runs; other machines of the same kind may differ."
    )
    yield UNPAIRED


def _places(places: Sequence[Place]) -> Grid:
    rows = tuple(
        (
            place.letter,
            place.environment.machine,
            place.environment.digest,
            place.runs[0].name + (f" and {len(place.runs) - 1} older" if len(place.runs) > 1 else ""),
            "contributed" if place.contributed else "own",
        )
        for place in places
    )
    return Grid(columns=("", "machine", "environment", "newest run", "measured by"), rows=rows)


def _unlike(before: str, facts: Iterable[Unlike]) -> Iterator[str]:
    return (f"{before}{fact.fact}: {reasons.by_value(fact.values)}" for fact in facts)


def _group(group: Group, comparison: Comparison) -> Section:
    cell = group.cell
    sample = f"{cell.workload}, size {cell.size}, batch {cell.batch}{reasons.on_data(group.data)}"
    title = f"{sample}: {TIMED[group.timing]} against {group.name}"
    cells = [one for one in group.cells if any(found.entry.row.estimate for found in one.found)]
    why = (*reasons.why(cells, group.name, (*comparison.environments, *comparison.protocols)), *reasons.wordless(cells))
    speeds = (_speeds(group.throughputs, comparison.currency), tuple(_held_back(group))) if group.throughputs else ()
    return Section(title=title, parts=(_cells(cells), why, *speeds))


def _cells(cells: Sequence[Shared]) -> Grid:
    rows = []
    for cell in cells:
        for number, one in enumerate(cell.found):
            estimate, against = one.entry.row.estimate, one.against
            rows.append(
                (
                    "" if number else cell.subject,
                    one.letter,
                    ratio(estimate) if estimate else NOTHING,
                    one.word,
                    f"{ratio(against.contrast)} of {against.letter}" if against else NOTHING,
                    str(against.contrast.difference) if against else NOTHING,
                )
            )
    columns = ("subject", "", "speedup, 95 %", "verdict", "ratio of the two, 95 %", "difference")
    return Grid(columns=columns, rows=tuple(rows))


def _speeds(throughputs: Sequence[Throughput], currency: str) -> Grid:
    several = [speed for one in throughputs for speed in (one.reference, one.best) if speed]
    shares = any(not isinstance(speed.share, str) for speed in several)
    costs = any(speed.cost is not None for speed in several)
    rows = []
    for one in throughputs:
        for number, speed in enumerate(speed for speed in (one.reference, one.best) if speed):
            row = ["" if number else one.letter, speed.name, _range(speed), _quotient(speed)]
            row += [NOTHING if isinstance(speed.share, str) else f"{100 * speed.share:.2g} %"] if shares else []
            row += [NOTHING if speed.cost is None else factor(speed.cost)] if costs else []
            rows.append(tuple(row))
    columns = ["", "stack", "samples/s, of single restarts", "unpaired, of single restarts"]
    columns += ["of the limit"] if shares else []
    columns += [f"{currency} a million"] if costs else []
    return Grid(columns=tuple(columns), rows=tuple(rows))


def _range(speed: Speed) -> str:
    value, low, high = (rate(one).removesuffix(" samples/s") for one in (speed.rate, speed.low, speed.high))
    return f"{value} [{low}, {high}]"


def _quotient(speed: Speed) -> str:
    return f"{ratio(speed.against)} of {speed.against.letter}" if speed.against else NOTHING


def _held_back(group: Group) -> Iterator[str]:
    """The stage and both upper bounds of the reference in each place that has them."""
    seen: dict[str, Bottleneck] = {}
    for cell in group.cells:
        for one in cell.found:
            profile = one.entry.table.profile
            if profile and profile.bottleneck:
                seen.setdefault(one.letter, profile.bottleneck)
    for letter, found in sorted(seen.items(), key=lambda one: (len(one[0]), one[0])):
        bounds = f"loader alone {rate(found.loader_rate)}, step alone {rate(found.compute_rate)}"
        yield f"{letter}: the {reasons.stage(found)} holds {group.name} back; {bounds}"
