"""Exhibits: runs as a page shows them, and the lines of its table, each with the evidence behind it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from harness.analyze.collection import TOO_SMALL, StoredRow, StoredRun, surest
from harness.analyze.estimate import Estimate
from harness.analyze.evidence import Evidence, Side
from harness.analyze.profile import Profile, host_memory, profile
from harness.analyze.search.shares import WorkloadPrediction
from harness.core.configuration import Comparison
from harness.core.optimization import Optimization, Timing
from harness.core.recipe import Value
from harness.report.advice import Chapter
from harness.report.matrix import facts
from harness.report.words import NOTHING, duration, energy, frequency, rate, share, size

SEVERAL, UNKNOWN, NO_STAGE = "several", "unknown", "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhibit:
    """One run with the records behind its matrix."""

    kept: StoredRun
    evidence: tuple[Evidence, ...]
    commands: Mapping[Comparison, str]  # that measure one comparison alone; not every comparison has one
    rehearsed: bool = False  # its times are invented
    outlooks: tuple[WorkloadPrediction, ...] = ()  # what is predicted beyond it
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
    entry: StoredRow
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


def _entries(shown: Shown) -> Iterator[tuple[int, StoredRow]]:
    for number, exhibit in enumerate(shown.exhibits, 1):
        for table in exhibit.kept.matrix.tables:
            if not (shown.collected and table.config.size == TOO_SMALL):
                yield from ((number, StoredRow(run=exhibit.kept, table=table, row=row)) for row in table.rows)


def _place(entry: StoredRow) -> tuple[str, str, int, str]:
    timings = list(Timing)
    return entry.run.machine, entry.table.config.workload, timings.index(entry.table.timing), entry.table.name


def _line(shown: Shown, draft: tuple[int, StoredRow, bool], key: str) -> Line:
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


def _evidence(exhibit: Exhibit, entry: StoredRow) -> Evidence:
    """The records of a row; where a plan makes a comparison twice, those that give the row's own profile."""
    found = [one for one in exhibit.evidence if one.comparison == entry.row.comparison]
    return next((one for one in found if profile(one.treatment) == entry.row.treatment), found[0])


def differing(comparison: Comparison) -> tuple[str, ...]:
    """The names of the optimizations in which the two configurations differ."""
    return tuple(sorted({one.name for one in {*comparison.treatment.options} ^ {*comparison.reference.options}}))


def stage(comparison: Comparison, known: Mapping[str, Optimization]) -> str:
    """The stage that a comparison acts on; `several` for a stack that acts on more than one."""
    names = differing(comparison)
    stages = {str(known[name].stage) if name in known else UNKNOWN for name in names}
    return next(iter(stages)) if len(stages) == 1 else SEVERAL if stages else NO_STAGE


# Arms: what both arms of a comparison showed, side by side in words.

Pair = tuple[str, str, str]  # what it is, in the treatment, in the reference
Known = TypeVar("Known", int, float)
_PHASES = ("input_wait", "copy", "compute")


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """One effective setting as it was seen in both arms."""

    setting: str
    treatment: str
    reference: str
    promised: bool  # an option promised it, so its value was checked; else it was only seen


def speeds(line: Line) -> Iterator[Pair]:
    """Rates, phases and upper bounds of both arms."""
    ours, theirs = line.treatment, line.reference
    yield _pair("rate", (ours.rate, theirs.rate), rate)
    for name in _PHASES:
        yield _pair(name.replace("_", " "), (getattr(ours.phases, name), getattr(theirs.phases, name)), share)
    yield from _where_known("first to last kernel of its steps", (ours.device_span, theirs.device_span), share)
    yield from _where_known("host queueing them", (ours.host_queueing, theirs.host_queueing), share)
    yield from _where_known("device clock", (ours.clock_mhz, theirs.clock_mhz), frequency)
    yield from _where_known("its loader alone", (ours.loader_rate, theirs.loader_rate), rate)
    yield from _where_known("its step alone", (ours.compute_rate, theirs.compute_rate), rate)


def costs(line: Line) -> Iterator[Pair]:
    """Memory and start-up of both arms; of several starts the worst."""
    ours, theirs = line.treatment, line.reference
    kind, (host, other_host) = host_memory(ours, theirs)
    yield _pair(kind.value, (host, other_host), size)
    yield from _where_known("device peak", (ours.device_bytes, theirs.device_bytes), size)
    yield from _where_known("device memory of its process", (ours.process_bytes, theirs.process_bytes), size)
    yield from _where_known("energy a sample", (ours.joules, theirs.joules), energy)
    for name, fact in (("building", "build_s"), ("first step", "first_step_s"), ("warm-up", "warm_up_s")):
        yield _pair(name, (_worst(line.evidence.treatment, fact), _worst(line.evidence.reference, fact)), duration)
    yield _pair("settled after warm-up", (ours.steady, theirs.steady), lambda steady: "yes" if steady else "no")


def _worst(side: Side, field: str) -> float:
    return max(float(getattr(ready, field)) for ready in side.readies)


def _where_known(
    name: str, arms: tuple[Known | None, Known | None], in_words: Callable[[Known], str]
) -> Iterator[Pair]:
    if arms != (None, None):
        yield _pair(name, arms, in_words)


def _pair(name: str, arms: tuple[Known | None, Known | None], in_words: Callable[[Known], str]) -> Pair:
    ours, theirs = (NOTHING if one is None else in_words(one) for one in arms)
    return name, ours, theirs


def shares(profile: Profile) -> tuple[tuple[str, float, float], ...]:
    """The phases as parts of a bar of length 100: class, where it begins, how long it is."""
    found, begin = [], 0.0
    for name in _PHASES:
        length = round(100 * min(max(getattr(profile.phases, name), 0.0), 1.0), 1)
        found.append((name, round(begin, 1), length))
        begin += length
    return tuple(found)


def proofs(line: Line) -> tuple[Proof, ...]:
    """The settings that an option promised or in which the arms differ, the promised ones first."""
    ours, theirs = _seen(line.evidence.treatment), _seen(line.evidence.reference)
    promised = line.evidence.treatment.proved | line.evidence.reference.proved
    told = line.treatment.facts.keys() | line.reference.facts.keys()
    names = [name for name in sorted(promised | told) if name in promised or ours.get(name) != theirs.get(name)]
    return tuple(
        Proof(setting=name, treatment=_said(ours, name), reference=_said(theirs, name), promised=name in promised)
        for name in sorted(names, key=lambda name: name not in promised)
    )


def _seen(side: Side) -> Mapping[str, Value]:
    """Every effective setting of an arm; a later start has the last word."""
    return {name: value for ready in side.readies for name, value in ready.effective.items()}


def _said(seen: Mapping[str, Value], name: str) -> str:
    return str(seen[name]) if name in seen else "not reported"


def alike(line: Line) -> str:
    """What was seen alike in both arms and proves nothing, in one line."""
    shown = {one.setting for one in proofs(line)}
    return facts({name: value for name, value in line.reference.facts.items() if name not in shown})
