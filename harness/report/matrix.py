"""The matrix as a document: its heading, its columns, causes and details, and its JSON."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from statistics import median
from typing import Any

from harness.analyze.composition import NORMAL
from harness.analyze.estimate import Estimate
from harness.analyze.grouping import together
from harness.analyze.matrix import Matrix, Row, Table
from harness.analyze.profile import CLEARLY, Bottleneck, HostMemory, Profile, host_memory
from harness.analyze.search.shares import WorkloadPrediction
from harness.core.configuration import Configuration
from harness.core.environment import Environment
from harness.core.optimization import PARTS_OF_A_STEP, Timing
from harness.core.plan import Plan
from harness.core.protocol import Protocol
from harness.core.recipe import Value
from harness.report import document
from harness.report import prediction as predicted
from harness.report.batches import batch_data, batch_parts
from harness.report.document import Code, Column, Facts, Heading, Part, Text, listed, plain, tabled
from harness.report.epochs import epoch_data, epoch_parts, epochs
from harness.report.scaling import scaling_data, scaling_parts, scalings
from harness.report.words import (
    NOTHING,
    called,
    change,
    duration,
    energy,
    factor,
    looks,
    one_line,
    rate,
    ratio,
    roughly,
    share,
    size,
    stage,
)

TIMED = {
    Timing.STEP: "training steps",
    Timing.EPOCH: "whole epochs",
    Timing.EVALUATION: "evaluation passes",
    Timing.LOADER: "loader alone",
    Timing.COMPUTE: "steps on device batches",
}


COMPOSED = "~"  # before a ratio of training steps that is composed from that of the loader or of the step alone


def timed_on(row: Row) -> str:
    """What a row's first ratio is of: what was timed, unless it is composed from that."""
    return "training steps, composed" if row.on_steps else TIMED[row.comparison.timing]


def settings(environment: Environment) -> str:
    """The variables by which libraries compute otherwise, as a shell sets them; empty where none is."""
    return " ".join(f"{name}={value}" for name, value in environment.variables)


CONTRIBUTED = "contributed: somebody else measured this run, and it is checked for sense, not for truth"


def heading(matrix: Matrix) -> tuple[tuple[str, str], ...]:
    """The facts that every number of a matrix depends on, as name and value."""
    environment, protocol = matrix.environment, matrix.protocol
    packages = ", ".join(f"{name} {version}" for name, version in environment.packages)
    total = len(matrix.every_row) + len(matrix.no_results)
    found = {
        "origin": CONTRIBUTED if matrix.contributed else "",
        "machine": f"{environment.chip}; {environment.system}",
        "software": "; ".join(filter(None, (f"Python {environment.python}, {packages}", settings(environment)))),
        "environment": environment.digest,
        "protocol": f"{replicates(matrix)}, {windows(_timed_by(matrix))}{looks(protocol)}",
        "plan": f"{matrix.design}, seed {matrix.seed}",
        "configurations": f"{matrix.looked_at} of {total} have a ratio; each interval is 95 % for its own alone",
        "data": "; ".join(f"{name}: {words}" for name, words in matrix.data.items()) or "made by the suite",
        "noise": matrix.noise,
        "copies": told_of(matrix.copies),
        "time": time_spent(matrix),
    }
    return tuple((name, one_line(text)) for name, text in found.items() if text)


def told_of(found: Sequence[Estimate]) -> str:
    """What copies of references, hidden among the treatments, came to; empty where there were none."""
    if not found:
        return ""
    held = sum(one.low <= 1 <= one.high for one in found)
    wide = math.expm1(median(one.half_width for one in found))
    return f"{held} of {len(found)} intervals of a reference against itself contain 1.00x (median ±{100 * wide:.0f} %)"


def _timed_by(matrix: Matrix) -> Protocol:
    """The protocol of the windows: that of parts of a step where nothing else was timed."""
    timings = {table.timing for table in matrix.tables}
    return matrix.protocol.of(next(iter(timings))) if timings and timings <= PARTS_OF_A_STEP else matrix.protocol


def replicates(found: Matrix | Plan) -> str:
    """How often things are timed: `2 replicates of 3 windows, whole steps 4 of 1`."""
    whole = ", whole steps {} of {}".format(*found.own_counts) if found.own_counts else ""
    return f"{found.protocol.replicates} replicates of {found.protocol.rounds} windows{whole}"


_SPENT = {
    "windows_s": "windows",
    "lead_s": "their lead-ins",
    "warm_up_s": "warm-up",
    "evidence_s": "first steps and upper bounds",
    "build_s": "building",
    "imports_s": "imports",
    "rest_s": "the rest",
}


def time_spent(matrix: Matrix, *, shortly: bool = False) -> str:
    """Where the time of measuring went, `4 min 10 s, windows 48 %, ...`; empty where nobody took note."""
    spent_s = dict(matrix.spent_s)
    kernels_s = spent_s.pop("kernels_s", None)
    if not (total_s := sum(spent_s.values())):
        return ""
    if shortly:
        known = {name: spent_s[name] for name in ("windows_s", "lead_s")}
        named = [(_SPENT[name], seconds) for name, seconds in known.items()]
        named.append(("all else", total_s - sum(known.values())))
    else:
        named = [(words, spent_s[name]) for name, words in _SPENT.items()]
    named += [] if kernels_s is None else [("first to last kernel of windows", kernels_s)]
    return f"{duration(total_s)}, {', '.join(f'{words} {100 * one / total_s:.0f} %' for words, one in named)}"


def windows(protocol: Protocol) -> str:
    """How long is timed at a stretch, and what leads into it: `each of about 1 s after 100 ms or more untimed`."""
    led_in = f" after {duration(protocol.lead_s)} or more untimed" if protocol.lead_s else ""
    return f"each of about {duration(protocol.window_s)}{led_in}"


def title(table: Table) -> str:
    """What a table shows: workload, size, what was timed and against what."""
    config = table.config
    sample = f"{config.workload}, size {config.size}, batch {config.batch}"
    sample += f", {table.emulated}" if table.emulated else ""
    return one_line(f"{sample}: {TIMED[table.timing]} against {called(table.name)}")


# Columns: each is one entry of one list, for every view.


def of_steps(table: Table) -> bool:
    """Whether it says something of whole training steps, measured or composed from a part of them."""
    return table.timing is Timing.STEP or _composes((table,))


def _composes(tables: Iterable[Table]) -> bool:
    return any(row.on_steps for one in tables for row in one.rows)


class View(Enum):
    """Where a table of results stands."""

    SCREEN = auto()  # one table of everything, on a terminal
    FULL = auto()  # a table for each reference, in Markdown and with --verbose
    PUBLISHED = auto()  # on the pages of a folder of results


_TABLES = frozenset({View.FULL, View.PUBLISHED})
_SCREEN = frozenset({View.SCREEN})


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultColumn:
    """One column of results: its name, how a row is read, and where and when it is shown."""

    name: str | Callable[[Table], str]
    of: Callable[[Table, Row], str]
    of_reference: Callable[[Table], str] = lambda _: NOTHING
    views: frozenset[View] = _TABLES
    shown: Callable[[Sequence[Table]], bool] = lambda _: True
    right: bool = False
    whole: bool = True
    short: bool = False
    optional: int = 0  # see document.Column

    def head(self, tables: Sequence[Table]) -> Column:
        """How it is set above the rows of some tables."""
        name = self.name if isinstance(self.name, str) else self.name(tables[0])
        return Column(name=name, right=self.right, whole=self.whole, short=self.short, optional=self.optional)


RESULTS = (
    ResultColumn(name="workload", of=lambda table, _: table.config.workload, views=_SCREEN),
    ResultColumn(
        name="configuration",
        of=lambda _, row: row.label,
        of_reference=lambda table: table.name,
        views=_TABLES,
        whole=False,
    ),
    ResultColumn(name="configuration", of=lambda _, row: row.label, views=_SCREEN, whole=False, short=True),
    ResultColumn(
        name="against",
        of=lambda table, _: table.name if of_steps(table) else f"{table.name}, {table.timing}",
        views=_SCREEN,
        shown=lambda tables: len({(one.name, None if of_steps(one) else one.timing) for one in tables}) > 1,
        whole=False,
        short=True,
    ),
    ResultColumn(
        name="speedup, 95 %",
        of=lambda _, row: ratio(row.estimate),
        of_reference=lambda _: "1 (reference)",
    ),
    ResultColumn(name="verdict", of=lambda _, row: row.estimate.verdict if row.estimate else "no result"),
    ResultColumn(
        name="training steps, composed",
        of=lambda _, row: _of_steps(row) if row.on_steps else NOTHING,
        shown=_composes,
    ),
    ResultColumn(name="speedup, 95 %", of=lambda _, row: _of_steps(row), views=_SCREEN),
    ResultColumn(name="verdict", of=lambda _, row: row.shown.verdict if row.shown else "no result", views=_SCREEN),
    ResultColumn(
        name="part alone",
        of=lambda table, row: f"{table.timing} {ratio(row.estimate)}" if row.on_steps else NOTHING,
        views=_SCREEN,
        shown=_composes,
        optional=1,
    ),
    ResultColumn(
        name="held back by",
        of=lambda _, row: _held_back_by(row.treatment),
        views=_SCREEN,
        shown=lambda tables: not _composes(tables),  # there the part's own ratio says more
        optional=3,
    ),
    ResultColumn(
        name="input wait",
        of=lambda _, row: _waiting(row.treatment),
        of_reference=lambda table: _waiting(table.profile),
        right=True,
    ),
    ResultColumn(name="memory", of=lambda _, row: grown(row), views=_SCREEN, right=True, optional=2),
    ResultColumn(
        name=lambda table: _memory(table)[0],
        of=lambda table, row: _spent(row.treatment, table),
        of_reference=lambda table: _spent(table.profile, table),
        right=True,
        optional=2,
    ),
    ResultColumn(
        name="active",
        of=lambda _, row: "yes" if row.comparison.treatment.options else NOTHING,
        views=frozenset({View.FULL}),
        optional=3,
    ),
    ResultColumn(name="losses", of=lambda _, row: quality(row), views=_SCREEN, optional=1),
    ResultColumn(name="quality", of=lambda _, row: quality(row), whole=False),
    ResultColumn(
        name="energy a sample, times thriftier",  # there where the device counts what it takes
        of=lambda _, row: _energy(row.treatment, row.energy),
        of_reference=lambda table: _energy(table.profile, None),
        shown=lambda tables: any(one.profile is not None and one.profile.joules is not None for one in tables),
        optional=4,
    ),
)


def columns(tables: Sequence[Table], view: View) -> tuple[ResultColumn, ...]:
    """The columns of some tables in one view."""
    return tuple(one for one in RESULTS if view in one.views and one.shown(tables))


def body(table: Table, view: View) -> Iterator[tuple[str, ...]]:
    """The configurations of a table: its reference, then every row that has an estimate."""
    shown = columns((table,), view)
    yield tuple(one_line(one.of_reference(table)) for one in shown)
    for row in table.rows:
        if row.estimate is not None:
            yield row_values(table, row, shown)


def row_values(table: Table, row: Row, shown: Iterable[ResultColumn]) -> tuple[str, ...]:
    """One row as it is shown."""
    return tuple(one_line(one.of(table, row)) for one in shown)


def quality(row: Row) -> str:
    """The quality status in a word."""
    return row.quality.status.value if row.quality else NOTHING


def _of_steps(row: Row) -> str:
    """The ratio of training steps, `~1.08x [1.05, 1.11]` where it is composed from that of a part."""
    return f"{COMPOSED}{ratio(row.on_steps)}" if row.on_steps else ratio(row.estimate)


def _held_back_by(profile: Profile | None) -> str:
    return ", ".join(profile.bottleneck.stages) if profile and profile.bottleneck else NOTHING


def _waiting(profile: Profile | None) -> str:
    return share(profile.phases.input_wait) if profile else NOTHING


def _spent(profile: Profile | None, table: Table) -> str:
    if table.timing is not Timing.STEP and of_steps(table):  # arms that load or compute alone hold less than a training
        return NOTHING
    return size(_memory(table)[1](profile)) if profile else NOTHING


def grown(row: Row) -> str:
    """By how much a whole training needs more memory: the device's where both arms tell it, else the host's."""
    ours, theirs = row.treatment, row.reference
    if row.on_steps or ours is None or theirs is None:  # arms that load or compute alone hold less than a training
        return NOTHING
    if ours.device_bytes and theirs.device_bytes:
        return change(ours.device_bytes, theirs.device_bytes)
    return change(*host_memory(ours, theirs)[1])


def held(row: Row) -> tuple[str, int] | None:
    """Which memory a row's treatment took and how many bytes; None of a composed ratio, whose arms train nothing."""
    arm = row.treatment
    if row.on_steps or arm is None:
        return None
    if arm.device_bytes is not None:
        return "device peak", arm.device_bytes
    kind, (count,) = host_memory(arm)
    return (kind.value, count) if count else None


def _memory(table: Table) -> tuple[str, Callable[[Profile], int | None]]:
    """The memory that can be told alike of all rows of a table: its name, and how much of it a row took."""
    if table.profile is not None and table.profile.device_bytes is not None:
        return "device peak", lambda one: one.device_bytes
    kind, _ = host_memory(*(one for one in (table.profile, *(row.treatment for row in table.rows)) if one))
    if kind is HostMemory.RESIDENT:
        return kind.value, lambda one: one.host_bytes
    return kind.value, lambda one: one.host_peak_bytes


def _energy(profile: Profile | None, saved: Estimate | None) -> str:
    """What a sample takes, and how much longer the same energy lasts: `350 mJ, 1.83x [1.79, 1.88]`."""
    if profile is None or profile.joules is None:
        return NOTHING
    return f"{energy(profile.joules)}, {ratio(saved)}" if saved else energy(profile.joules)


# Sentences: what has no ratio, what holds a configuration back, and what stands behind one estimate.


def no_results(matrix: Matrix, workload: str) -> tuple[tuple[str, str], ...]:
    """What has no ratio in one workload: configurations, together where they share the words for it, and the words."""
    rows = (row for row in matrix.rows if row.comparison.reference.workload == workload)
    absent = ((row.label, row.absence.words) for row in rows if row.absence is not None)
    planned = ((no_result.label, no_result.reason) for no_result in matrix.no_results if no_result.workload == workload)
    alike = together((one_line(words), one_line(label)) for label, words in (*absent, *planned))
    return tuple((", ".join(labels), words) for words, labels in alike.items())


def causes(table: Table) -> Iterator[str]:
    """What holds the reference back, with both upper bounds, and the settings that were seen in it."""
    name = one_line(table.name)
    found = table.profile.bottleneck if table.profile else None
    if found is not None:
        yield cause(name, found)
    if table.profile and (held := launching(table.profile)):
        yield f"With {called(name)} {held}: a graph, a fused optimizer or larger batches would let the device work on."
    if table.profile and table.timing is Timing.EVALUATION:
        items = rate(table.profile.rate).removesuffix(" samples/s")
        yield f"With {called(name)} an evaluation goes through {items} items/s: files, clips, pictures or patches."
    if table.profile and table.profile.facts:
        yield f"Seen in {called(name)}, and wherever nothing else is said: {facts(table.profile.facts)}."


LAUNCHING = 0.9  # of its steps that a host launches, and the device has little to do but wait for it


def launching(found: Profile) -> str:
    """Whether the host's launches hold steps up, in words; empty where the device does, or nobody knows."""
    if found.launches is None or found.launches < LAUNCHING:
        return ""
    return f"the host's launches hold the step up ({share(min(1.0, found.launches))} of it)"


def cause(name: str, found: Bottleneck) -> str:
    """What holds an arm back, with both upper bounds and what each would allow."""
    doubt = " The stage is told by how long steps wait, not by these two rates: a probe was too short."
    what = f"the bottleneck is the {stage(found.stage)}"
    if len(found.stages) > 1:
        what = "input and training step take about as long"
    step, loader = (
        _room(one / found.rate, ideal)
        for one, ideal in ((found.compute_rate, "a perfect input"), (found.loader_rate, "a step without cost"))
    )
    step += _crowding(found)
    return (
        f"With {called(name)} {what}. It trains {rate(found.rate)}; its step alone reaches "
        f"{rate(found.compute_rate)}{step}; its loader alone reaches {rate(found.loader_rate)}{loader}."
        + (doubt if found.short_probe else "")
    )


def _crowding(found: Bottleneck) -> str:
    """What a perfect input would give back beside the time in which steps wait for it: cores, where workers load."""
    if found.input_wait is None:
        return ""
    if found.compute_rate * (1 - found.input_wait) <= CLEARLY * found.rate:
        return ""
    waiting = roughly(1 / (1 - found.input_wait))
    return f" ({waiting} from waiting no more; the rest is what loading costs the steps that run beside it)"


def _room(times: float, ideal: str) -> str:
    """What a stage's own rate leaves to gain; probed at a slow moment, it may be less than the training reaches."""
    if 1 / CLEARLY <= times < 1:  # two probes differ by as much
        return f", so {ideal} would gain hardly anything"
    if times < 1:
        return (
            " in a probe at a slow moment (a ratio is refused for it only where every replicate, of two or more, shows "
            f"it), so {ideal} would gain hardly anything"
        )
    return f", so {ideal} would gain {roughly(times)}"


def bound(found: Bottleneck) -> str:
    """The stage and what would about be gained if it cost nothing: `input: about 7.4x`."""
    return f"{', '.join(found.stages)}: {roughly(found.bound)}"


def facts(found: Mapping[str, Value]) -> str:
    """Effective settings in one line: `chunk_cache_bytes 33554432, layout contiguous`."""
    return one_line(", ".join(f"{name} {value}" for name, value in found.items()))


def behind(estimate: Estimate) -> str:
    """What an interval rests on: `24 pairs in 2 replicates, moderated t with df 12`."""
    return f"{estimate.pairs} pairs in {estimate.processes} replicates, {estimate.method} with df {estimate.df:.3g}"


def thrift(row: Row) -> str | None:
    """What a sample takes of energy beside what it takes in the reference; None where nobody counted."""
    ours, theirs = (arm.joules if arm else None for arm in (row.treatment, row.reference))
    if row.energy is None or ours is None or theirs is None:
        return None
    return f"{energy(ours)} a sample instead of {energy(theirs)}: {ratio(row.energy)} as many samples a joule"


def details(row: Row) -> Iterator[str]:
    """What stands behind one estimate: its pairs, upper bounds, start-up, facts unlike the reference's, and notes."""
    estimate, arm = row.estimate, row.treatment
    if estimate is None or arm is None:
        return
    yield behind(estimate)
    if row.on_steps is not None:
        arrives = row.on_steps.arrives
        yield (
            f"composed over {share(row.on_steps.share)} of the reference's step, of whose gain (as a log) "
            f"{arrives.share:.2f} ± {NORMAL * arrives.deviation:.2f} arrives"
        )
    if arm.bottleneck is not None:
        yield f"held back by {bound(arm.bottleneck)}"
    if held := launching(arm):
        yield held
    if row.loader_ratio is not None:
        yield f"loader alone {factor(row.loader_ratio)}x"
    if not estimate.shared:  # others had warmed its process
        yield f"first step after {duration(arm.first_step_s)}"
    if spent := thrift(row):
        yield spent
    shared = row.reference.facts if row.reference else {}
    if unlike := {name: value for name, value in arm.facts.items() if shared.get(name) != value}:
        yield f"seen {facts(unlike)}"
    yield from row.notes


# The whole report.


def matrix_parts(matrix: Matrix, command: str, predictions: Iterable[WorkloadPrediction] = ()) -> Iterator[Part]:
    """All of a matrix; `command` is the command line that measures the same again."""
    yield Heading("Speedup matrix", 1)
    yield Facts(heading(matrix))
    if command:
        yield from (Text("To measure the same again:"), Code(one_line(command)))
    for workload in matrix.workloads:
        for table in matrix.tables:
            if table.config.workload == workload and any(row.estimate for row in table.rows):
                yield Heading(title(table))
                shown = columns((table,), View.FULL)
                yield document.Table(tuple(one.head((table,)) for one in shown), tuple(body(table, View.FULL)))
                yield from map(Text, causes(table))
                told = ((row.label, "; ".join(details(row))) for row in table.rows)
                yield from listed(f"{label}: {words}." for label, words in told if words)
        yield from batch_parts([one for one in matrix.batch_tables if one.config.workload == workload])
        if missing := no_results(matrix, workload):
            yield Heading(f"{workload}, without a ratio")
            yield from tabled(("configuration", "why"), missing)
    yield from scaling_parts(matrix.every_row, on_a_cpu=matrix.environment.device == "cpu")
    yield from epoch_parts(matrix)
    for one in predictions:
        yield from predicted.prediction_parts(one)


# The JSON report: everything a script needs, under a schema number that rises when a name changes its meaning.

SCHEMA = 1


def matrix_to_json(matrix: Matrix, predictions: Iterable[WorkloadPrediction] = ()) -> str:
    """The matrix as JSON; units are in the names, rates in samples a second, an endless bound is null."""
    content = {
        "schema": SCHEMA,
        "environment": {**plain(matrix.environment), "digest": matrix.environment.digest},
        "machine": matrix.environment.machine,
        "contributed": matrix.contributed,
        "protocol": matrix.protocol,
        "design": matrix.design,
        "seed": matrix.seed,
        "real_data": dict(matrix.data),
        "noise": matrix.noise,
        "spent_s": dict(matrix.spent_s),
        "cells_with_a_ratio": matrix.looked_at,
        "tables": [_table(table) for table in matrix.tables],
        "batches": [_table(table) | batch_data(table) for table in matrix.batch_tables],
        "holes": matrix.no_results,
        "scaling": [scaling_data(one) for one in scalings(matrix.every_row)],
        "epochs": [epoch_data(one) for one in epochs(matrix)],
        "predicted": [predicted.prediction_data(one) for one in predictions],
    }
    return document.to_json(content)


def _table(table: Table) -> dict[str, Any]:
    return {
        "reference": _config(table.config),
        "reference_name": table.name,
        "timing": table.timing,
        "reference_profile": _profile(table.profile),
        "rows": [_row(row) for row in table.rows],
    }


def _row(row: Row) -> dict[str, Any]:
    return {
        "subject": row.label,
        "copy": row.comparison.copy,
        "treatment": _config(row.comparison.treatment),
        "estimate": _estimate(row.estimate) if row.estimate else None,
        "on_steps": row.on_steps,
        "energy": _estimate(row.energy) if row.energy else None,
        "absence": row.absence,
        "quality": row.quality,
        "loader_ratio": row.loader_ratio,
        "treatment_profile": _profile(row.treatment),
        "reference_profile": _profile(row.reference),
        "notes": row.notes,
    }


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return {**plain(estimate), "disturbed": estimate.disturbed, "sensitive": estimate.sensitive}


def _profile(profile: Profile | None) -> dict[str, Any] | None:
    return {**plain(profile), "cell": str(profile.config)} if profile else None


def _config(config: Configuration) -> dict[str, Any]:
    return {**plain(config), "name": str(config)}
