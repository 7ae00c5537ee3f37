"""The overview: a matrix, or advice, on one screen of a terminal: results first, the rest as counts by reason."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from rich import box
from rich.console import RenderableType
from rich.table import Table as Grid
from rich.text import Text

from harness.analyze.advice import Advice, Recommendation, Style, WorkloadAdvice
from harness.analyze.matrix import Matrix, Row, Table
from harness.analyze.profile import host_memory
from harness.analyze.verdict import Verdict
from harness.core.environment import Environment
from harness.core.optimization import Timing
from harness.report.matrix import TIMED, memory_of, workloads
from harness.report.words import NOTHING, called, factor, one_line, ratio

MOST_ROWS = 20  # of the one table; the report has them all
MOST_REASONS = 5
COLUMNS = ("workload", "configuration", "speedup", "verdict", "held back by", "memory", "losses")
SHORTEST = 16  # characters of a configuration, however narrow the terminal
GIVES_WAY = ("why", "held back by", "memory", "losses")  # columns that a narrow terminal loses, in this order
USUAL_WIDTH = 0.05  # half-width of an interval that counts as narrow where the protocol names none
# Colour only repeats what the word beside it says.
COLOUR: Mapping[str, str] = {
    Verdict.FASTER: "green",
    Verdict.SLOWER: "red",
    Verdict.NO_EFFECT: "dim",
    Verdict.UNDECIDED: "yellow",
}


def overview(matrix: Matrix, version: str, width: int) -> Iterator[RenderableType]:
    """The parts of the screen, for a console of the caller's own: at most 40 lines for five workloads."""
    yield Text(headline(matrix, version), style="bold")
    found = [(table, row) for table in matrix.tables for row in table.rows if row.estimate]
    shown = telling(found)
    references = {called(one_line(table.name)) for table, _ in shown}
    usual = references.pop() if len(references) == 1 else "the baseline"
    yield Text(f"Speedup with its 95 % interval, of training steps against {usual}, where nothing else is said")
    yield _grid(matrix, shown, usual, width)
    if len(shown) < len(found):
        yield Text(f"{len(found) - len(shown)} more have a ratio: --verbose shows them.")
    yield from map(Text, remarks(matrix))


def headline(matrix: Matrix, version: str) -> str:
    """What the numbers depend on, in a line: the suite, the machine, torch, how patiently it was measured."""
    protocol = matrix.protocol
    torch = dict(matrix.environment.packages).get("torch", "")
    patience = f"{protocol.replicates} replicates of {protocol.rounds} rounds"
    return one_line(" · ".join((f"speedmatrix {version}", chip(matrix.environment), f"torch {torch}", patience)))


def chip(environment: Environment) -> str:
    """The device that trained, with the number of cores beside it."""
    cores = f"{environment.cores} core{'' if environment.cores == 1 else 's'}"
    return f"{environment.accelerator}, {cores}" if environment.accelerator else f"{environment.cpu}, {cores}"


def telling(found: Sequence[tuple[Table, Row]]) -> list[tuple[Table, Row]]:
    """At most so many rows, each workload in turn: those with a verdict first, the largest effects first."""
    by_workload: dict[str, list[tuple[Table, Row]]] = {}
    for table, row in sorted(found, key=_weight, reverse=True):
        by_workload.setdefault(table.config.workload, []).append((table, row))
    kept: set[int] = set()
    for place in range(max(map(len, by_workload.values()), default=0)):
        for rows in by_workload.values():
            if place < len(rows) and len(kept) < MOST_ROWS:
                kept.add(id(rows[place][1]))
    return [one for one in found if id(one[1]) in kept]


def _weight(one: tuple[Table, Row]) -> tuple[bool, bool, float]:
    estimate = one[1].estimate
    if estimate is None:
        return False, False, 0.0
    decided = estimate.verdict in {Verdict.FASTER, Verdict.SLOWER}
    return one[0].timing is Timing.STEP, decided, abs(math.log(estimate.ratio))


def _grid(matrix: Matrix, shown: Sequence[tuple[Table, Row]], usual: str, width: int) -> Grid:
    rows: list[tuple[str, ...]] = []
    for workload in workloads(matrix):
        told = [_row(table, row, usual) for table, row in shown if table.config.workload == workload]
        rows += told or [(one_line(workload), NOTHING, "no result", *[NOTHING] * 4)]
    return in_one_line(COLUMNS, rows, width, flexible=1)


def in_one_line(names: Sequence[str], rows: Sequence[Sequence[str]], width: int, flexible: int) -> Grid:
    """A table whose rows take a line each: one column is shortened, and some give way, so that no number is cut."""
    longest = {at: max(map(len, (name, *(row[at] for row in rows)))) for at, name in enumerate(names)}
    least = longest | {flexible: min(SHORTEST, longest[flexible])}
    for name in GIVES_WAY:
        if sum(least.values()) + 3 * len(least) < width:
            break
        least = {at: size for at, size in least.items() if names[at] != name}
    room = width - sum(size for at, size in least.items() if at != flexible) - 3 * len(least) - 1
    room = max(least[flexible], room)
    grid = Grid(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    for at in least:
        grid.add_column(names[at], no_wrap=True, justify="right" if names[at] == "memory" else "left")
    for row in rows:
        told = (f"{row[at][: room - 1]}…" if at == flexible and len(row[at]) > room else row[at] for at in least)
        grid.add_row(*(Text(one, style=COLOUR.get(one, "")) for one in told))
    return grid


def _row(table: Table, row: Row, usual: str) -> tuple[str, ...]:
    arm = row.treatment
    return (
        one_line(table.config.workload),
        _named(table, row, usual),
        ratio(row.estimate) if row.estimate else NOTHING,
        row.estimate.verdict.value if row.estimate else NOTHING,
        arm.bottleneck.stage if arm and arm.bottleneck else NOTHING,
        _memory_change(table, row),
        row.quality.status.value if row.quality else NOTHING,
    )


def _named(table: Table, row: Row, usual: str) -> str:
    """The configuration, and what is unlike the usual: its reference, what was timed."""
    reference = called(one_line(table.name))
    beside = [] if reference == usual else [f"against {reference}"]
    beside += [] if table.timing is Timing.STEP else [TIMED[table.timing]]
    return f"{one_line(row.label)} ({', '.join(beside)})" if beside else one_line(row.label)


def _memory_change(table: Table, row: Row) -> str:
    count = memory_of(table)
    ours, theirs = (count(arm) if arm else None for arm in (row.treatment, row.reference))
    return _percent(ours, theirs)


def remarks(matrix: Matrix) -> Iterator[str]:
    """What is still wide, what has no result and why, and what the machine is known to tell."""
    narrow = matrix.protocol.target or USUAL_WIDTH
    wide = Counter(
        one_line(row.comparison.reference.workload)
        for row in matrix.rows
        if row.estimate and math.expm1(row.estimate.half_width) > narrow
    )
    if wide:
        named = ", ".join(f"{name} ({count})" for name, count in wide.items())
        yield f"Wider than ±{100 * narrow:.0f} %: {named}. More replicates narrow them."
    if noted := sum(1 for row in matrix.rows if row.estimate and row.notes):
        yield f"Notes on {noted} of these ratios, which may weaken them: --verbose."
    missing = reasons(matrix)
    if missing:
        total = missing.total()
        most = missing.most_common(MOST_REASONS)
        named = "; ".join(f"{count} {reason}" for reason, count in most)
        rest = total - sum(count for _, count in most)
        yield f"No result: {total}. {named}{f'; {rest} for other reasons' if rest else ''}."
    yield f"Noise: {one_line(matrix.noise)}."


def reasons(matrix: Matrix) -> Counter[str]:
    """How many comparisons have no result for which reason, each told shortly."""
    found = [row.absence.words for row in matrix.rows if row.absence] + [one.reason for one in matrix.no_results]
    return Counter(_shortly(words) for words in found)


def _shortly(words: str) -> str:
    """A reason up to its first clause, so that like ones count together."""
    first = one_line(words).partition(";")[0].partition(":")[0].partition(" (")[0]
    return first if len(first) <= 60 else f"{first[:59]}…"


# What to do, on one screen.

_DO = ("workload", "do", "configuration", "speedup", "memory", "losses", "why")
_MOST_OPTIONS = 3  # of one workload with the same recommendation
_TOGETHER = "use together"
_ACTED_ON = (Recommendation.SWITCH_ON, Recommendation.WITH_WARNING, Recommendation.LEAVE_OFF)


def advice_overview(advice: Advice, version: str, width: int) -> Iterator[RenderableType]:
    """The parts of the screen: what to switch on and to leave off, and what holds each workload back."""
    matrix = advice.run.matrix
    yield Text(headline(matrix, version), style="bold")
    rows = [row for one in advice.workloads for row in _actions(one)]
    if rows:
        yield Text("What to do: combinations first, then single options; speedups with their 95 % intervals")
        yield in_one_line(_DO, rows, width, flexible=2)
    else:
        yield Text("Nothing was found that surely helps or surely hurts.")
    profiles = [(one.workload, one.base.profile) for one in advice.workloads if one.base and one.base.profile]
    begin = [
        f"{one_line(name)} {profile.bottleneck.stage} (at most {factor(profile.bottleneck.bound)}x)"
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
    if fastest is not None:
        row = fastest.rows[-1]
        why = "the fastest that learns the same"
        yield (name, _TOGETHER, one_line(row.label), ratio(fastest.gain), *_prices(row), why)
    for recommendation in _ACTED_ON:
        for item in found.recommended(recommendation)[:_MOST_OPTIONS]:
            do = "mend in the code" if item.is_own_code and item.gains else recommendation.value
            gain = ratio(item.effect.gain)
            yield (name, do, one_line(str(item.option)), gain, *_prices(item.effect.row), item.rule.reason.value)


def _prices(row: Row) -> tuple[str, str]:
    """The change of host memory, or of the device's where it is told, and how losses compare."""
    ours, theirs = row.treatment, row.reference
    memory = NOTHING
    if ours and theirs and ours.device_bytes and theirs.device_bytes:
        memory = _percent(ours.device_bytes, theirs.device_bytes)
    elif ours and theirs:
        memory = _percent(*host_memory(ours, theirs)[1])
    return memory, row.quality.status.value if row.quality else NOTHING


def _percent(ours: float | None, theirs: float | None) -> str:
    return NOTHING if ours is None or not theirs else f"{100 * (ours / theirs - 1):+.0f} %"


def asking(folder: str, again: Sequence[str]) -> str:
    """The commands that come after advice: one that measures the first combination afresh, and the evidence."""
    following = [
        *[(one, "measures the first of them afresh") for one in again[:1]],
        (f"./speedmatrix advise {folder} --verbose", "the evidence, what it costs, and the code"),
    ]
    return _next(following)


def closing(folder: str, unfinished: str | None) -> str:
    """The commands that come next, and where the run lies; `unfinished` is the command that measures what is left."""
    following = [
        *([(unfinished, "goes on where it stopped")] if unfinished else []),
        (f"./speedmatrix advise {folder}", "what to switch on, leave off and fix"),
        (f"./speedmatrix report {folder} --verbose", "settings, notes, every missing result by name"),
    ]
    return f"{_next(following)}\nSaved in {folder}"


def _next(following: Sequence[tuple[str, str]]) -> str:
    return "\nNext" + "".join(f"\n    {command}   # {why}" for command, why in following)
