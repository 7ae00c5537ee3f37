"""What `calibrate` found in words: every delay beside what became of it, and arms that shared a process."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from statistics import median

from harness.analyze.calibration import Calibration, Known
from harness.analyze.grouping import together
from harness.analyze.isolation import Agreement, BothWays
from harness.analyze.soundness import Absence
from harness.core.catalogue import Apart
from harness.core.recipe import OF_PROCESS
from harness.core.workload import Workload
from harness.report.document import Column, Heading, Part, Span, Table, Text
from harness.report.matrix import TIMED
from harness.report.words import NOTHING, one_line, ratio

HEADINGS = "workload", "control", "put in", "found", "recovered"


def calibration_parts(calibration: Calibration) -> Iterator[Part]:
    """The delays that were put in and what was found of each, how far replicates scatter, and the header's sentence."""
    spread = 100 * calibration.thresholds.least_spread
    yield Text("Are delays found that were put in?", style="bold")
    yield Table(HEADINGS, tuple(_controls(calibration)))
    yield Text(
        f"Replicates lie {spread:.2f} % from the truth (standard deviation): no interval rests on less than that."
    )
    yield Text(f"{calibration.sentence}.", style="bold")


def _controls(calibration: Calibration) -> Iterator[tuple[str, ...]]:
    """One row for each delay, under HEADINGS, the smallest delays first."""
    for level in calibration.levels:
        for one in level.controls:
            truth = f"{one.truth:.3f}x" if one.truth else NOTHING
            named = one.comparison.treatment.workload, one_line(one.comparison.label)
            yield *named, truth, ratio(one.estimate), _became(one)


def _became(known: Known) -> str:
    if isinstance(known.result, Absence):
        return one_line(f"no: {known.result.words}")
    if not known.holds:
        return "no: its interval leaves out what was put in"
    return "yes" if known.recovered else "no: too wide to tell it from nothing"


# Isolation: ratios of arms that shared a process beside those of isolated ones, and who is kept apart.

COLUMNS = (
    "configuration", "timed on", Column(name="shared"), Column(name="isolated"), Column(name="shared over isolated"),
    "same?",
)  # fmt: skip


def isolation_parts(found: Sequence[BothWays]) -> Iterator[Part]:
    """What agrees, then a table for each machine and workload."""
    yield Text(summary(found))
    by_place = together(
        ((one.environment.machine, one.comparison.reference.workload, one.comparison.reference.size), one)
        for one in found
    )
    for (machine, workload, size), here in by_place.items():
        yield Heading(f"{workload}, {size}, on {machine}", 2)
        yield Table(COLUMNS, tuple(map(_row, here)))


def summary(found: Sequence[BothWays]) -> str:
    """How many comparisons are compatible, how many of them closely, and how wide the intervals of each way are."""
    if not found:
        return "Nothing was measured both ways yet."
    counts, total = Counter(one.agreement for one in found), len(found)
    compatible = total - counts[Agreement.DISAGREE]
    shared, isolated = (math.expm1(median(way(one).half_width for one in found)) for way in (SHARED, ISOLATED))
    return (
        f"Of {total} comparisons that were measured both ways the ratios of {counts[Agreement.DISAGREE]} differ by "
        f"more than their intervals allow, where chance would let one in twenty; {compatible} "
        f"({100 * compatible / total:.0f} %) are compatible. {counts[Agreement.AGREE] or 'None'} of these are shown to "
        "be the same within 2.5 %; the intervals of the others are too wide for that. Half the intervals are narrower "
        f"than ±{100 * shared:.1f} % in shared processes, and than ±{100 * isolated:.1f} % in isolated ones."
    )


SHARED, ISOLATED = attrgetter("shared"), attrgetter("isolated")


def _row(one: BothWays) -> tuple[str, ...]:
    label, timing = one_line(one.comparison.label), TIMED[one.comparison.timing]
    return label, timing, ratio(one.shared), ratio(one.isolated), ratio(one.quotient), one.agreement.value


def page_parts(found: Sequence[BothWays], apart: Sequence[Apart], workloads: Iterable[Workload]) -> Iterator[Part]:
    """The whole page: what was measured, who is kept apart for that, and who is by nature."""
    yield Heading("Arms that share a process", 1)
    yield from isolation_parts(found)
    yield Heading("Kept apart", 2)
    yield Text(
        (
            Span("These have processes of their own wherever others share one: whole epochs, evaluations and a "),
            Span("user's own file; options whose ratios disagree; and choices that a process makes once for all its "),
            Span("arms ("),
            Span("harness/core/recipe.py", "code"),
            Span("), those of one workload among them."),
        )
    )
    measured = tuple((", ".join(one.names), f"{one.reason}, {one.device}") for one in apart)
    by_nature = [(f"the choice {name}", reason) for name, reason in OF_PROCESS.items()]
    by_nature += [(f"{one.name}: {name}", reason) for one in workloads for name, reason in one.of_process.items()]
    yield Table(("option or choice", "why"), (*measured, *by_nature))
    yield Text(
        (
            Span("Written from the runs of that design in "),
            Span("results/", "code"),
            Span(" by "),
            Span("./speedmatrix calibrate --isolation --output docs/isolation.md", "code"),
            Span("; how arms share a process: "),
            Span("docs/decisions/shared-arms.md", "code"),
            Span("."),
        )
    )


def apart_toml(apart: Iterable[Apart]) -> str:
    """The same list as planning reads it."""
    lines = ["# Written by `calibrate --isolation --output docs/isolation.md` from the runs in results/, not by hand."]
    for one in apart:
        lines += ["", "[[apart]]", f"device = {json.dumps(one.device)}", f"names = {json.dumps([*one.names])}"]
        lines += [f"reason = {json.dumps(one.reason)}"]
    return "\n".join(lines) + "\n"
