"""The document: renders runs as one HTML file that loads nothing and in which foreign text is never anything but text.

Three walls stand between a stranger's run and the reader: every value is escaped where it is written, a content
security policy runs only the one script and the one style sheet whose checksums it names, and that script makes
elements and text but never HTML. docs/decisions/html-report.md tells why.
"""

import base64
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar

from jinja2 import Environment as Templates
from jinja2 import PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from harness.analyze.collection import TOO_SMALL, StoredRow, StoredRun, answered
from harness.analyze.composition import Composed
from harness.analyze.estimate import Estimate
from harness.analyze.evidence import Evidence, Side
from harness.analyze.grouping import together
from harness.analyze.profile import Profile, host_memory, profile
from harness.analyze.quality import Agreement
from harness.analyze.search.shares import WorkloadPrediction
from harness.analyze.verdict import MARGIN, Verdict, limits
from harness.core.configuration import Comparison, Configuration
from harness.core.environment import Environment
from harness.core.optimization import Optimization, Timing
from harness.core.recipe import Value
from harness.report import matrix as sentences
from harness.report import words
from harness.report.advice import RULE, Chapter
from harness.report.batches import batch_parts
from harness.report.document import Part
from harness.report.matrix import facts
from harness.report.prediction import prediction_parts
from harness.report.words import NOTHING, duration, energy, frequency, one_line, rate, share, size

# Lines of the page, each a ratio with the records behind it, and what both arms of it showed.

SEVERAL, UNKNOWN, NO_STAGE = "several", "unknown", "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhibit:
    """One run with the records behind its matrix."""

    kept: StoredRun
    evidence: tuple[Evidence, ...]
    commands: Mapping[Comparison, str]  # that measure one comparison alone; not every comparison has one
    rehearsed: bool = False  # its times are invented
    predictions: tuple[WorkloadPrediction, ...] = ()  # what is predicted beyond it
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
    older: bool  # a single run's ratio beside the average that holds it, or a less sure answer

    @property
    def shown(self) -> Estimate | Composed:
        """What a reader sees first: what a part comes to on whole steps where that is known, else what was timed."""
        return self.entry.row.on_steps or self.estimate

    @property
    def command(self) -> str | None:
        """What measures it alone, where one command does."""
        return self.exhibit.commands.get(self.entry.row.comparison)


def lines(shown: Shown) -> tuple[Line, ...]:
    """A line for each ratio: in the matrix's order, or by machine and workload where there are many runs.

    Parts of what was timed on whole steps too are left out, as in `Matrix.answers`.
    """
    answers = answered(exhibit.kept for exhibit in shown.exhibits) if shown.collected else ()
    current = {id(entry.alone.row): entry for entry in answers}
    found = [one for one in _entries(shown) if one[1].row.estimate is not None]
    whole = {_trained(entry) for _, entry in found if entry.row.comparison.timing is Timing.STEP}
    drafts = []
    for number, entry in (one for one in found if not (one[1].row.on_steps and _trained(one[1]) in whole)):
        answer = current.get(id(entry.row))
        if answer:
            drafts.append((number, answer, False))
        if answer is None or answer.repeats:
            drafts.append((number, entry, shown.collected))
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


def _trained(entry: StoredRow) -> tuple[str, bool, str, Configuration, Configuration]:
    """What was trained beside what, on which data, where and by whom."""
    comparison = entry.row.comparison
    where = entry.run.environment.digest, entry.run.contributed, entry.data
    return *where, comparison.treatment, comparison.reference


def machine_of(kept: StoredRun) -> str:
    """Its machine, told apart from ours of that name where somebody else measured there."""
    return kept.machine + (" (contributed)" if kept.contributed else "")


def _place(entry: StoredRow) -> tuple[str, str, int, str]:
    timings = list(Timing)
    return machine_of(entry.run), entry.table.config.workload, timings.index(entry.table.timing), entry.table.name


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
        titles=tuple(shown.known[name].title for name in comparison.differing if name in shown.known),
        older=older,
    )


def _evidence(exhibit: Exhibit, entry: StoredRow) -> Evidence:
    """The records of a row; where a plan makes a comparison twice, those that give the row's own profile."""
    found = [one for one in exhibit.evidence if one.comparison == entry.row.comparison]
    return next((one for one in found if profile(one.treatment) == entry.row.treatment), found[0])


def stage(comparison: Comparison, known: Mapping[str, Optimization]) -> str:
    """The stage that a comparison acts on; `several` for a stack that acts on more than one."""
    stages = {str(known[name].stage) if name in known else UNKNOWN for name in comparison.differing}
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
    for name, wanted in _STEPS.items():
        yield from _where_known(name, (_of_steps(ours, wanted), _of_steps(theirs, wanted)), duration)
    yield from _where_known("device clock", (ours.clock_mhz, theirs.clock_mhz), frequency)
    yield from _where_known("its loader alone", (ours.loader_rate, theirs.loader_rate), rate)
    yield from _where_known("its step alone", (ours.compute_rate, theirs.compute_rate), rate)


_STEPS = {"half of the steps within": "p50", "95 % within": "p95", "99 % within": "p99", "longest step": "longest"}


def _of_steps(arm: Profile, wanted: str) -> float | None:
    return getattr(arm.step_times, wanted) if arm.step_times else None


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


def batches(shown: Shown) -> tuple[Part, ...]:
    """The tables of other batches of all runs; of many runs without sizes that prove nothing."""
    found = (table for exhibit in shown.exhibits for table in exhibit.kept.matrix.batch_tables)
    return tuple(batch_parts([one for one in found if not (shown.collected and one.config.size == TOO_SMALL)]))


# The summary: what stands at the top of a page, so that its first screen says what was measured, where and how.

_SHOWN = "machine", "protocol", "noise", "software", "plan", "data", "environment", "time"
_MOST = 3  # different values that are told one by one


def heading(shown: Shown) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The facts that every number depends on: name and values, of which there are several where runs differ."""
    facts = [dict(sentences.heading(exhibit.kept.matrix)) for exhibit in shown.exhibits]
    for name in _SHOWN:
        if values := tuple(dict.fromkeys(one[name] for one in facts if name in one)):
            yield name, values if len(values) <= _MOST else (f"{len(values)} different ones, named beside each run",)


def counts(shown: Shown, lines: tuple[Line, ...]) -> str:
    """How many comparisons have a ratio: `9 of 189 comparisons have a ratio`; of many runs the answers."""
    if shown.collected:
        return f"{len(current(lines))} comparisons have a ratio"
    matrices = [exhibit.kept.matrix for exhibit in shown.exhibits]
    parts = sum(len(matrix.rows) - len(matrix.answers) for matrix in matrices)  # of what was timed on whole steps too
    total = sum(len(matrix.every_row) + len(matrix.no_results) for matrix in matrices) - parts
    return f"{sum(matrix.looked_at for matrix in matrices) - parts} of {total} comparisons have a ratio"


def current(lines: tuple[Line, ...]) -> tuple[Line, ...]:
    """The lines that answer a question: of several runs their average."""
    return tuple(line for line in lines if not line.older)


def verdicts(lines: tuple[Line, ...]) -> tuple[tuple[Verdict, int], ...]:
    """How often each verdict was given, those that were given at all."""
    counted = Counter(line.shown.verdict for line in current(lines))
    return tuple((one, counted[one]) for one in Verdict if counted[one])


def rules(lines: tuple[Line, ...]) -> Iterator[tuple[Verdict, str]]:
    """What each verdict asks of an interval; machines may differ, by what their calibrations found."""
    margins = sorted({line.estimate.thresholds.margin for line in lines} or {MARGIN})
    found = [limits(one) for one in margins if math.isfinite(one)]
    if found:
        yield Verdict.FASTER, f"the whole interval lies above {_either(one.faster for one in found)}"
        yield Verdict.SLOWER, f"the whole interval lies below {_either(one.slower for one in found)}"
    for low, high in {one.same for one in found if one.same}:
        yield Verdict.NO_EFFECT, f"the whole interval lies within {low:g} and {high:g}"
    yield Verdict.UNDECIDED, "anything else: more replicates would tell"
    if any(one.estimate.disturbed or one.shown.verdict is Verdict.DISTURBED for one in lines):
        yield (
            Verdict.DISTURBED,
            "the machine was too restless, or a part took another time alone than among steps",
        )


def _either(bounds: Iterable[float]) -> str:
    """The limits of all machines: `1.01 or 1.03, by the calibration of its machine`."""
    texts = [f"{one:g}" for one in bounds]
    return " or ".join(texts) + (", by the calibration of its machine" if len(texts) > 1 else "")


def remarks(shown: Shown, lines: tuple[Line, ...]) -> Iterator[str]:
    """What a reader must know before looking at any number."""
    if any(exhibit.rehearsed for exhibit in shown.exhibits):
        yield "Rehearsed: every time in this report is invented, and nothing was measured."
    if theirs := sum(exhibit.kept.contributed for exhibit in shown.exhibits):
        yield f"Contributed runs: {theirs}. Somebody else measured them; they are checked for sense, not for truth."
    older = sum(line.older for line in lines)
    if older:
        yield f"{older} more ratios answer the same questions: single runs of an average, and less sure ones."
    small = sum(any(table.config.size == TOO_SMALL for table in one.kept.matrix.tables) for one in shown.exhibits)
    if shown.collected and small:
        yield f"{small} runs at size {TOO_SMALL} are left out: that size shows that things run, and no more."


def surroundings(environment: Environment) -> Iterator[tuple[str, str]]:
    """The facts of a machine that the heading leaves out, those that are known."""
    memory = environment.accelerator_memory_bytes
    found = {
        "processor": f"{environment.cpu}, {environment.cores} cores, {size(environment.memory_bytes)}",
        "device": environment.device + (f", {size(memory)}" if memory else ""),
        "capability": environment.capability,
        "driver": environment.driver,
        "compiler": environment.compiler,
    }
    yield from ((name, value) for name, value in found.items() if value)


def choices(lines: tuple[Line, ...]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """What the table can be narrowed to, as name, label and values; nothing where there is no choice."""
    given = (one for one, _ in verdicts(lines))
    found = (
        ("machine", "Machine", sorted({machine_of(line.entry.run) for line in lines})),
        ("workload", "Workload", sorted({line.entry.table.config.workload for line in lines})),
        ("timed", "Timed on", sorted({sentences.timed_on(line.entry.row) for line in lines})),
        ("stage", "Stage", sorted({line.stage for line in lines})),
        ("verdict", "Verdict", map(str, given)),
    )
    for name, label, values in found:
        if len(chosen := tuple(values)) > 1:
            yield name, label, chosen


# Gaps: everything that has no ratio, with the words in its place; those that share their words stand together.

_Told = tuple[StoredRun, str, str, str]  # run, workload, subject, words


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Comparisons of one workload on one machine without a ratio, and why."""

    machine: str
    workload: str
    labels: tuple[str, ...]
    words: str


def gaps(shown: Shown, lines: tuple[Line, ...]) -> tuple[Gap, ...]:
    """What has no ratio; among many runs only what has none in any of them in the same environment."""
    found: dict[tuple[str, str, str, str], dict[str, None]] = {}
    for kept, workload, label, why in _collected(shown, lines) if shown.collected else _of_runs(shown):
        alike = kept.environment.digest, machine_of(kept), workload, one_line(why)
        found.setdefault(alike, {})[one_line(label)] = None
    return tuple(
        Gap(machine=machine, workload=workload, labels=tuple(labels), words=why)
        for (_, machine, workload, why), labels in sorted(found.items(), key=lambda one: one[0][:3])
    )


def _of_runs(shown: Shown) -> Iterator[_Told]:
    for kept in (exhibit.kept for exhibit in shown.exhibits):
        rows = ((row.comparison.treatment.workload, row) for row in kept.matrix.rows)
        yield from ((kept, name, row.label, row.absence.words) for name, row in rows if row.absence)
        yield from ((kept, one.workload, one.label, one.reason) for one in kept.matrix.no_results)


def _collected(shown: Shown, lines: tuple[Line, ...]) -> Iterator[_Told]:
    """Questions that no run answers, in the words of the newest, then missing results that nobody has filled since."""
    runs = sorted((exhibit.kept for exhibit in shown.exhibits), key=lambda kept: (kept.began, kept.name), reverse=True)
    for entry in answered(runs):
        row = entry.row
        if row.absence is not None:
            yield entry.run, row.comparison.treatment.workload, row.label, row.absence.words
    told = {_asked(line.exhibit.kept, line.entry.table.config.workload, line.entry.row.label) for line in lines}
    for kept in runs:
        for no_result in kept.matrix.no_results:
            asked = _asked(kept, no_result.workload, no_result.label)
            if asked not in told:
                told.add(asked)
                yield kept, no_result.workload, no_result.label, no_result.reason


def _asked(kept: StoredRun, workload: str, label: str) -> tuple[str, bool, str, str]:
    return kept.environment.digest, kept.contributed, workload, label


# Series: the windows behind every line as compact numbers, and JSON that a page may hold.
#
# A block's reference is written once, however many comparisons share it. Each list is one attempt: replicate, number,
# then when each window began (seconds since the attempt began), how long it took (seconds) and its samples:
# one number where all held as many.

_DIGITS = 4  # more than any window is worth

Number = int | float


def series(lines: Iterable[Line]) -> dict[str, Any]:
    """The windows of all lines: `references` by block, and for each line the number of its block and its own."""
    blocks: dict[int, int] = {}
    references: list[Any] = []
    found: dict[str, Any] = {}
    for line in lines:
        side = line.evidence.reference
        if id(side) not in blocks:  # comparisons of a block share their reference's side
            blocks[id(side)] = len(references)
            references.append(list(_attempts(side)))
        found[line.key] = [blocks[id(side)], list(_attempts(line.evidence.treatment))]
    return {"references": references, "lines": found}


def _attempts(side: Side) -> Iterator[list[Any]]:
    ordered = sorted(side.windows, key=lambda one: (one.arm.replicate, one.arm.attempt, one.order))
    by_attempt = together(((one.arm.replicate, one.arm.attempt), one) for one in ordered)
    for (replicate, attempt), windows in by_attempt.items():
        samples = [one.samples for one in windows]
        yield [
            replicate,
            attempt,
            [rounded(one.began_s) for one in windows],
            [rounded(one.wall_s) for one in windows],
            samples[0] if len(set(samples)) == 1 else samples,
        ]


def rounded(value: float) -> Number | None:
    """A number to four significant digits, whole where it is; None where it is no number."""
    if not math.isfinite(value):
        return None
    short = float(f"{value:.{_DIGITS}g}")
    return int(short) if short.is_integer() else short


def embedded(data: object) -> str:
    """JSON that cannot end the element it stands in nor open a comment: ASCII without angle pairs or ampersands."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e")


# The axis of all intervals on a page: logarithmic and the same in every row, so that rows can be compared by eye.

_LEAST, _MOST_TICKS = -3, 3  # powers of two: beyond an eighth and eight times an arrow stands for the rest
_FRACTIONS = {-3: "⅛", -2: "¼", -1: "½"}
_MARGIN = 5.0  # percent at either end


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Where one interval is drawn, in percent of the axis; an end that runs off it is an arrow."""

    low: float
    middle: float
    high: float
    runs_off_left: bool
    runs_off_right: bool
    beyond: bool  # no part of it lies on the axis: the arrow stands for all of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """From one power of two to another."""

    first: int
    last: int

    def place(self, ratio: float) -> float:
        """The place of a ratio in percent of the axis, held inside it."""
        power = min(max(_power(ratio), self.first), self.last)
        return round(_MARGIN + (power - self.first) / (self.last - self.first) * (100 - 2 * _MARGIN), 1)

    @property
    def ticks(self) -> tuple[tuple[float, str], ...]:
        """Places and labels of the powers of two: `½`, `1`, `2`."""
        powers = range(self.first, self.last + 1)
        return tuple((self.place(2.0**power), _FRACTIONS.get(power, f"{2.0**power:g}")) for power in powers)

    def mark(self, one: words.Interval) -> Mark:
        """Where an interval is drawn."""
        left, right = 2.0**self.first, 2.0**self.last
        return Mark(
            low=self.place(one.low),
            middle=self.place(one.ratio),
            high=self.place(one.high),
            runs_off_left=one.low < left,
            runs_off_right=one.high > right,
            beyond=one.low > right or one.high < left,
        )


def axis(intervals: Iterable[words.Interval]) -> Axis:
    """The axis that holds all ratios and the inner part of their intervals, from a half to two at least."""
    ends = [end for one in intervals for end in (max(one.low, one.ratio / 2), min(one.high, one.ratio * 2))]
    powers = [min(max(_power(end), _LEAST), _MOST_TICKS) for end in ends]
    return Axis(first=math.floor(min([-1.0, *powers])), last=math.ceil(max([1.0, *powers])))


def _power(ratio: float) -> float:
    """The logarithm to base two; the least there is for what is no positive number."""
    return math.log2(ratio) if ratio > 0 else -math.inf


_PART = re.compile(r"[^_+]*[_+]|[^_+]+")  # of a name, with the sign that ends it
_PACKAGE, _TEMPLATES = "harness.report", "templates"
_SCRIPTS = ("theme.js", "rows.js", "table.js", "windows.js", "copy.js")


def to_html(shown: Shown) -> str:
    """The page of one run or of many; the same data give the same bytes."""
    found = lines(shown)
    style, script = asset("style.css"), "\n".join(asset(name) for name in _SCRIPTS)
    return (
        templates()
        .get_template("page.html")
        .render(
            shown=shown,
            lines=found,
            gaps=gaps(shown, found),
            machines=len({machine_of(exhibit.kept) for exhibit in shown.exhibits}),
            axis=axis(line.shown for line in found),
            style=Markup(style),  # noqa: S704  the package's own
            script=Markup(script),  # noqa: S704
            data=Markup(embedded(series(found))),  # noqa: S704  cannot end its element
            policy=policy(style, script),
            order={one: place for place, one in enumerate(Verdict)},
            agreement={one: place for place, one in enumerate(Agreement)},
            rule_of_advice=RULE,
        )
    )


def policy(style: str, script: str) -> str:
    """What the browser may do with the page: run this script, apply this style, show the icon, and nothing else."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_checksum(script)}'",
            f"style-src '{_checksum(style)}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


def _checksum(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def asset(name: str) -> str:
    """A script or style sheet of the package."""
    return files(_PACKAGE).joinpath(_TEMPLATES, name).read_text(encoding="utf-8")


_FOR_TEMPLATES: tuple[Callable[..., Any], ...] = (
    alike,
    batches,
    choices,
    costs,
    counts,
    heading,
    machine_of,
    prediction_parts,
    proofs,
    remarks,
    rules,
    shares,
    speeds,
    surroundings,
    verdicts,
)


@cache
def templates() -> Templates:
    """The templates of pages: they escape every value, and know the words of reports."""
    found = Templates(
        loader=PackageLoader(_PACKAGE, _TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        # Foreign text in one line of characters that print, whatever it came from; the package's own markup as it is.
        finalize=lambda value: value if isinstance(value, Markup) else words.one_line(str(value)),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.globals.update(words=words, matrix=sentences, here={one.__name__: one for one in _FOR_TEMPLATES})
    found.filters["breakable"] = breakable
    found.filters["verbatim"] = lambda code: escape("\n".join(words.verbatim(code)))
    return found


def breakable(text: object) -> Markup:
    """A long name that may be broken where its parts meet, and nowhere else: `precomputed_` / `preparation`."""
    return Markup("<wbr>").join(_PART.findall(words.one_line(str(text))))
