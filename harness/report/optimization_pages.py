"""Pages of optimizations as Markdown: what each does, what is promised of it, and what was measured beside it."""

import ast
import importlib.resources
import textwrap
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from urllib.parse import quote

from harness.analyze.attribution import learns_alike
from harness.analyze.claims import UNTRIED, Account, Finding
from harness.analyze.collection import StoredRow
from harness.analyze.grouping import together
from harness.core.claims import Claim
from harness.core.optimization import PARTS_OF_A_STEP, Level, Numerics, Optimization, Stage, Timing
from harness.core.recipe import Value
from harness.report.claims import measured, promised
from harness.report.document import escaped, grid
from harness.report.gallery import GALLERY
from harness.report.matrix import COMPOSED, TIMED
from harness.report.published import Place, Setting, Topic, file_name, is_single
from harness.report.published_parts import low, on_training, unbroken
from harness.report.words import NOTHING, counted, ratio

# Subjects of pages: an optimization and what is claimed of it.

# What is published of a machine, and a link to its folder, relative to the pages.
Machine = tuple[Place, str]
Judged = tuple[Claim, Sequence[tuple[str, Finding]]]  # a claim, and by machine what its runs say of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """An optimization with all claims about it."""

    optimization: Optimization
    claims: tuple[Judged, ...]

    @property
    def name(self) -> str:
        """The optimization's name."""
        return self.optimization.name


def judged(claims: Iterable[Claim], accounts: Iterable[Account]) -> tuple[Judged, ...]:
    """Every claim with its findings on all machines."""
    found = together((one.claim.name, (account.machine, one)) for account in accounts for one in account.findings)
    return tuple((claim, found.get(claim.name, ())) for claim in claims)


def label(optimization: Optimization, claims: Iterable[Judged]) -> Label:
    """What there is about one optimization among all claims."""
    found = ((claim, findings) for claim, findings in claims if optimization.name in claim.differing)
    return Label(optimization=optimization, claims=tuple(found))


PAGE_MARK = "<!-- Written by `./speedmatrix document`; changes by hand are lost. -->"
_NUMERICS = {
    Numerics.EXACT: "exact: the losses are the same, bit for bit",
    Numerics.CLOSE: "close: the losses differ by no more than one and a half times what other seeds do",
    Numerics.DIFFERENT: "different: another training, so that its score must be measured",
}


def page(of: Label, machines: Sequence[Machine] = ()) -> str:
    """The page of one optimization."""
    one = of.optimization
    lines = [PAGE_MARK, "", f"# {one.name}: {one.title}", "", *prose(one.page), *grid(("fact", "value"), facts(one))]
    return "\n".join([*lines, *_measured(one, machines), *_claimed(of)]) + "\n"


def prose(docstring: str) -> Iterator[str]:
    """A docstring's lines, indented code in a fence."""
    for indented, lines in groupby(_with_kind(docstring.strip("\n").splitlines()), key=lambda pair: pair[0]):
        text = textwrap.dedent("\n".join(line for _, line in lines).strip("\n"))
        yield from (f"```{_language(text)}", *text.splitlines(), "```") if indented else text.splitlines()
        yield ""


def _language(code: str) -> str:
    """What colours the code: Python's words where it is Python, none where it is a command or a settings file."""
    try:
        ast.parse(code)
    except SyntaxError:
        return ""
    return "python"


def _with_kind(lines: Iterable[str]) -> Iterator[tuple[bool, str]]:
    """Each line, and whether it is code; an empty line belongs to what it follows."""
    indented = False
    for line in lines:
        indented = line.startswith("    ") if line else indented
        yield indented, line


def facts(one: Optimization) -> Iterator[tuple[str, str]]:
    """What the catalogue knows of an optimization, as names and values in Markdown."""
    yield "stage", str(one.stage)
    yield "workloads", one.workload or "any"
    yield "numerics", _NUMERICS[one.numerics]
    yield "timed on", TIMED[one.timed_on]
    yield "sets", _settings(one.sets)
    yield "proved by", _settings(one.proof)
    given = {
        "levels": ", ".join(map(str, one.levels)),
        "conditions": "; ".join(need.missing for need in one.needs),
        "requires": ", ".join(map(link, one.requires)),
        "excludes": "; ".join(f"{link(name)}, because {escaped(reason)}" for name, reason in one.excludes.items()),
        "supersedes": ", ".join(map(link, one.supersedes)),
        "gains nothing where": "; ".join(f"`{seen}`: {escaped(why)}" for seen, why in one.pointless_where.items()),
        "in `all`": "" if one.sought else "no: it is a price, a harm or a condition, measured for its own sake",
    }
    yield from ((name, value) for name, value in given.items() if value)


def _settings(settings: Mapping[str, Value | Level]) -> str:
    return ", ".join(f"`{name} = {'LEVEL' if isinstance(value, Level) else value}`" for name, value in settings.items())


def link(name: str) -> str:
    """A link from one page to another."""
    return f"[{name}]({name}.md)"


def _claimed(of: Label) -> Iterator[str]:
    yield from ("", "## What is claimed")
    alone = [(claim, findings) for claim, findings in of.claims if claim.differing == {of.name}]
    joined = [claim.name for claim, _ in of.claims if claim.differing != {of.name}]
    if not of.claims:
        yield from ("", "Nothing that the ledger knows of.")
    if alone:
        yield ""
        header = ("claim", "on", "promise", "conditions", "source", "verdict")
        yield from (*grid(header, map(_promise, alone)), "", "`./speedmatrix claims` tells what each verdict rests on.")
    if joined:
        named = ", ".join(f"`{name}`" for name in joined)
        yield from ("", f"Claimed of it together with others, by name in the ledger: {named}.")


def _promise(one: Judged) -> Iterator[str]:
    claim, findings = one
    configs = claim.text, claim.workload, promised(claim), claim.conditions, claim.source, _verdicts(findings)
    return (escaped(config) or NOTHING for config in configs)


def _verdicts(findings: Sequence[tuple[str, Finding]]) -> str:
    """What each machine that tried it says; where none did, on how many it could not be tried, and why."""
    told = [f"{machine}: {_ruled(one)}" for machine, one in findings if one.claim_verdict not in UNTRIED]
    missing = Counter(str(one.claim_verdict) for _, one in findings)
    return "; ".join(told or (f"{words} ({counted(many, 'machine')})" for words, many in missing.items()))


def _ruled(finding: Finding) -> str:
    """The verdict in one word, with its interval where it has one; the words beside it stand among all claims."""
    return f"{finding.claim_verdict}, {measured(finding)}" if finding.measured_value else str(finding.claim_verdict)


def _measured(one: Optimization, machines: Sequence[Machine]) -> Iterator[str]:
    yield from ("", "## What was measured", "")
    answers = *_answers(one.name, machines), *_of_parts(one.name, machines)
    yield from answers or ("No ratio of training steps in the [tables of options alone](README.md) yet.", "")
    where = f"{one.workload} " if one.workload else ""
    yield f"To measure it: `./speedmatrix run {where}--only {one.name}`."
    if machines:
        _, link_to = machines[0]
        told = quote("/".join((*link_to.split("/")[:-1], GALLERY)))
        yield from ("", f"All ratios, over other references too, with their notes and runs: [the gallery]({told}).")


def _answers(name: str, machines: Iterable[Machine]) -> Iterator[str]:
    """What the option comes to alone, by machine and workload."""
    found = {
        (place.name, topic.name): (setting, topic, answer(topic, name))
        for place, _ in machines
        for setting, topic in _topics(place)
    }
    told = {where: _cell(*one) for where, one in found.items() if one[-1]}
    workloads = sorted({workload for _, workload in told})
    rows = (
        (escaped(place.name), *(told.get((place.name, one), NOTHING) for one in workloads))
        for place, _ in machines
        if any((place.name, one) in told for one in workloads)
    )
    if told:
        yield from (
            "Alone; on training steps unless the cell says otherwise ([how to read it](README.md)):",
            "",
            *grid(("machine", *map(escaped, workloads)), rows),
            "",
        )


def _of_parts(name: str, machines: Iterable[Machine]) -> Iterator[str]:
    """What an option makes of a part of the step beside a real accelerator, where nothing tells of the whole step."""
    settings = [(place, setting) for place, _ in machines for setting in place.settings]
    real = [two for two in settings if two[1].environment.accelerated and not two[1].environment.emulated]
    rows = [
        (
            escaped(place.name),
            escaped(f"{topic.name}, size {sheet.config.size}, batch {sheet.config.batch}"),
            TIMED[sheet.timing],
            unbroken(escaped(ratio(one.row.estimate))),
        )
        for place, setting in real
        for topic in setting.topics
        for sheet in topic.sheets
        for one in sheet.measured
        if sheet.is_plain and sheet.timing in PARTS_OF_A_STEP and one.row.on_steps is None
        if one.row.estimate and is_single(one) and one.row.comparison.label.partition("=")[0] == name
    ]
    if rows:
        yield from ("A part of the step alone, which says nothing of the rest:", "")
        yield from (*grid(("machine", "workload", "timed on", "speedup, 95 %"), rows), "")


# The index of all pages: all there are by stage, and what each option gains on each workload.

_INDEX_COLUMNS = "name", "what it is", "numerics", "where"
_INTRODUCTION = (
    "One page each, written by `./speedmatrix document`: what it does, when it pays and hurts, what was measured and "
    "what is claimed of it."
)
_ALONE = (
    "Tables that begin with `Alone` hold speedups by one option, of training steps unless the cell says otherwise, "
    "against the baseline, in which every option is off, or over what the option needs. Intervals are of 95 %. Bold: "
    "faster, and the first losses agree. Plain, without a verdict: faster, but it trains something else, or by a "
    "former table of an emulated device, whose steps were too short: what shortens the input gains less, what overlaps "
    "it perhaps more. From the table: the step alone of an emulated device, of which nothing was measured. "
    f"{COMPOSED}: composed from the ratio of the loader or of the step alone. Of several levels, the one with the "
    "highest lower bound. "
    f"{NOTHING}: not measured, or it does not apply."
)


def index(labels: Sequence[Label], machines: Sequence[Machine] = ()) -> str:
    """The table of all pages by stage and name, and what each option gains on the workloads of some machines."""
    lines = [PAGE_MARK, "", "# Optimizations", "", *textwrap.wrap(_INTRODUCTION, 118)]
    if any(_topics(place) for place, _ in machines):
        lines += ["", *textwrap.wrap(_ALONE, 118)]
    for stage in Stage:
        inside = sorted((one for one in labels if one.optimization.stage is stage), key=lambda one: one.name)
        if inside:
            lines += ["", f"## {str(stage).capitalize()}", "", *grid(_INDEX_COLUMNS, map(_entry, inside))]
    for place, link_to in machines:
        lines += _gained([one.name for one in labels], place, link_to)
    return "\n".join(lines) + "\n"


def _gained(names: Iterable[str], place: Place, link_to: str) -> Iterator[str]:
    """The options that have an answer on a machine, in the order of what they gain for sure."""
    topics = _topics(place)
    found = {name: [answer(topic, name) for _, topic in topics] for name in names}
    told = {name: row for name, row in found.items() if any(row)}
    if told:
        pages = [f"[{escaped(one.name)}]({quote(f'{link_to}/{file_name(one.name)}.md')})" for _, one in topics]
        yield from ("", f"## Alone on {escaped(place.name)}", "")
        ordered = sorted(told.items(), key=lambda one: (-max(low(entry) for entry in one[1] if entry), one[0]))
        rows = (
            (link(name), *(_cell(*where, one) for where, one in zip(topics, row, strict=True))) for name, row in ordered
        )
        yield from grid(("option", *pages), rows)


def _topics(place: Place) -> list[tuple[Setting, Topic]]:
    """The workloads of a machine that were measured against today's baseline, in the setting that tells most."""
    return [(setting, topic) for setting, topic in place.answers if topic.is_of_today]


def answer(topic: Topic, name: str) -> StoredRow | None:
    """What an option comes to alone, at the level that gains most for sure."""
    levels = [one for label, one in topic.alone.items() if label.partition("=")[0] == name]
    return max(levels, key=low, default=None)


def _cell(setting: Setting, topic: Topic, entry: StoredRow | None) -> str:
    """A ratio, its verdict where that is not plain, its level, what was timed, and what it needs."""
    if entry is None or entry.row.shown is None or topic.main is None:
        return NOTHING
    comparison, verdict = entry.row.comparison, entry.row.shown.verdict
    text = on_training(entry)
    level = comparison.label.partition("=")[2]
    facts = [f"at {level}"] if level else []
    if comparison.timing in {Timing.EPOCH, Timing.EVALUATION}:
        facts.append(TIMED[comparison.timing])
    if comparison.reference != topic.main.config:
        facts.append(f"over {entry.table.name}")
    facts += ["former table"] if setting.is_former else []  # of step times
    bold = verdict.gains and learns_alike(entry.row) and not setting.is_former
    is_of_table = entry.row.estimate is not None and entry.row.estimate.looked_up
    words = [
        f"**{text}**" if bold else text,
        *([] if verdict.gains else ["from the table" if is_of_table else str(verdict)]),
    ]
    return " ".join([*words, *([f"({escaped('; '.join(facts))})"] if facts else [])])


def _entry(one: Label) -> Iterator[str]:
    optimization = one.optimization
    yield link(one.name)
    yield escaped(optimization.title)
    yield str(optimization.numerics)
    yield escaped("; ".join([optimization.workload or "any workload", *(need.missing for need in optimization.needs)]))


# The page of what the five reports say: an option, a claim, or why there is neither.

PLACE = "coverage-of-reports.md"
_ITEM_COLUMNS = "lines", "said", "options", "claims", "otherwise, or missing"


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that a report says: its lines, options and claims that it became, and what is otherwise or missing."""

    lines: str
    said: str
    options: tuple[str, ...]
    claims: tuple[str, ...]
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A report, and the workload that was made of it."""

    workload: str
    title: str
    items: tuple[Item, ...]


def read_reports() -> tuple[Report, ...]:
    """All five, as `harness/reports.toml` has them."""
    text = (importlib.resources.files("harness") / "reports.toml").read_text(encoding="utf-8")
    return tuple(
        Report(
            workload=one["workload"],
            title=one["title"],
            items=tuple(
                Item(lines, said, tuple(options.split()), tuple(claims.split()), words)
                for lines, said, options, claims, words in one["items"]
            ),
        )
        for one in tomllib.loads(text)["report"]
    )


def reports_page(reports: Sequence[Report]) -> str:
    """The whole page as Markdown."""
    return "\n".join((PAGE_MARK, "", *_of_reports(reports))) + "\n"


def _of_reports(reports: Sequence[Report]) -> Iterator[str]:
    items = [item for report in reports for item in report.items]
    switched = sum(bool(one.options) for one in items)
    yield "# What the five reports say, and where it stands"
    yield ""
    yield (
        f"{len(items)} items of the reports that the workloads come from. {switched} have an option that "
        f"can be switched, {sum(not one.options and bool(one.claims) for one in items)} a claim without an option of "
        f"their own, {sum(not one.options and not one.claims for one in items)} stand in words alone. Verdicts on the "
        "claims: [results/claims.md](../results/claims.md). Written by `./speedmatrix document` from "
        "`harness/reports.toml`."
    )
    for report in reports:
        yield from ("", f"## {escaped(report.title)} (`{report.workload}`)", "")
        yield from grid(_ITEM_COLUMNS, map(_item, report.items))


def _item(item: Item) -> tuple[str, ...]:
    options = ", ".join(f"[{escaped(name)}](optimizations/{name}.md)" for name in item.options)
    claims = ", ".join(f"`{name}`" for name in item.claims)
    return escaped(item.lines), escaped(item.said), options or "-", claims or "-", escaped(item.words or "-")
