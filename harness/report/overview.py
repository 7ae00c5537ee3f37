"""The overview: a matrix, or advice, on one screen of a terminal: results first, the rest as counts by reason."""

import math
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from harness.analyze.advice import Advice, Recommendation, Style, WorkloadAdvice
from harness.analyze.composition import NORMAL
from harness.analyze.grouping import together
from harness.analyze.matrix import Matrix, Row, Table
from harness.core.configuration import Comparison
from harness.core.environment import Environment
from harness.core.optimization import Timing
from harness.report.advice import gained
from harness.report.batches import batch_parts
from harness.report.document import Code, Column, Heading, Part, Text, tabled
from harness.report.epochs import epoch_parts
from harness.report.matrix import (
    COMPOSED,
    CONTRIBUTED,
    TIMED,
    View,
    columns,
    grown,
    of_steps,
    quality,
    replicates,
    row_values,
    time_spent,
    told_of,
)
from harness.report.scaling import scaling_parts
from harness.report.words import NOTHING, called, one_line, rate, ratio, roughly, share, shortened

MOST_ROWS = 18  # of the one table; the report has them all
MOST_REASONS = 5
OF_COPIES = {"calibration", "against_itself"}  # designs in which copies of references are not hidden
USUAL_WIDTH = 0.05  # half-width of an interval that counts as narrow where the protocol names none


def overview(matrix: Matrix, version: str) -> Iterator[Part]:
    """A matrix on one screen: at most 40 lines for five workloads."""
    yield from _opening(matrix, version)
    if matrix.tables or not matrix.batch_tables:
        yield from _speedups(matrix)
    yield from batch_parts(matrix.batch_tables)
    yield from scaling_parts(matrix.every_row, on_a_cpu=matrix.environment.device == "cpu")
    yield from epoch_parts(matrix)
    yield from map(Text, remarks(matrix))


def _speedups(matrix: Matrix) -> Iterator[Part]:
    """One table of all that was compared with its reference, the most telling rows of it."""
    answers = set(map(id, matrix.answers))
    found = [(table, row) for table in matrix.tables for row in table.rows if row.estimate and id(row) in answers]
    shown = telling(found)
    tables = [table for table, _ in shown]
    names, timings = ({one.name for one in tables}, {one.timing for one in tables})
    composed = any(row.on_steps for _, row in shown)
    timed = f" of {TIMED[timings.pop()]}" if len(timings) == 1 else " of training steps" if composed else ""
    against = f" against {called(one_line(names.pop()))}" if len(names) == 1 else ""
    yield Text(f"Speedup{timed}{against}; {replicates(matrix)}")
    seen = columns(tables, View.SCREEN)
    rows: list[tuple[str, ...]] = []
    for workload in matrix.workloads:
        told = [row_values(table, row, seen) for table, row in shown if table.config.workload == workload]
        empty = {"workload": one_line(workload), "verdict": "no result"}
        rows += told or [tuple(empty.get(str(one.name), NOTHING) for one in seen)]
    yield from tabled([one.head(tables) for one in seen], rows)
    if len(shown) < len(found):
        yield Text(f"{len(found) - len(shown)} more have a ratio: --verbose shows them.")
    if known := [one for one in matrix.tables if one.timing is Timing.STEP and one.profile and not one.config.options]:
        yield Text(f"Baseline, samples/s and share of time waiting for input: {'; '.join(map(_pace, known))}.")
    if composed:
        yield Text(f"{COMPOSED}: composed from the ratio of the loader, or of the step, alone.{arriving(matrix)}")


def _pace(table: Table) -> str:
    """How fast a reference trains, and the share of that time in which it waits: `leak 2,130, 27 %`."""
    assert table.profile  # noqa: S101  others are left out
    waits = share(table.profile.phases.input_wait)
    return f"{one_line(table.config.workload)} {rate(table.profile.rate).removesuffix(' samples/s')}, {waits}"


def _opening(matrix: Matrix, version: str) -> Iterator[Part]:
    yield Text(headline(matrix, version), style="bold")
    if matrix.contributed:
        yield Text(f"{CONTRIBUTED.capitalize()}.")


def headline(matrix: Matrix, version: str) -> str:
    """What the numbers depend on, in a line: the suite, the machine and torch."""
    torch = dict(matrix.environment.packages).get("torch", "of unknown version")
    return one_line(f"speedmatrix {version} · {chip(matrix.environment)} · torch {torch}")


def chip(environment: Environment) -> str:
    """The device that trained, with the number of cores beside it."""
    cores = f"{environment.cores} core{'' if environment.cores == 1 else 's'}"
    return f"{environment.accelerator or environment.cpu}, {cores}"


def telling(found: Sequence[tuple[Table, Row]]) -> list[tuple[Table, Row]]:
    """At most so many rows, each workload in turn: those with a verdict first, the largest effects first."""
    by_workload = together((one[0].config.workload, one) for one in sorted(found, key=_weight, reverse=True))
    kept: set[int] = set()
    for place in range(max(map(len, by_workload.values()), default=0)):
        for rows in by_workload.values():
            if place < len(rows) and len(kept) < MOST_ROWS:
                kept.add(id(rows[place][1]))
    return [one for one in found if id(one[1]) in kept]


def _weight(one: tuple[Table, Row]) -> tuple[bool, bool, float]:
    table, row = one
    if row.shown is None:
        return False, False, 0.0
    decided = row.shown.verdict.gains or row.shown.verdict.loses
    return of_steps(table), decided, abs(math.log(row.shown.ratio))


def arriving(matrix: Matrix) -> str:
    """Which share of a part's log speedup whole steps showed, where both were timed: `leak 1.02 ± 0.29`."""
    seen = {
        f"{one_line(row.comparison.reference.workload)} {found.share:.2f} ± {NORMAL * found.deviation:.2f}"
        for row in matrix.rows
        if row.on_steps and (found := row.on_steps.arrives).seen
    }
    words = "Share of a part's log speedup that whole steps showed"
    return f" {words}: {', '.join(sorted(seen))}." if seen else ""


def remarks(matrix: Matrix) -> Iterator[str]:
    """What is still wide, what has no result and why, and what the machine is known to tell."""
    narrow = matrix.protocol.target or USUAL_WIDTH
    wide = Counter(
        one_line(row.comparison.reference.workload)
        for row in matrix.every_row
        if row.shown and math.expm1(row.shown.half_width) > narrow
    )
    if wide:
        named = ", ".join(f"{name} ({count})" for name, count in wide.items())
        yield f"Wider than ±{100 * narrow:.0f} %: {named}. More replicates narrow them."
    if noted := sum(1 for row in matrix.every_row if row.estimate and row.notes):
        yield f"Notes on {noted} of these ratios, which may weaken them: --verbose."
    if missing := reasons(matrix):
        total, most = missing.total(), missing.most_common(MOST_REASONS)
        rest = total - sum(count for _, count in most)
        told = [f"{reason} ({count})" for reason, count in most] + [f"other reasons ({rest})"] * bool(rest)
        yield f"No result: {total} comparison{'' if total == 1 else 's'}: {', '.join(told)}."
    yield f"Noise: {one_line(matrix.noise)}."
    if matrix.design not in OF_COPIES and (copies := told_of(matrix.copies)):
        yield f"Hidden among them: {copies}."
    if spent := time_spent(matrix, shortly=True):
        yield f"Time: {spent}."


def reasons(matrix: Matrix) -> Counter[str]:
    """How many comparisons have no result for which reason, each told shortly."""
    found = [row.absence.words for row in matrix.every_row if row.absence] + [one.reason for one in matrix.no_results]
    # Each up to its first clause, so that like ones count together.
    first = (one_line(words).partition(";")[0].partition(":")[0].partition(" (")[0] for words in found)
    return Counter(shortened(clause, 60) for clause in first)


# What to do, on one screen.

_DO = (
    Column(name="workload", whole=True),
    Column(name="do", whole=True),
    Column(name="configuration", short=True),
    Column(name="speedup, 95 %", whole=True),
    Column(name="memory", right=True, whole=True, optional=2),
    Column(name="losses", whole=True, optional=1),
    Column(name="why", whole=True, optional=3),
)
_MOST_OPTIONS = 3  # of one workload with the same recommendation
_TOGETHER = "use together"
_ACTED_ON = (Recommendation.SWITCH_ON, Recommendation.WITH_WARNING, Recommendation.LEAVE_OFF)


def advice_overview(advice: Advice, version: str) -> Iterator[Part]:
    """Advice on one screen: what to switch on and to leave off, and what holds each workload back."""
    yield from _opening(advice.run.matrix, version)
    rows = [row for one in advice.workloads for row in _actions(one)]
    if rows:
        yield Text(f"What to do: combinations first, then single options; {replicates(advice.run.matrix)}")
    else:
        yield Text("Nothing was found that surely helps or surely hurts.")
    yield from tabled(_DO, rows)
    profiles = [(one.workload, one.base.profile) for one in advice.workloads if one.base and one.base.profile]
    begin = [
        f"{one_line(name)} {' and '.join(profile.bottleneck.stages)} ({roughly(profile.bottleneck.bound)})"
        for name, profile in profiles
        if profile.bottleneck
    ]
    if begin:
        yield Text(f"Held back by, and what could be gained if that cost nothing: {', '.join(begin)}.")
    told = Counter(item.recommendation for one in advice.workloads for item in one.items)
    rest = [f"{count} {one.value}" for one, count in told.items() if one not in _ACTED_ON]
    if rest:
        yield Text(f"Of the other options: {', '.join(rest)}.")


def _actions(found: WorkloadAdvice) -> Iterator[tuple[str, ...]]:
    name = one_line(found.workload)
    fastest = next((one.best for one in found.ready_made if one.style is Style.FASTEST), None)
    single = {str(item.option) for item in found.recommended(*_ACTED_ON)}
    if fastest is not None and (row := fastest.rows[-1]).label not in single:
        alike = fastest.learns_alike
        why = "the fastest that learns the same" if alike else "the fastest; whether it learns the same is not known"
        yield (name, _TOGETHER, row.label, ratio(fastest.gain), *_prices(row), why)
    for recommendation in _ACTED_ON:
        for item in found.recommended(recommendation)[:_MOST_OPTIONS]:
            do = "mend in the code" if item.is_own_code and item.gains else recommendation.value
            yield (name, do, str(item.option), gained(item), *_prices(item.effect.row), item.rule.reason.value)


def _prices(row: Row) -> tuple[str, str]:
    """The change of memory, and how losses compare."""
    return grown(row), quality(row)


# What comes next.


def after_advice(advice: Advice, commands: Mapping[Comparison, str], folder: str) -> Iterator[Part]:
    """The commands that come after advice: one that measures the first combination afresh, and the evidence."""
    best = (made.best for one in advice.workloads for made in one.ready_made)
    asked = (commands.get(one.rows[-1].comparison) for one in best if one)
    again = next((one for one in asked if one), None)
    yield from _next(
        [
            *([(again, "measures the first of them afresh")] if again else []),
            (f"./speedmatrix advise {folder} --verbose", "the evidence, what it costs, and the code"),
        ]
    )


def closing(folder: str, unfinished: str | None, left: str = "", program: str = "./speedmatrix") -> Iterator[Part]:
    """The commands that come next, and where the run lies.

    `unfinished` is the command that measures what is left, and `left` says about how long that takes.
    """
    place = shlex.quote(folder)
    yield from _next(
        [
            *([(unfinished, f"measures the rest{left}")] if unfinished else []),
            (f"{program} advise {place}", "what to switch on, leave off and fix"),
            (f"{program} report {place} --verbose", "settings, notes, every missing result by name"),
        ]
    )
    yield Text(f"Saved in {folder}")


def _next(following: Sequence[tuple[str, str]]) -> Iterator[Part]:
    yield Heading("Next", 3)
    yield Code("\n".join(f"{one_line(command)}   # {why}" for command, why in following))
