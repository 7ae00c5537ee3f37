"""Sentences: headings, table cells, causes and facts of a matrix, before any format is chosen."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

from harness.analyze.bottleneck import Bottleneck
from harness.analyze.estimate import Estimate
from harness.analyze.matrix import Matrix, Row, Table
from harness.analyze.profile import HostMemory, Profile, host_memory
from harness.core.environment import Environment
from harness.core.optimization import Timing
from harness.core.protocol import Protocol
from harness.core.recipe import Value
from harness.report.words import NOTHING, duration, energy, factor, looks, one_line, rate, ratio, share, size

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
    total = len(matrix.rows) + len(matrix.holes)
    found = {
        "machine": f"{chip}; {environment.system}",
        "software": "; ".join(filter(None, (f"Python {environment.python}, {packages}", settings(environment)))),
        "environment": environment.digest,
        "protocol": f"{protocol.restarts} restarts of {protocol.rounds} rounds, {windows(protocol)}{looks(protocol)}",
        "plan": f"{matrix.design}, seed {matrix.seed}",
        "cells": f"{matrix.looked_at} of {total} have a ratio; each interval is 95 % for its own cell alone",
        "data": "; ".join(f"{name}: {words}" for name, words in matrix.data.items()) or "made by the suite",
        "noise": matrix.noise,
    }
    return tuple((name, one_line(text)) for name, text in found.items())


def windows(protocol: Protocol) -> str:
    """How long is timed at a stretch, and what leads into it: `windows of about 1 s after 100 ms or more untimed`."""
    led_in = f" after {duration(protocol.lead_s)} or more untimed" if protocol.lead_s else ""
    return f"windows of about {duration(protocol.burst_s)}{led_in}"


def workloads(matrix: Matrix) -> tuple[str, ...]:
    """All workloads of a matrix in its order, those that have nothing but holes too."""
    named = (*(table.cell.workload for table in matrix.tables), *(hole.workload for hole in matrix.holes))
    return tuple(dict.fromkeys(named))


def title(table: Table) -> str:
    """What a table shows: workload, size, what was timed and against what."""
    cell = table.cell
    sample = f"{cell.workload}, size {cell.size}, batch {cell.batch}"
    return one_line(f"{sample}: {TIMED[table.timing]} against {table.name}")


def columns(table: Table) -> tuple[str, ...]:
    """The names of a table's columns; memory is the device's where there is one to tell."""
    always = ("subject", "speedup, 95 %", "verdict", "input wait", _memory(table)[0], "engaged", "quality")
    return (*always, ENERGY) if _counts_energy(table) else always


def body(table: Table) -> Iterator[tuple[str, ...]]:
    """The cells of a table: its reference, then every row that has an estimate."""
    spends, of = _counts_energy(table), _memory(table)[1]
    own = _energy(table.profile, None) if spends else ()
    yield one_line(table.name), "1 (reference)", NOTHING, *_costs(table.profile, of), NOTHING, NOTHING, *own
    for row in table.rows:
        if row.estimate is not None:
            engaged = "yes" if row.comparison.treatment.switches else NOTHING
            quality = row.quality.status.value if row.quality else NOTHING
            verdict = row.estimate.verdict.value
            spent = _energy(row.treatment, row.energy) if spends else ()
            yield (
                one_line(row.subject),
                ratio(row.estimate),
                verdict,
                *_costs(row.treatment, of),
                engaged,
                quality,
                *spent,
            )


def _costs(profile: Profile | None, memory: Callable[[Profile], int | None]) -> tuple[str, str]:
    if profile is None:
        return NOTHING, NOTHING
    count = memory(profile)
    return share(profile.phases.input_wait), NOTHING if count is None else size(count)


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


def holes(matrix: Matrix, workload: str) -> tuple[tuple[str, str], ...]:
    """What stands in place of a ratio in one workload: subjects, and the words that they share."""
    return tuple((", ".join(subjects), words) for subjects, words in without_ratio(matrix, workload))


def without_ratio(matrix: Matrix, workload: str) -> tuple[tuple[tuple[str, ...], str], ...]:
    """The subjects of one workload that have no ratio, together where they share the words for it."""
    rows = (row for row in matrix.rows if row.comparison.reference.workload == workload)
    absent = ((row.subject, row.absence.words) for row in rows if row.absence is not None)
    planned = ((hole.subject, hole.reason) for hole in matrix.holes if hole.workload == workload)
    alike: dict[str, list[str]] = defaultdict(list)
    for subject, words in (*absent, *planned):
        alike[one_line(words)].append(one_line(subject))
    return tuple((tuple(subjects), words) for words, subjects in alike.items())


def causes(table: Table) -> Iterator[str]:
    """What holds the reference back, with both upper bounds, and the settings that were seen in it."""
    name = one_line(table.name)
    found = table.profile.bottleneck if table.profile else None
    if found is not None:
        yield cause(name, found)
    if table.profile and table.profile.facts:
        yield f"Seen in {name}, and wherever nothing else is said: {facts(table.profile.facts)}."


def cause(name: str, found: Bottleneck) -> str:
    """What holds an arm back, with both upper bounds and what each would allow."""
    stage = "input" if found.stage == "input" else "training step"
    free_input, free_step = (max(1.0, one / found.rate) for one in (found.compute_rate, found.loader_rate))
    doubt = " How long its steps wait names the stage, against these two rates: a probe was too short."
    return (
        f"The {stage} holds {name} back. It trains {rate(found.rate)}; its step alone takes "
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
    """What an interval rests on: `24 pairs in 2 restarts, moderated t with df 12`."""
    return f"{estimate.pairs} pairs in {estimate.processes} restarts, {estimate.method} with df {estimate.df:.3g}"


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
