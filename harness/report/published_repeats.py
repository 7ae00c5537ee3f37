"""What was measured twice, on the page of a machine: do two runs give the same answer?"""

import math
from collections.abc import Iterator, Sequence

from harness.analyze.repeated import Repeated
from harness.report.markdown import escaped, grid
from harness.report.published_cells import Part, counted, estimated, run_link
from harness.report.sentences import TIMED

SHOWN = 10
_COLUMNS = "workload", "subject", "timed on", "against", "first", "then", "apart", "agree"


def repeats(pairs: Sequence[Repeated]) -> Iterator[Part]:
    """How many answers agree, and those that lie furthest apart; nothing where nothing was measured twice."""
    if not pairs:
        return
    agreeing, inside = sum(one.agrees for one in pairs), sum(one.is_inside for one in pairs)
    yield from ("", "### Measured again", "")
    yield (
        f"{counted(len(pairs), 'question')} of this environment, copies of the reference among them, with answers of "
        "two runs, each with processes of its own, perhaps of one day. In "
        f"{agreeing} ({_share(agreeing, pairs)}) the two ratios differ by no more than their intervals allow, where "
        f"95 % is what honest intervals give; in {inside} ({_share(inside, pairs)}) each ratio lies inside the other's "
        "interval, where 83 % is. The furthest apart:"
    )
    yield from ("", *grid(_COLUMNS, map(_row, pairs[:SHOWN])))


def _share(count: int, pairs: Sequence[Repeated]) -> str:
    return f"{100 * count / len(pairs):.0f} %"


def _row(pair: Repeated) -> tuple[str, ...]:
    comparison = pair.later.row.comparison
    return (
        escaped(comparison.reference.workload),
        escaped(pair.later.row.subject),
        escaped(TIMED[comparison.timing]),
        escaped(pair.later.table.name),
        f"{estimated(pair.earlier)}, {run_link(pair.earlier.kept)}",
        f"{estimated(pair.later)}, {run_link(pair.later.kept)}",
        escaped(f"{100 * math.expm1(abs(pair.apart)):.1f} %"),
        "yes" if pair.agrees else "no",
    )
