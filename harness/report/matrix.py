"""Sentences: headings, table cells, causes and facts of a matrix, before any format is chosen."""

import io
import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from harness.analyze.attribution import Gain
from harness.analyze.estimate import Estimate
from harness.analyze.matrix import Matrix, Row, Table
from harness.analyze.profile import Bottleneck, HostMemory, Profile, host_memory
from harness.analyze.search.prediction import Predicted
from harness.analyze.search.shares import Decomposition, WorkloadPrediction
from harness.analyze.verdict import Verdict
from harness.core.codec import stored
from harness.core.configuration import Configuration
from harness.core.environment import Environment
from harness.core.optimization import Timing
from harness.core.protocol import Protocol
from harness.core.recipe import Value
from harness.report import prediction as predicted
from harness.report.words import NOTHING, called, duration, energy, factor, looks, one_line, rate, ratio, share, size

TIMED = {
    Timing.STEP: "training steps",
    Timing.EPOCH: "whole epochs",
    Timing.EVALUATION: "evaluation passes",
    Timing.LOADER: "loader alone",
    Timing.COMPUTE: "steps on device batches",
}


ENERGY = "energy a sample, times thriftier"  # a column that is there where the device counts what it takes
DEVICE_PEAK = "device peak"
MEMORY = frozenset({DEVICE_PEAK, *HostMemory})  # what the column of memory may be called


def settings(environment: Environment) -> str:
    """The variables by which libraries compute otherwise, as a shell sets them; empty where none is."""
    return " ".join(f"{name}={value}" for name, value in environment.variables)


def heading(matrix: Matrix) -> tuple[tuple[str, str], ...]:
    """The facts that every number of a matrix depends on, as name and value."""
    environment, protocol = matrix.environment, matrix.protocol
    chip = environment.accelerator or f"{environment.cpu}, {environment.cores} cores"
    packages = ", ".join(f"{name} {version}" for name, version in environment.packages)
    total = len(matrix.rows) + len(matrix.no_results)
    found = {
        "machine": f"{chip}; {environment.system}",
        "software": "; ".join(filter(None, (f"Python {environment.python}, {packages}", settings(environment)))),
        "environment": environment.digest,
        "protocol": (
            f"{protocol.replicates} replicates of {protocol.rounds} rounds, {windows(protocol)}{looks(protocol)}"
        ),
        "plan": f"{matrix.design}, seed {matrix.seed}",
        "configurations": f"{matrix.looked_at} of {total} have a ratio; each interval is 95 % for its own alone",
        "data": "; ".join(f"{name}: {words}" for name, words in matrix.data.items()) or "made by the suite",
        "noise": matrix.noise,
    }
    return tuple((name, one_line(text)) for name, text in found.items())


def windows(protocol: Protocol) -> str:
    """How long is timed at a stretch, and what leads into it: `windows of about 1 s after 100 ms or more untimed`."""
    led_in = f" after {duration(protocol.lead_s)} or more untimed" if protocol.lead_s else ""
    return f"windows of about {duration(protocol.window_s)}{led_in}"


def workloads(matrix: Matrix) -> tuple[str, ...]:
    """All workloads of a matrix in its order, those that have nothing but missing results too."""
    named = (
        *(table.config.workload for table in matrix.tables),
        *(no_result.workload for no_result in matrix.no_results),
    )
    return tuple(dict.fromkeys(named))


def title(table: Table) -> str:
    """What a table shows: workload, size, what was timed and against what."""
    config = table.config
    sample = f"{config.workload}, size {config.size}, batch {config.batch}"
    return one_line(f"{sample}: {TIMED[table.timing]} against {called(table.name)}")


def columns(table: Table) -> tuple[str, ...]:
    """The names of a table's columns; memory is the device's where there is one to tell."""
    always = ("subject", "speedup, 95 %", "verdict", "input wait", _memory(table)[0], "active", "quality")
    return (*always, ENERGY) if _counts_energy(table) else always


def body(table: Table) -> Iterator[tuple[str, ...]]:
    """The configurations of a table: its reference, then every row that has an estimate."""
    spends, of = _counts_energy(table), _memory(table)[1]
    own = _energy(table.profile, None) if spends else ()
    yield one_line(table.name), "1 (reference)", NOTHING, *_costs(table.profile, of), NOTHING, NOTHING, *own
    for row in table.rows:
        if row.estimate is not None:
            active = "yes" if row.comparison.treatment.options else NOTHING
            quality = row.quality.status.value if row.quality else NOTHING
            verdict = row.estimate.verdict.value
            spent = _energy(row.treatment, row.energy) if spends else ()
            yield (
                one_line(row.label),
                ratio(row.estimate),
                verdict,
                *_costs(row.treatment, of),
                active,
                quality,
                *spent,
            )


def _costs(profile: Profile | None, memory: Callable[[Profile], int | None]) -> tuple[str, str]:
    if profile is None:
        return NOTHING, NOTHING
    count = memory(profile)
    return share(profile.phases.input_wait), NOTHING if count is None else size(count)


def memory_of(table: Table) -> Callable[[Profile], int | None]:
    """How the memory of an arm is told, alike for all rows of a table."""
    return _memory(table)[1]


def _memory(table: Table) -> tuple[str, Callable[[Profile], int | None]]:
    """The memory that can be told alike of all rows of a table: its name, and how much of it a row took."""
    if table.profile is not None and table.profile.device_bytes is not None:
        return DEVICE_PEAK, lambda one: one.device_bytes
    kind, _ = host_memory(*(one for one in (table.profile, *(row.treatment for row in table.rows)) if one))
    if kind is HostMemory.RESIDENT:
        return kind.value, lambda one: one.host_bytes
    return kind.value, lambda one: one.host_peak_bytes


def _counts_energy(table: Table) -> bool:
    return table.profile is not None and table.profile.joules is not None


def _energy(profile: Profile | None, saved: Estimate | None) -> tuple[str]:
    """What a sample takes, and how much longer the same energy lasts: `350 mJ, 1.83x [1.79, 1.88]`."""
    if profile is None or profile.joules is None:
        return (NOTHING,)
    return (f"{energy(profile.joules)}, {ratio(saved)}" if saved else energy(profile.joules),)


def no_results(matrix: Matrix, workload: str) -> tuple[tuple[str, str], ...]:
    """What stands in place of a ratio in one workload: subjects, and the words that they share."""
    return tuple((", ".join(labels), words) for labels, words in without_ratio(matrix, workload))


def without_ratio(matrix: Matrix, workload: str) -> tuple[tuple[tuple[str, ...], str], ...]:
    """The subjects of one workload that have no ratio, together where they share the words for it."""
    rows = (row for row in matrix.rows if row.comparison.reference.workload == workload)
    absent = ((row.label, row.absence.words) for row in rows if row.absence is not None)
    planned = ((no_result.label, no_result.reason) for no_result in matrix.no_results if no_result.workload == workload)
    alike: dict[str, list[str]] = defaultdict(list)
    for label, words in (*absent, *planned):
        alike[one_line(words)].append(one_line(label))
    return tuple((tuple(labels), words) for words, labels in alike.items())


def causes(table: Table) -> Iterator[str]:
    """What holds the reference back, with both upper bounds, and the settings that were seen in it."""
    name = one_line(table.name)
    found = table.profile.bottleneck if table.profile else None
    if found is not None:
        yield cause(name, found)
    if table.profile and table.profile.facts:
        yield f"Seen in {called(name)}, and wherever nothing else is said: {facts(table.profile.facts)}."


def cause(name: str, found: Bottleneck) -> str:
    """What holds an arm back, with both upper bounds and what each would allow."""
    stage = "input" if found.stage == "input" else "training step"
    free_input, free_step = (max(1.0, one / found.rate) for one in (found.compute_rate, found.loader_rate))
    doubt = " How long its steps wait names the stage, against these two rates: a probe was too short."
    return (
        f"The {stage} holds {called(name)} back. It trains {rate(found.rate)}; its step alone takes "
        f"{rate(found.compute_rate)}, so a perfect input gains at most {factor(free_input)}x; its loader alone "
        f"gives {rate(found.loader_rate)}, so a step that costs nothing gains at most {factor(free_step)}x."
        + (doubt if found.short_probe else "")
    )


def bound(found: Bottleneck) -> str:
    """The stage and the most that could be gained if it cost nothing: `input: at most 7.4x`."""
    return f"{found.stage}: at most {factor(found.bound)}x"


def facts(found: Mapping[str, Value]) -> str:
    """Effective settings in one line: `chunk_cache_bytes 33554432, layout contiguous`."""
    return one_line(", ".join(f"{name} {value}" for name, value in found.items()))


def remarks(row: Row) -> tuple[str, ...]:
    """A row's notes, and what was seen in it unlike its reference."""
    if row.estimate is None or row.treatment is None or row.reference is None:
        return ()
    shared = row.reference.facts
    unlike = {name: value for name, value in row.treatment.facts.items() if shared.get(name) != value}
    found = [*row.notes]
    if row.loader_ratio is not None and not 0.8 < row.loader_ratio < 1.25:
        found.append(f"its loader alone {factor(row.loader_ratio, 1)}x the reference's")
    return (*found, f"seen {facts(unlike)}") if unlike else tuple(found)


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
    """What stands behind one estimate: its pairs, upper bounds, start-up, facts and notes."""
    estimate, arm = row.estimate, row.treatment
    if estimate is None or arm is None:
        return
    yield behind(estimate)
    if arm.bottleneck is not None:
        yield f"held back by {bound(arm.bottleneck)}"
    if row.loader_ratio is not None:
        yield f"loader alone {factor(row.loader_ratio)}x"
    yield f"first step after {duration(arm.first_step_s)}"
    if spent := thrift(row):
        yield spent
    if arm.facts:
        yield f"seen {facts(arm.facts)}"
    yield from row.notes


# The terminal's report: one table for each workload, reference and timing, with its cause, notes and missing results.

_WIDE, _NARROW = 100, 79  # below the first in_columns stand close and energy has none, below the second more lack
FEW = 5  # predicted stacks; the other forms show more
_LEFT_OUT_IF_NARROW = {*MEMORY, "active"}
# Colour only repeats what the word beside it says.
_COLOUR = {Verdict.FASTER: "green", Verdict.SLOWER: "red", Verdict.NO_EFFECT: "dim", Verdict.UNDECIDED: "yellow"}


def matrix_to_terminal(
    matrix: Matrix, *, width: int = 100, colour: bool = False, outlooks: Iterable[WorkloadPrediction] = ()
) -> str:
    """The whole report as text of so many columns, with terminal colours if wanted."""
    stream = io.StringIO()
    console = Console(file=stream, width=width, force_terminal=colour, no_color=not colour, highlight=False)
    for part in (*render(matrix, width), *beyond(outlooks)):
        console.print(part)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


def render(matrix: Matrix, width: int, named: int | None = None) -> Iterator[RenderableType]:
    """The parts of the report, for a console of the caller's own.

    Where more comparisons than `named` lack a ratio for the same reason, they are counted instead.
    """
    yield _pairs(heading(matrix), style="dim")
    for workload in workloads(matrix):
        for table in matrix.tables:
            if table.config.workload == workload and any(row.estimate for row in table.rows):
                yield _title(title(table))
                yield _grid(table, width)
                yield from (Text(sentence) for sentence in causes(table))
                yield Padding(_pairs(_remarks(table)), (1, 0, 0, 0))
        if found := without_ratio(matrix, workload):
            yield _title(f"{one_line(workload)}, without a ratio")
            yield _pairs(((_counted(labels, named), words) for labels, words in found), widest=width // 2)


def _counted(labels: Sequence[str], named: int | None) -> str:
    return f"{len(labels)} comparisons" if named is not None and len(labels) > named else ", ".join(labels)


def beyond(outlooks: Iterable[WorkloadPrediction]) -> Iterator[RenderableType]:
    """What was predicted and not measured, in italics, for a console of the caller's own."""
    for outlook in outlooks:
        yield _title(predicted.title(outlook))
        yield from (Text(sentence) for sentence in predicted.prediction_sentences(outlook))
        yield from in_columns(predicted.COLUMNS, list(predicted.rows(outlook))[:FEW], style="italic dim")
        if outlook.decomposition is not None:
            yield _title(f"What {one_line(outlook.decomposition.label)} is made of")
            yield Text(predicted.part_sentence(outlook.decomposition))
            yield from in_columns(predicted.PARTS, list(predicted.part_rows(outlook.decomposition)))
        if outlook.check is not None:
            yield _title("Foretold and measured")
            yield from (Text(sentence) for sentence in predicted.check_sentences(outlook.check))


def in_columns(names: Sequence[str], rows: Sequence[Sequence[str]], style: str = "") -> Iterator[RenderableType]:
    """A table, or nothing where it has no row."""
    if not rows:
        return
    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in names:
        grid.add_column(name, overflow="fold")
    for row in rows:
        grid.add_row(*(Text(config, style=style) for config in row))
    yield grid


def _title(text: str) -> Padding:
    return Padding(Text(text, style="bold"), (1, 0, 0, 0))


def _grid(table: Table, width: int) -> Grid:
    names = columns(table)
    left_out = {ENERGY} if width <= _WIDE else set[str]()
    left_out |= _LEFT_OUT_IF_NARROW if width < _NARROW else set()
    shown = [index for index, name in enumerate(names) if name not in left_out]
    grid = Grid(box=box.SIMPLE_HEAD, padding=(0, 1) if width >= _WIDE else 0, pad_edge=False)
    for index in shown:
        counted = names[index] in {"input wait", *MEMORY}
        header = names[index].replace(" ", "\n", 1) if counted else names[index]
        grid.add_column(
            header, justify="right" if counted else "left", no_wrap=names[index] != "subject", overflow="fold"
        )
    for configs in body(table):
        grid.add_row(*(_coloured(configs[index], verdict=configs[2]) for index in shown))
    return grid


def _coloured(config: str, verdict: str) -> Text:
    return Text(config, style=_COLOUR[Verdict(verdict)] if config == verdict in list(Verdict) else "")


def _remarks(table: Table) -> Iterator[tuple[str, str]]:
    for row in table.rows:
        if said := remarks(row):
            yield one_line(row.label), "; ".join(said)


def _pairs(pairs: Iterable[tuple[str, str]], style: str = "", widest: int | None = None) -> Grid:
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(overflow="fold", max_width=widest)
    grid.add_column(ratio=1, overflow="fold")
    for name, text in pairs:
        grid.add_row(Text(name, style=style), Text(text, style=style))
    return grid


# The Markdown report: what the terminal shows and the details, with all foreign text escaped.

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~!&$])")


def matrix_to_markdown(matrix: Matrix, command: str, outlooks: Iterable[WorkloadPrediction] = ()) -> str:
    """The whole report; `command` is the command line that measures the same again."""
    return "\n".join((*_lines(matrix, command), *(line for one in outlooks for line in _outlook(one)))) + "\n"


def escaped(text: str) -> str:
    """Text that Markdown shows as it is: no markup, no HTML, no link, no table border."""
    literal = _SPECIAL.sub(r"\\\1", one_line(text))
    # Slashes after a colon and the dot after www would make links without any pairs.
    return re.sub(r"(?i)\bwww\.", lambda www: www[0][:-1] + r"\.", literal.replace("://", r"\://"))


def _lines(matrix: Matrix, command: str) -> Iterator[str]:
    yield from ("# Speedup matrix", "")
    yield from _escaped_grid(("fact", "value"), heading(matrix))
    yield from ("", "To measure the same again:", "", *_code(command))
    for workload in workloads(matrix):
        for table in matrix.tables:
            if table.config.workload == workload and any(row.estimate for row in table.rows):
                yield from _table(table)
        if missing := no_results(matrix, workload):
            yield from _section(f"{workload}, without a ratio")
            yield from _escaped_grid(("subject", "why"), missing)


def _table(table: Table) -> Iterator[str]:
    yield from _section(title(table))
    yield from _escaped_grid(columns(table), body(table))
    for sentence in causes(table):
        yield from ("", escaped(sentence))
    yield ""
    for row in table.rows:
        if told := "; ".join(details(row)):
            yield f"- {escaped(row.label)}: {escaped(told)}."


def _outlook(outlook: WorkloadPrediction) -> Iterator[str]:
    """What was predicted and not measured, in italics where a measured ratio would be upright."""
    yield from _section(predicted.title(outlook))
    for sentence in predicted.prediction_sentences(outlook):
        yield from (escaped(sentence), "")
    if rows := tuple(predicted.rows(outlook)):
        yield from grid(predicted.COLUMNS, ((escaped(name), f"*{escaped(ratio)}*") for name, ratio in rows))
        yield ""
    if outlook.decomposition is not None:
        yield from (f"### What {escaped(outlook.decomposition.label)} is made of", "")
        yield from (escaped(predicted.part_sentence(outlook.decomposition)), "")
        yield from (*_escaped_grid(predicted.PARTS, predicted.part_rows(outlook.decomposition)), "")
    if outlook.check is not None:
        yield from ("### Foretold and measured", "")
        for sentence in predicted.check_sentences(outlook.check):
            yield from (escaped(sentence), "")
        yield from _escaped_grid(predicted.CHECKS, predicted.check_rows(outlook))


def _section(title: str) -> tuple[str, ...]:
    return "", f"## {escaped(title)}", ""


def grid(header: Sequence[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """A table of configurations that are Markdown already."""
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)


def _escaped_grid(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield from grid(header, (map(escaped, row) for row in rows))


def _code(command: str) -> tuple[str, str, str]:
    """A fence longer than any run of backticks inside, so that nothing can end it early."""
    line = one_line(command)
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", line)), default=0))
    return f"{fence}sh", line, fence


# The JSON report: everything a script needs, under a schema number that rises when a name changes its meaning.

SCHEMA = 1


def matrix_to_json(matrix: Matrix, outlooks: Iterable[WorkloadPrediction] = ()) -> str:
    """The matrix as JSON; units are in the names, rates in samples a second, an endless bound is null."""
    tables = [_table_data(table) for table in matrix.tables]
    document = {
        "schema": SCHEMA,
        "environment": {**plain(matrix.environment), "digest": matrix.environment.digest},
        "machine": matrix.environment.machine,
        "protocol": matrix.protocol,
        "design": matrix.design,
        "seed": matrix.seed,
        "real_data": dict(matrix.data),
        "noise": matrix.noise,
        "cells_with_a_ratio": matrix.looked_at,
        "tables": tables,
        "holes": matrix.no_results,
        "predicted": [_outlook_data(one) for one in outlooks],
    }
    return json.dumps(plain(document), indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def _outlook_data(outlook: WorkloadPrediction) -> dict[str, Any]:
    """What was predicted and not measured; `refused` says why there is nothing."""
    said, check = outlook.prediction, outlook.check
    return {
        "reference": _config(outlook.config),
        "refused": said if isinstance(said, str) else None,
        "foretold": None if isinstance(said, str) else said.validation,
        "unmeasured_stacks": None if isinstance(said, str) else said.unmeasured,
        "stacks": [] if isinstance(said, str) else [predicted_stack(one) for one in said.fastest],
        "ceilings": {} if isinstance(said, str) else {one.name: dict(one.stages) for one in said.upper_bounds},
        "anatomy": decomposition(outlook.decomposition) if outlook.decomposition else None,
        "cross_check": {
            "cells_fitted": check.fitted,
            "median_error": check.median_error,
            "worst_error": check.worst_error,
            "inside_90": check.inside,
            "median_error_of_products": check.multiplied_error,
            "cells": [
                {**predicted_stack(one.predicted), "measured": one.ratio, "product": one.multiplied}
                for one in check.configs
            ],
        }
        if check
        else None,
    }


def predicted_stack(one: Predicted) -> dict[str, Any]:
    """A predicted ratio with its 90 % interval."""
    options = [str(option) for option in one.arrangement.options]
    return {"switches": options, "predicted_ratio": one.ratio, "low_90": one.low, "high_90": one.high}


def decomposition(found: Decomposition) -> dict[str, Any]:
    """A stack in parts; every ratio with its 95 % interval."""
    parts = [
        {"switch": str(one.option), "alone": _gain(one.alone), "share": _gain(one.share), "last": _gain(one.last)}
        for one in found.parts
    ]
    return {"subject": found.label, "total": _gain(found.total), "parts": parts}


def _gain(found: Gain | None) -> dict[str, float] | None:
    return None if found is None else {"ratio": found.ratio, "low_95": found.low, "high_95": found.high}


def _table_data(table: Table) -> dict[str, Any]:
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


def plain(value: Any) -> Any:
    """The same with nothing but JSON's own kinds; what is neither number nor text nor a holder of them raises later."""
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {stored(one.name): plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, dict):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
