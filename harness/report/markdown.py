"""The Markdown report: what the terminal shows and the details, with all foreign text escaped."""

import re
from collections.abc import Iterable, Iterator, Sequence

from harness.analyze.matrix import Matrix, Table
from harness.analyze.outlook import Outlook
from harness.report import predicted, sentences
from harness.report.words import one_line

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~!&$])")


def to_markdown(matrix: Matrix, command: str, outlooks: Iterable[Outlook] = ()) -> str:
    """The whole report; `command` is the command line that measures the same again."""
    return "\n".join((*_lines(matrix, command), *(line for one in outlooks for line in _outlook(one)))) + "\n"


def escaped(text: str) -> str:
    """Text that Markdown shows as it is: no markup, no HTML, no link, no table border."""
    literal = _SPECIAL.sub(r"\\\1", one_line(text))
    # Slashes after a colon and the dot after www would make links without any brackets.
    return re.sub(r"(?i)\bwww\.", lambda www: www[0][:-1] + r"\.", literal.replace("://", r"\://"))


def _lines(matrix: Matrix, command: str) -> Iterator[str]:
    yield from ("# Speedup matrix", "")
    yield from _grid(("fact", "value"), sentences.heading(matrix))
    yield from ("", "To measure the same again:", "", *_code(command))
    for workload in sentences.workloads(matrix):
        for table in matrix.tables:
            if table.cell.workload == workload and any(row.estimate for row in table.rows):
                yield from _table(table)
        if holes := sentences.holes(matrix, workload):
            yield from _section(f"{workload}, without a ratio")
            yield from _grid(("subject", "why"), holes)


def _table(table: Table) -> Iterator[str]:
    yield from _section(sentences.title(table))
    yield from _grid(sentences.columns(table), sentences.body(table))
    for sentence in sentences.causes(table):
        yield from ("", escaped(sentence))
    yield ""
    for row in table.rows:
        if details := "; ".join(sentences.details(row)):
            yield f"- {escaped(row.subject)}: {escaped(details)}."


def _outlook(outlook: Outlook) -> Iterator[str]:
    """What was predicted and not measured, in italics where a measured ratio would be upright."""
    yield from _section(predicted.title(outlook))
    for sentence in predicted.sentences(outlook):
        yield from (escaped(sentence), "")
    if rows := tuple(predicted.rows(outlook)):
        yield from grid(predicted.COLUMNS, ((escaped(name), f"*{escaped(ratio)}*") for name, ratio in rows))
        yield ""
    if outlook.anatomy is not None:
        yield from (f"### What {escaped(outlook.anatomy.subject)} is made of", "")
        yield from (escaped(predicted.part_sentence(outlook.anatomy)), "")
        yield from (*_grid(predicted.PARTS, predicted.part_rows(outlook.anatomy)), "")
    if outlook.check is not None:
        yield from ("### Foretold and measured", "")
        for sentence in predicted.check_sentences(outlook.check):
            yield from (escaped(sentence), "")
        yield from _grid(predicted.CHECKS, predicted.check_rows(outlook))


def _section(title: str) -> tuple[str, ...]:
    return "", f"## {escaped(title)}", ""


def grid(header: Sequence[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """A table of cells that are Markdown already."""
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)


def _grid(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield from grid(header, (map(escaped, row) for row in rows))


def _code(command: str) -> tuple[str, str, str]:
    """A fence longer than any run of backticks inside, so that nothing can end it early."""
    line = one_line(command)
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", line)), default=0))
    return f"{fence}sh", line, fence
