"""Gaps: everything that has no ratio, with the words in its place; those that share their words stand together."""

from collections.abc import Iterator
from dataclasses import dataclass

from harness.analyze.collection import Kept, surest
from harness.report.html.exhibit import Line, Shown
from harness.report.words import one_line

_Told = tuple[Kept, str, str, str]  # run, workload, subject, words


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Comparisons of one workload on one machine without a ratio, and why."""

    machine: str
    workload: str
    subjects: tuple[str, ...]
    words: str


def gaps(shown: Shown, lines: tuple[Line, ...]) -> tuple[Gap, ...]:
    """What has no ratio; among many runs only what has none in any of them in the same environment."""
    found: dict[tuple[str, str, str, str], dict[str, None]] = {}
    for kept, workload, subject, words in _collected(shown, lines) if shown.collected else _of_one_run(shown):
        alike = kept.environment.digest, kept.machine, workload, one_line(words)
        found.setdefault(alike, {})[one_line(subject)] = None
    return tuple(
        Gap(machine=machine, workload=workload, subjects=tuple(subjects), words=words)
        for (_, machine, workload, words), subjects in sorted(found.items(), key=lambda one: one[0][:3])
    )


def _of_one_run(shown: Shown) -> Iterator[_Told]:
    for kept in (exhibit.kept for exhibit in shown.exhibits):
        for row in kept.matrix.rows:
            if row.absence is not None:
                yield kept, row.comparison.treatment.workload, row.subject, row.absence.words
        yield from ((kept, hole.workload, hole.subject, hole.reason) for hole in kept.matrix.holes)


def _collected(shown: Shown, lines: tuple[Line, ...]) -> Iterator[_Told]:
    """Questions that no run answers, in the words of the newest, then plans' holes that nobody has filled since."""
    runs = sorted((exhibit.kept for exhibit in shown.exhibits), key=lambda kept: (kept.began, kept.name), reverse=True)
    for entry in surest(runs):
        row = entry.row
        if row.absence is not None:
            yield entry.kept, row.comparison.treatment.workload, row.subject, row.absence.words
    told = {_asked(line.exhibit.kept, line.entry.table.cell.workload, line.entry.row.subject) for line in lines}
    for kept in runs:
        for hole in kept.matrix.holes:
            asked = _asked(kept, hole.workload, hole.subject)
            if asked not in told:
                told.add(asked)
                yield kept, hole.workload, hole.subject, hole.reason


def _asked(kept: Kept, workload: str, subject: str) -> tuple[str, str, str]:
    return kept.environment.digest, workload, subject
