"""The summary: what stands at the top of a page, so that its first screen says what was measured, where and how."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator

from harness.analyze.collection import TOO_SMALL
from harness.analyze.verdict import MARGIN, Verdict, limits
from harness.core.environment import Environment
from harness.report import matrix as sentences
from harness.report.html.exhibit import Line, Shown
from harness.report.words import size

_SHOWN = "machine", "protocol", "noise", "software", "plan", "data", "environment"
_MOST = 3  # different values that are told one by one


def heading(shown: Shown) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The facts that every number depends on: name and values, of which there are several where runs differ."""
    facts = [dict(sentences.heading(exhibit.kept.matrix)) for exhibit in shown.exhibits]
    for name in _SHOWN:
        values = tuple(dict.fromkeys(one[name] for one in facts))
        yield name, values if len(values) <= _MOST else (f"{len(values)} different ones, named beside each run",)


def counts(shown: Shown, lines: tuple[Line, ...]) -> str:
    """How many comparisons have a ratio: `9 of 189 comparisons have a ratio`; of many runs the surest answers."""
    if shown.collected:
        return f"{len(current(lines))} comparisons have a ratio"
    matrices = [exhibit.kept.matrix for exhibit in shown.exhibits]
    total = sum(len(matrix.rows) + len(matrix.no_results) for matrix in matrices)
    return f"{len(lines)} of {total} comparisons have a ratio"


def current(lines: tuple[Line, ...]) -> tuple[Line, ...]:
    """The lines whose questions no other run answers more surely."""
    return tuple(line for line in lines if not line.older)


def verdicts(lines: tuple[Line, ...]) -> tuple[tuple[Verdict, int], ...]:
    """How often each verdict was given, those that were given at all."""
    counted = Counter(line.estimate.verdict for line in current(lines))
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
    yield Verdict.UNDECIDED, "anything else, and whatever a restless machine gave: more replicates would tell"


def _either(bounds: Iterable[float]) -> str:
    """The limits of all machines: `1.01 or 1.03, by the calibration of its machine`."""
    texts = [f"{one:g}" for one in bounds]
    return " or ".join(texts) + (", by the calibration of its machine" if len(texts) > 1 else "")


def remarks(shown: Shown, lines: tuple[Line, ...]) -> Iterator[str]:
    """What a reader must know before looking at any number."""
    if any(exhibit.rehearsed for exhibit in shown.exhibits):
        yield "Rehearsed: every time in this report is invented, and nothing was measured."
    older = sum(line.older for line in lines)
    if older:
        yield f"{older} more ratios are less sure answers to the same questions; runs are never pooled."
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
    tables = [line.entry.table for line in lines]
    given = (one for one, _ in verdicts(lines))
    found = (
        ("machine", "Machine", sorted({line.entry.run.machine for line in lines})),
        ("workload", "Workload", sorted({table.config.workload for table in tables})),
        ("timed", "Timed on", sorted({sentences.TIMED[table.timing] for table in tables})),
        ("stage", "Stage", sorted({line.stage for line in lines})),
        ("verdict", "Verdict", map(str, given)),
    )
    for name, label, values in found:
        if len(chosen := tuple(values)) > 1:
            yield name, label, chosen
