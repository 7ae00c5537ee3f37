"""Grouping: the runs of a machine's folder into settings, topics and sheets."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from harness.analyze.attribution import data_of
from harness.analyze.claims import Account
from harness.analyze.collection import Entry, Kept, surest
from harness.core.cell import Cell
from harness.core.optimization import Timing
from harness.report.published import STACKS, Place, Setting, Sheet, Topic, is_copy, telling

_TIMINGS = tuple(Timing)
_SHORT = 3  # switches of a reference that is called by them all


def place(name: str, runs: Iterable[Kept], accounts: Iterable[Account] = ()) -> Place:
    """What the runs of a machine's folder say; contributed ones never stand in for our own."""
    runs = tuple(runs)
    ours = _settings([one for one in runs if not one.contributed], is_contributed=False)
    theirs = _settings([one for one in runs if one.contributed], is_contributed=True)
    return Place(name=name, settings=(*ours, *theirs), accounts=tuple(accounts))


def _settings(runs: Iterable[Kept], *, is_contributed: bool) -> tuple[Setting, ...]:
    by_digest: dict[str, list[Kept]] = defaultdict(list)
    for kept in sorted(runs, key=lambda one: (one.began, one.name), reverse=True):
        by_digest[kept.environment.digest].append(kept)
    return tuple(
        Setting(
            environment=group[0].environment, is_contributed=is_contributed, runs=tuple(group), topics=_topics(group)
        )
        for group in by_digest.values()
    )


def _topics(runs: Iterable[Kept]) -> tuple[Topic, ...]:
    runs = tuple(runs)
    by_workload: dict[str, list[Entry]] = defaultdict(list)
    for entry in surest(runs):
        by_workload[entry.row.comparison.treatment.workload].append(entry)
    return tuple(
        Topic(name=name, sheets=_sheets(entries), holes=_holes(name, runs, entries))
        for name, entries in sorted(by_workload.items())
    )


def _sheets(entries: Iterable[Entry]) -> tuple[Sheet, ...]:
    entries = tuple(entries)
    stacks = {one.row.comparison.treatment: one.row.comparison.subject for one in entries if _is_named(one)}
    grouped: dict[tuple[Cell, Timing, str], list[Entry]] = defaultdict(list)
    for entry in entries:
        comparison = entry.row.comparison
        grouped[comparison.reference, comparison.timing, data_of(entry)].append(entry)
    sheets = [
        Sheet(name=_name(cell, group, stacks), data=data, entries=tuple(group))
        for (cell, _, data), group in grouped.items()
    ]
    return tuple(sorted(sheets, key=_order))


def _is_named(entry: Entry) -> bool:
    return entry.row.comparison.subject in STACKS and not is_copy(entry)


def _name(cell: Cell, entries: Iterable[Entry], stacks: Mapping[Cell, str]) -> str:
    """What its runs call a reference, unless that is a long row of switches."""
    called = next(entry.table.name for entry in entries)
    if len(cell.switches) <= _SHORT or called in STACKS:
        return called
    return stacks.get(cell, f"a stack of {len(cell.switches)}")


def _order(sheet: Sheet) -> tuple[object, ...]:
    """The plain system's training first, then what has most to tell."""
    return (
        sheet.data,
        telling(sheet),
        not sheet.is_plain,
        _TIMINGS.index(sheet.timing),
        -len(sheet.measured),
        str(sheet.cell),
    )


def _holes(workload: str, runs: Iterable[Kept], entries: Iterable[Entry]) -> dict[str, str]:
    """What newer runs first say cannot be compared; what a claim lacks stands among the claims."""
    known = {entry.row.comparison.subject for entry in entries}
    found: dict[str, str] = {}
    for kept in runs:
        for hole in kept.matrix.holes if kept.matrix.design != "claims" else ():
            if hole.workload == workload and hole.subject not in known:
                found.setdefault(hole.subject, hole.reason)
    return found
