"""Pages of optimizations as Markdown: what each does, what is promised of it, and what was measured beside it."""

import ast
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from urllib.parse import quote

from harness.analyze.claims import Finding
from harness.core.optimization import Level, Numerics, Optimization
from harness.core.recipe import Value
from harness.report.claims import measured, promised
from harness.report.markdown import escaped, grid
from harness.report.sentences import TIMED
from harness.report.subjects import Judged, Measured, Subject
from harness.report.words import NOTHING, ratio

MARK = "<!-- Written by `./speedmatrix document`; changes by hand are lost. -->"
_NUMERICS = {
    Numerics.EXACT: "exact: the losses are the same, bit for bit",
    Numerics.CLOSE: "close: the losses differ by no more than one and a half times what other seeds do",
    Numerics.DIFFERENT: "different: it changes what is learned, so that its score must be measured",
}


def page(of: Subject) -> str:
    """The page of one optimization."""
    one = of.optimization
    lines = [MARK, "", f"# {one.name}: {one.title}", "", *prose(one.page), *grid(("fact", "value"), facts(one))]
    return "\n".join([*lines, *_measured(of), *_claimed(of)]) + "\n"


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
        "in `everything`": "" if one.sought else "no: it is a price, a harm or a condition, measured for its own sake",
    }
    yield from ((name, value) for name, value in given.items() if value)


def _settings(settings: Mapping[str, Value | Level]) -> str:
    return ", ".join(f"`{name} = {'LEVEL' if isinstance(value, Level) else value}`" for name, value in settings.items())


def link(name: str) -> str:
    """A link from one page to another."""
    return f"[{name}]({name}.md)"


def _claimed(of: Subject) -> Iterator[str]:
    yield from ("", "## What is claimed")
    alone = [one for one in of.claims if one.claim.differing == {of.name}]
    joined = [one.claim.name for one in of.claims if one.claim.differing != {of.name}]
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
    claim = one.claim
    verdicts = "; ".join(f"{machine}: {_ruled(finding)}" for machine, finding in one.findings)
    cells = claim.text, claim.workload, promised(claim), claim.conditions, claim.source, verdicts
    return (escaped(cell) or NOTHING for cell in cells)


def _ruled(finding: Finding) -> str:
    """The ruling in one word, with its interval where it has one; the words beside it stand among all claims."""
    return f"{finding.ruling}, {measured(finding)}" if finding.gauged else str(finding.ruling)


def _measured(of: Subject) -> Iterator[str]:
    yield from ("", "## What was measured", "")
    where = f"{of.optimization.workload} " if of.optimization.workload else ""
    command = f"`./speedmatrix run {where}--only {of.name}`"
    if not of.measured:
        yield f"Not measured yet: {command} does it."
        return
    yield from grid(_COLUMNS, map(_cells, of.newest))
    older = len(of.measured) - len(of.newest)
    more = f"Older runs have {older} more. " if older else ""
    yield from ("", f"{more}To measure it again: {command}.")


_COLUMNS = "machine", "workload", "level", "timed on", "against", "speedup, 95 %", "verdict", "quality", "notes", "run"


def _cells(one: Measured) -> Iterator[str]:
    row, cell = one.row, one.row.comparison.reference
    yield escaped(one.machine)
    yield escaped(f"{cell.workload}, {cell.size}, batch {cell.batch}" + (f"; {one.data}" if one.data else ""))
    yield escaped(one.level or NOTHING)
    yield TIMED[row.comparison.timing]
    yield escaped(row.reference_name)
    yield escaped(ratio(row.estimate)) if row.estimate else "no ratio"
    yield row.estimate.verdict.value if row.estimate else NOTHING
    yield row.quality.status.value if row.quality else NOTHING
    yield escaped("; ".join(row.notes) if row.absence is None else row.absence.words) or NOTHING
    yield f"[{escaped(one.day)}]({quote(one.link)})"
