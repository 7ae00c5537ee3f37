"""`plan --fleet`: what machines of several kinds have to measure, how far they are, and how long it takes."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.table import Table
from typer.main import get_command

from harness.cli.commands import app, request_of
from harness.cli.measuring import state_of
from harness.cli.reading import console
from harness.core.environment import Environment
from harness.core.mistake import Mistake
from harness.core.plan import Request
from harness.plan.cost import seconds_for
from harness.plan.fleet import Kind, course, parsed
from harness.report.words import NOTHING, duration, share
from harness.run.preparation import prepared, run_of
from harness.store import read_run

_COLUMNS = "machines", "shards", "measured", "comparisons", "longest", "in all", "ends after", "idle", "packed", "cost"


def show_fleet(path: Path, results: Path) -> int:
    """Prints a row for each kind of machine; gives 0 when all is measured, else 3."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Mistake(f"{path} cannot be read ({error}); name a file such as docs/fleet/fleet.toml.") from error
    table, left = Table(*_COLUMNS, title="What a fleet has to measure"), 0
    for kind in parsed(text, path.name):
        words, missing = _row(kind, path.parent, results)
        table.add_row(*words)
        left += missing
    where = console()
    where.print(table)
    where.print(
        "Of what is left, in all: hours of all machines together; ends after: an engine hands the longest shard to "
        "whichever machine is free, simulated; packed: if work could be cut at will.",
        highlight=False,
    )
    return 3 if left else 0


def _row(kind: Kind, folder: Path, results: Path) -> tuple[tuple[str, ...], int]:
    """The words of a kind, and how many of its shards are not measured."""
    environment = read_run(folder / kind.run).environment if kind.run else None
    left_s: list[float] = []
    comparisons = measured = 0
    for one in kind.measure:
        request = _request(one.words, environment)
        for number in range(1, one.shards + 1):
            part = prepared(replace(request, shard=f"{number}/{one.shards}"))
            comparisons += len(part.plan.comparisons)
            if state_of(run_of(part), results).startswith("measured"):
                measured += 1
            else:
                left_s.append(seconds_for(part.plan, part.paces))
    counts = str(measured + len(left_s)), str(measured), f"{comparisons:,}"
    return (f"{kind.count} of {kind.name}", *counts, *_foreseen(left_s, kind)), len(left_s)


def _foreseen(left_s: Sequence[float], kind: Kind) -> tuple[str, ...]:
    """The words for how long the shards that are not measured take, and what that costs."""
    if not left_s:
        return (NOTHING,) * 6
    found = course(left_s, kind.count)
    price = NOTHING if kind.per_hour is None else f"{kind.per_hour * kind.count * found.span_s / 3600:,.2f}"
    times = map(duration, (found.longest_s, found.total_s, found.span_s))
    return *times, share(found.idle), duration(found.perfect_s), price


def _request(words: str, environment: Environment | None) -> Request:
    """The request in the words of `run`; what `run` would not take ends as it does there."""
    run = get_command(app).commands["run"]  # type: ignore[attr-defined]
    try:
        found = request_of(run.make_context("run", shlex.split(words)).params)
    except ValueError as error:
        raise Mistake(f"'{words}' is no command line ({error}); write the options of run.") from error
    return replace(found, environment=environment, device=environment.device if environment else found.device)
