"""Other batches as a document: samples a second, memory, first losses and outcomes by batch, in a table of its own."""

from collections.abc import Iterator, Sequence
from typing import Any

from harness.analyze.matrix import Row, Table
from harness.analyze.profile import Profile, host_memory
from harness.core.configuration import Configuration, batch_of
from harness.core.records import Fault
from harness.report.document import Column, Heading, Part, Text, listed, tabled
from harness.report.words import NOTHING, called, duration, one_line, rate, ratio, size

HOW = (
    "Another batch is another training: a ratio of samples a second is what a clock says of it, and nothing of what is "
    "learned from a sample. Losses are of the first and the last of as many first updates. 4x100 adds up the gradients "
    "of four batches of 100 for an update. ./speedmatrix learn WORKLOAD#BATCH trains with a batch and tells the score."
)
_OUT_OF_MEMORY = {
    Fault.DEVICE_MEMORY: "out of device memory",
    Fault.HOST_MEMORY: "out of host memory",
    Fault.OOM_KILLED: "out of host memory",
    Fault.SHARED_MEMORY: "out of shared memory",
}
_TIMED_OUT = (Fault.START_TIME_OUT, Fault.COMPILE_TIME_OUT, Fault.WINDOW_TIME_OUT)
_OUTCOMES = _OUT_OF_MEMORY | dict.fromkeys(_TIMED_OUT, "timed out")
_COLUMNS = (
    Column(name="batch", whole=True),
    Column(name="samples/s", right=True, whole=True),
    Column(name="speedup, 95 %", whole=True),
    Column(name="step", right=True, whole=True, optional=2),
    Column(name="memory", right=True, whole=True),
    Column(name="first losses", whole=True, optional=3),
    Column(name="quality", whole=True, optional=1),
)


def batch_parts(tables: Sequence[Table], level: int = 2) -> Iterator[Part]:
    """The tables of other batches, each under its title, and what they mean; nothing where there is none."""
    for table in tables:
        yield Heading(batch_title(table), level)
        yield from batch_table(table)
    if tables:
        yield Text(HOW)


def batch_title(table: Table) -> str:
    """What a table shows: workload, size, what was timed and against which batch."""
    config = table.config
    on = f", {table.emulated}" if table.emulated else ""
    return one_line(
        f"{config.workload}, size {config.size}{on}: other batches against {config.batch}, {called(table.name)}"
    )


def batch_table(table: Table) -> Iterator[Part]:
    """A row for each batch, the smallest first, then the largest that fits and the words for what has no ratio."""
    rows = [(table.config.batch, 0, _cells(table.config, table.profile, 1, ("1 (reference)", NOTHING)))]
    for row in table.rows:
        parts, each = batch_of(row.comparison.label) or (1, row.comparison.treatment.batch)
        judged = row.quality.status.value if row.quality else NOTHING
        told = outcome(row) or estimated(row), judged
        profile = row.treatment if row.estimate else None
        rows.append((parts * each, parts, _cells(row.comparison.treatment, profile, parts, told)))
    yield from tabled(_COLUMNS, (cells for _, _, cells in sorted(rows)))
    yield Text(largest(table))
    yield from listed(f"{one_line(row.label)}: {one_line(row.absence.words)}." for row in table.rows if row.absence)


def estimated(row: Row) -> str:
    """The ratio of a batch, and whether the machine was too restless for it."""
    disturbed = row.estimate is not None and row.estimate.disturbed
    return ratio(row.estimate) + (", disturbed" if disturbed else "")


def outcome(row: Row) -> str | None:
    """Why a batch has no ratio, in a word or two; None where it has one."""
    if row.absence is None:
        return None
    kind = row.absence.kind
    return _OUTCOMES.get(kind, kind.value.replace("_", " ")) if kind else row.absence.outcome.value


def largest(table: Table) -> str:
    """The largest batch in one piece that was measured, and those that found no memory."""
    whole = [row for row in table.rows if row.comparison.label == f"batch={row.comparison.treatment.batch}"]
    fits = max([table.config.batch, *(row.comparison.treatment.batch for row in whole if row.estimate)])
    lost = [row for row in whole if row.absence and row.absence.kind in _OUT_OF_MEMORY]
    if not lost:
        return f"The largest batch in one piece that was measured is {fits}; none that was tried ran out of memory."
    beyond = ", ".join(str(one) for one in sorted(row.comparison.treatment.batch for row in lost))
    return f"The largest batch in one piece that fits, of those that were tried, is {fits}; {beyond} ran out of memory."


def batch_data(table: Table) -> dict[str, Any]:
    """What the JSON report says of a table beyond its rows."""
    outcomes = {row.label: outcome(row) or "measured" for row in table.rows}
    return {"title": batch_title(table), "largest": largest(table), "outcomes": outcomes}


def _cells(config: Configuration, profile: Profile | None, parts: int, told: tuple[str, str]) -> tuple[str, ...]:
    """An arm as a row; `told` is its ratio or what became of it, and its quality."""
    name = f"{config.batch} ({parts}x{config.batch // parts})" if parts > 1 else str(config.batch)
    ended, judged = told
    if profile is None:
        return name, NOTHING, ended, NOTHING, NOTHING, NOTHING, judged
    speed, step = rate(profile.rate).removesuffix(" samples/s"), duration(config.batch / profile.rate)
    losses = f"{profile.losses[0]:.3g} to {profile.losses[-1]:.3g}" if profile.losses else NOTHING
    return name, speed, ended, step, _memory(profile), losses, judged


def _memory(profile: Profile) -> str:
    """Of the device where it tells, else of the host."""
    if profile.device_bytes is not None:
        return f"{size(profile.device_bytes)} device"
    _, (count,) = host_memory(profile)
    return NOTHING if count is None else f"{size(count)} host"
