"""The index of all pages: a table for each stage, with the best and the worst that was measured."""

import textwrap
from collections.abc import Iterator, Sequence

from harness.analyze.estimate import Estimate
from harness.analyze.quality import Agreement
from harness.core.optimization import Stage
from harness.report.markdown import escaped, grid
from harness.report.pages import MARK, link
from harness.report.subjects import Measured, Subject
from harness.report.words import NOTHING, ratio

_COLUMNS = "name", "what it is", "numerics", "where", "best", "worst"
_INTRODUCTION = (
    "One page each: what it does, when it pays and hurts, what was measured and what is claimed of it. Best and worst "
    "are over machines, workloads, levels and references: the newest ratio of each, timed on what the optimization "
    "acts on. Only ratios with a verdict count; others are on its page. `./speedmatrix document` writes these pages."
)


def index(subjects: Sequence[Subject]) -> str:
    """The table of all pages, by stage and then by name."""
    lines = [MARK, "", "# Optimizations", "", *textwrap.wrap(_INTRODUCTION, 118)]
    for stage in Stage:
        inside = sorted((one for one in subjects if one.optimization.stage is stage), key=lambda one: one.name)
        if inside:
            lines += ["", f"## {str(stage).capitalize()}", "", *grid(_COLUMNS, map(_entry, inside))]
    return "\n".join(lines) + "\n"


def _entry(one: Subject) -> Iterator[str]:
    optimization = one.optimization
    yield link(one.name)
    yield escaped(optimization.title)
    yield str(optimization.numerics)
    yield escaped("; ".join([optimization.workload or "any workload", *(need.missing for need in optimization.needs)]))
    ranked = sorted(one.decided, key=lambda pair: pair[1].ratio)
    if not ranked:
        yield from ("see its page" if one.measured else "not measured yet", NOTHING)
        return
    yield _told(*ranked[-1])
    yield _told(*ranked[0]) if len(ranked) > 1 else "the same"


def _told(one: Measured, estimate: Estimate) -> str:
    cell = one.row.comparison.reference
    which = [cell.workload, cell.size, *([f"level {one.level}"] if one.level else [])]
    quality = one.row.quality
    if quality and quality.status in {Agreement.DIFFERS, Agreement.NAN}:
        which.append("quality differs")
    return escaped(f"{ratio(estimate)} ({', '.join(which)}{', real data' if one.data else ''}; {one.machine})")
