"""The ledger's report in three forms: for the terminal, as Markdown and as JSON."""

import io
import json
from collections.abc import Iterator, Sequence
from typing import Any

from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness.analyze.claims import Account, Finding
from harness.analyze.ruling import REFUTED, Ruling
from harness.core.plain import encode
from harness.report import claims
from harness.report.markdown import escaped, grid
from harness.report.words import one_line

SCHEMA = 1
_COLOUR = {
    Ruling.CONFIRMED: "green",
    Ruling.UNDECIDED: "yellow",
    Ruling.TESTED_OTHERWISE: "blue",
    **dict.fromkeys(REFUTED, "red"),
}
_CONTRADICTING = "Claims that contradict each other"


def to_terminal(accounts: Sequence[Account], *, width: int, colour: bool) -> str:
    """All machines' findings as text of so many columns, with terminal colours if wanted."""
    stream = io.StringIO()
    console = Console(file=stream, width=width, force_terminal=colour, no_color=not colour, highlight=False)
    for account in accounts:
        for part in _parts(account):
            console.print(part)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


def _parts(account: Account) -> Iterator[RenderableType]:
    yield Text(f"{account.machine}: {claims.count_line(account.findings)}", style="bold")
    for title, findings in claims.grouped(account).items():
        yield Padding(Text(title, style="bold"), (1, 0, 0, 0))
        yield _table(findings)
    for number, group in enumerate(claims.contradictions(account.findings)):
        if number == 0:
            yield Padding(Text(_CONTRADICTING, style="bold"), (1, 0, 0, 0))
        yield _table(group)
    yield Text("")


def _table(findings: Sequence[Finding]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(claims.COLUMNS):
        table.add_column(name, overflow="fold", no_wrap=number == 0)
    for finding in findings:
        for row in claims.body([finding]):
            style = _COLOUR.get(finding.ruling, "dim")
            table.add_row(*(Text(one_line(cell)) for cell in row[:-1]), Text(row[-1], style=style))
    return table


def to_markdown(accounts: Sequence[Account]) -> str:
    """All machines' findings as a page that is the same whenever it is made of the same runs."""
    return "\n".join(line for part in _page(accounts) for line in part) + "\n"


def _page(accounts: Sequence[Account]) -> Iterator[Sequence[str]]:
    yield "# Claims", "", "What others promised, and what was measured. Made by `speedmatrix claims --format markdown`."
    for account in accounts:
        yield "", f"## {escaped(account.machine)}", ""
        yield (escaped(claims.count_line(account.findings)) + ".",)
        for title, findings in claims.grouped(account).items():
            yield _heading(title)
            yield tuple(_grid(findings))
            yield ("", *(_explained(finding) for finding in findings))
        groups = claims.contradictions(account.findings)
        yield _heading(_CONTRADICTING) if groups else ()
        for group in groups:
            yield (*_grid(group), "")


def _grid(findings: Sequence[Finding]) -> Iterator[str]:
    return grid(claims.COLUMNS, (map(escaped, row) for row in claims.body(findings)))


def _heading(title: str) -> tuple[str, str, str]:
    return "", f"### {escaped(title)}", ""


def _explained(finding: Finding) -> str:
    return f"- {escaped(finding.claim.name)}: {escaped(' '.join(claims.details(finding)))}"


def to_json(accounts: Sequence[Account]) -> str:
    """All machines' findings as JSON; an endless bound is the string `inf`."""
    document = {
        "schema": SCHEMA,
        "machines": [
            {"machine": one.machine, "runs": list(one.runs), "findings": [_plain(finding) for finding in one.findings]}
            for one in accounts
        ],
    }
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(finding: Finding) -> dict[str, Any]:
    basis = finding.basis
    return {
        "claim": encode(finding.claim),
        "workload": finding.workload,
        "verdict": str(finding.ruling),
        "refuted": finding.ruling in REFUTED,
        "words": finding.words,
        "estimate": encode(finding.gauged),
        "tested": basis
        and {
            "run": basis.run,
            "treatment": str(basis.cell),
            "reference": str(basis.reference),
            "timing": str(basis.tried.timing),
            "real_data": basis.data,
            "shortfalls": list(basis.tried.shortfalls),
        },
        "workloads": [_plain(part) for part in finding.parts],
    }
