"""Exhibits: runs as a page shows them, and the lines of its table, each with the evidence behind it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from harness.analyze.collection import TOO_SMALL, Entry, Kept, surest
from harness.analyze.estimate import Estimate
from harness.analyze.evidence import Evidence
from harness.analyze.outlook import Outlook
from harness.analyze.profile import Profile, profile
from harness.core.cell import Comparison
from harness.core.optimization import Optimization, Timing
from harness.report.advice import Chapter

SEVERAL, UNKNOWN, NO_STAGE = "several", "unknown", "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhibit:
    """One run with the records behind its matrix."""

    kept: Kept
    evidence: tuple[Evidence, ...]
    commands: Mapping[Comparison, str]  # that measure one comparison alone; not every comparison has one
    rehearsed: bool = False  # its times are invented
    outlooks: tuple[Outlook, ...] = ()  # what is predicted beyond it
    advice: tuple[Chapter, ...] = ()  # what to do, workload by workload
    questions: Mapping[Comparison, str] = field(default_factory=dict)  # the commands that answer what it leaves open


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a page shows, and what is known of the optimizations in it."""

    exhibits: tuple[Exhibit, ...]
    known: Mapping[str, Optimization]
    version: str  # of what makes the page
    collected: bool = False  # all runs of a folder, rather than the one that was asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One ratio of the page's table."""

    key: str  # names it in the page: r17
    run: int  # the exhibit's number, from 1
    exhibit: Exhibit
    entry: Entry
    estimate: Estimate
    evidence: Evidence
    treatment: Profile
    reference: Profile
    stage: str
    titles: tuple[str, ...]  # of the optimizations that differ and are known
    older: bool  # another run answers the same question more surely

    @property
    def command(self) -> str | None:
        """What measures it alone, where one command does."""
        return self.exhibit.commands.get(self.entry.row.comparison)


def lines(shown: Shown) -> tuple[Line, ...]:
    """A line for each ratio: in the matrix's order, or by machine and workload where there are many runs."""
    current = {id(entry.row) for entry in surest(exhibit.kept for exhibit in shown.exhibits)}
    drafts = [
        (number, entry, shown.collected and id(entry.row) not in current)
        for number, entry in _entries(shown)
        if entry.row.estimate is not None
    ]
    if shown.collected:
        drafts.sort(key=lambda draft: (*_place(draft[1]), draft[2]))  # stable: a table's order is kept
    return tuple(
        _line(shown, (number, entry, older), key=f"r{index}") for index, (number, entry, older) in enumerate(drafts, 1)
    )


def _entries(shown: Shown) -> Iterator[tuple[int, Entry]]:
    for number, exhibit in enumerate(shown.exhibits, 1):
        for table in exhibit.kept.matrix.tables:
            if not (shown.collected and table.cell.size == TOO_SMALL):
                yield from ((number, Entry(kept=exhibit.kept, table=table, row=row)) for row in table.rows)


def _place(entry: Entry) -> tuple[str, str, int, str]:
    timings = list(Timing)
    return entry.kept.machine, entry.table.cell.workload, timings.index(entry.table.timing), entry.table.name


def _line(shown: Shown, draft: tuple[int, Entry, bool], key: str) -> Line:
    number, entry, older = draft
    exhibit, row, comparison = shown.exhibits[number - 1], entry.row, entry.row.comparison
    if row.estimate is None or row.treatment is None or row.reference is None:
        raise ValueError("a line needs a ratio and the two arms behind it")
    return Line(
        key=key,
        run=number,
        exhibit=exhibit,
        entry=entry,
        estimate=row.estimate,
        evidence=_evidence(exhibit, entry),
        treatment=row.treatment,
        reference=row.reference,
        stage=stage(comparison, shown.known),
        titles=tuple(shown.known[name].title for name in differing(comparison) if name in shown.known),
        older=older,
    )


def _evidence(exhibit: Exhibit, entry: Entry) -> Evidence:
    """The records of a row; where a plan makes a comparison twice, those that give the row's own profile."""
    found = [one for one in exhibit.evidence if one.comparison == entry.row.comparison]
    return next((one for one in found if profile(one.treatment) == entry.row.treatment), found[0])


def differing(comparison: Comparison) -> tuple[str, ...]:
    """The names of the optimizations in which the two cells differ."""
    return tuple(sorted({one.name for one in {*comparison.treatment.switches} ^ {*comparison.reference.switches}}))


def stage(comparison: Comparison, known: Mapping[str, Optimization]) -> str:
    """The stage that a comparison acts on; `several` for a stack that acts on more than one."""
    names = differing(comparison)
    stages = {str(known[name].stage) if name in known else UNKNOWN for name in names}
    return next(iter(stages)) if len(stages) == 1 else SEVERAL if stages else NO_STAGE
