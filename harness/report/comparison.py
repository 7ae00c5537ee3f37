"""The comparison in three forms: for the terminal, as Markdown and as JSON."""

import io
import json
from collections.abc import Iterator
from typing import Any

from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness.analyze.comparison import Comparison, Found, Group, Shared
from harness.analyze.contrast import Difference
from harness.analyze.places import Place
from harness.report.machine_readable import plain
from harness.report.markdown import escaped, grid
from harness.report.side_by_side import Grid, Section, sections
from harness.report.words import one_line

SCHEMA = 1
_COLOUR = {Difference.MORE: "green", Difference.LESS: "red", Difference.ALIKE: "dim", Difference.UNDECIDED: "yellow"}


def to_terminal(comparison: Comparison, *, width: int, colour: bool) -> str:
    """The comparison as text of so many columns, with terminal colours if wanted."""
    stream = io.StringIO()
    console = Console(file=stream, width=width, force_terminal=colour, no_color=not colour, highlight=False)
    for number, section in enumerate(sections(comparison)):
        for part in _rendered(section, first=number == 0):
            console.print(part)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


def _rendered(section: Section, *, first: bool) -> Iterator[RenderableType]:
    yield Padding(Text(one_line(section.title), style="bold"), (0 if first else 1, 0, 0, 0))
    for part in section.parts:
        if isinstance(part, Grid):
            yield _table(part)
        else:
            yield from (Padding(Text(one_line(sentence)), (0, 0, 0, 2)) for sentence in part)


def _table(part: Grid) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for name in part.columns:
        table.add_column(one_line(name), overflow="fold")
    for number, row in enumerate(part.rows):
        next_begins = number + 1 < len(part.rows) and bool(part.rows[number + 1][0])
        continued = any(not one[0] for one in part.rows)
        table.add_row(*map(_cell, row), end_section=continued and next_begins)
    return table


def _cell(text: str) -> Text:
    return Text(one_line(text), style=_COLOUR[Difference(text)] if text in list(Difference) else "")


def to_markdown(comparison: Comparison) -> str:
    """The comparison as a page that is the same whenever it is made of the same runs."""
    return "\n".join(_page(comparison)) + "\n"


def _page(comparison: Comparison) -> Iterator[str]:
    yield "# Comparison"
    for section in sections(comparison):
        yield from ("", f"## {escaped(section.title)}")
        for part in section.parts:
            if part:
                yield ""
            if isinstance(part, Grid):
                yield from grid(part.columns, (map(escaped, row) for row in part.rows))
            else:
                yield from (f"- {escaped(sentence)}" for sentence in part)


def to_json(comparison: Comparison) -> str:
    """Everything a script needs; rates in samples a second, an endless bound is null."""
    document = {
        "schema": SCHEMA,
        "places": [_place(one) for one in comparison.places],
        "environments_differ": comparison.environments,
        "protocols_differ": comparison.protocols,
        "currency": comparison.currency or None,
        "groups": [_group(one) for one in comparison.groups],
        "measured_unlike": comparison.scales,
        "in_one_place": comparison.lonely,
    }
    return json.dumps(plain(document), indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def _place(one: Place) -> dict[str, Any]:
    environment = one.environment
    return {
        "letter": one.letter,
        "machine": environment.machine,
        "environment": {**plain(environment), "digest": environment.digest},
        "contributed": one.contributed,
        "runs": [run.name for run in one.runs],
    }


def _group(group: Group) -> dict[str, Any]:
    return {
        "reference": str(group.cell),
        "reference_name": group.name,
        "timing": group.timing,
        "real_data": group.data,
        "throughputs": group.throughputs,
        "cells": [_shared(one) for one in group.cells],
    }


def _shared(cell: Shared) -> dict[str, Any]:
    return {
        "subject": cell.subject,
        "treatment": str(cell.question.treatment),
        "difference": cell.difference,
        "verdicts_disagree": cell.disagrees,
        "places": [_found(one) for one in cell.found],
    }


def _found(one: Found) -> dict[str, Any]:
    row, against = one.entry.row, one.against
    return {
        "letter": one.letter,
        "run": one.entry.kept.name,
        "estimate": row.estimate,
        "absence": row.absence,
        "against": against.letter if against else None,
        "contrast": against.contrast if against else None,
        "bottlenecks": against.bottlenecks if against else None,
        "settings": against.settings if against else None,
    }
