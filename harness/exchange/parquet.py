"""Tables: rows as Parquet files, in memory; the only module that needs pyarrow."""

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pyarrow import DataType, bool_, field, float64, int64, parquet, schema, string, timestamp
from pyarrow import Table as ArrowTable

from harness.analyze.collection import StoredRun
from harness.analyze.composition import Composed
from harness.analyze.matrix import Matrix, Row, Table
from harness.analyze.profile import Profile
from harness.core.environment import DEVICES
from harness.core.plan import Plan
from harness.core.recipe import Value
from harness.core.records import Arm, Lost, Ready, Record, Window

# Columns: the name, type and meaning of everything in the Parquet tables; their order is that of the files.

SCHEMA = 2  # rises when a column goes away or changes its meaning; a new one may come without

Kind = Literal["text", "integer", "number", "truth", "moment"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column; units are seconds, bytes, samples a second or plain counts and ratios."""

    name: str
    kind: Kind
    words: str
    may_miss: bool = True  # whether a row may have none


def _always(kind: Kind, /, **named: str) -> tuple[Column, ...]:
    return tuple(Column(name=name, kind=kind, words=words, may_miss=False) for name, words in named.items())


def _maybe(kind: Kind, /, **named: str) -> tuple[Column, ...]:
    return tuple(Column(name=name, kind=kind, words=words) for name, words in named.items())


_RUN = _always(
    "text",
    machine="neutral name of the machine",
    run="name of the run's folder; with `machine` the key of `runs`",
)
_ARM = (
    *_always("text", block="of the plan"),
    *_always(
        "integer",
        replicate="counted from 0: each has fresh processes",
        attempt="counted from 0 within a replicate",
        position="0 is the block's reference, n its n-th comparison",
    ),
    *_always("truth", shared="its process hosted other arms too"),
)
_CONFIG = (
    *_always("text", workload="by name", size="smoke, quick or standard"),
    *_always("integer", batch="samples per optimizer step"),
    *_always("text", stack="what is switched on, `A+B=2`; empty for nothing", timing="what its windows cover"),
    *_maybe("text", label="what the comparison is called; none for the reference"),
)
_RUNS = (
    *_RUN,
    *_always("moment", began="UTC"),
    *_always("text", version="of the harness", command="measures the same again", design="of the plan"),
    *_always(
        "integer", seed="of the plan", replicates="planned for every comparison", rounds="planned in each replicate"
    ),
    *_maybe("number", target="half-width of a log ratio beyond which replicates are added; none where they are fixed"),
    *_always("truth", contributed="somebody else measured it"),
    *_always("text", environment="digest of all facts of the machine", device=" or ".join(DEVICES)),
    *_maybe("text", accelerator="its name", capability="of the accelerator", driver="of the accelerator"),
    *_maybe("integer", accelerator_memory_bytes="bytes"),
    *_always("text", cpu="its name", system="kernel and architecture", python="version"),
    *_always("integer", cores="usable", memory_bytes="bytes, or the control group's limit"),
    *_maybe("text", compiler="g++ where there is one", torch="version"),
    *_always("text", packages="names and versions, `numpy 2.1.0, torch 2.11.0`"),
    *_always(
        "text", variables="by which libraries compute otherwise, `CUDA_LAUNCH_BLOCKING=1`; empty where none is set"
    ),
)
_ARMS = (
    *_RUN,
    *_ARM,
    *_CONFIG,
    *_always(
        "number",
        build_s="seconds for model, data and optimizer, after the imports",
        first_step_s="seconds of the first step, in which loader workers start",
        warm_up_s="seconds",
        step_s="seconds of a step at the end of the warm-up",
    ),
    *_always("integer", warm_up_steps="count"),
    *_always("truth", steady="the times had settled", active="all that was promised took effect"),
    *_maybe("text", inactive="sentences on what did not take effect"),
    *_maybe(
        "number",
        seed_spread="mean difference of the first losses between seeds; the reference's alone",
        repeat_spread="the same between runs from its own seed, 0 for the same bits; none before version 0.3.0",
        loader_rate="samples a second with the step left out; none where windows tell it",
        compute_rate="samples a second on batches that lie on the device; none where windows tell it",
        asked_rate="samples a second of batches that are asked for one after another, in an arm without loader workers",
        score="of the model after its first steps, where evaluation is timed",
    ),
    *_maybe(
        "integer",
        cycle_steps="until the same work comes round again; none before version 0.3.0",
        epoch_steps="after which the order of samples begins anew; none before version 0.3.0",
    ),
)
_SETTINGS = (
    *_RUN,
    *_ARM,
    *_always("text", name="of the setting"),
    *_maybe("text", value="as it was seen on the running arm, as text"),
    *_maybe("number", number="the same where it is a number; 1 and 0 for true and false"),
)
_LOSSES = (
    *_RUN,
    *_ARM,
    *_always("integer", step="counted from 1, from the seeded start"),
    *_always("number", loss="may be nan or infinite"),
)
_WINDOWS = (
    *_RUN,
    *_ARM,
    *_CONFIG,
    *_always("integer", order="counts the windows of an attempt", steps="count", samples="count"),
    *_always(
        "number",
        began_s="seconds since the attempt's windows began",
        wall_s="seconds",
        rate="samples a second over the whole window",
        wait_s="seconds of waiting for batches",
        copy_s="seconds of copying to the device",
    ),
    *_maybe(
        "number",
        device_s="seconds from the first kernel of each step to its last, gaps included; none on a CPU",
        queue_s="seconds in which the host queued what lies between those; none on a CPU and before version 0.3.0",
        others="share of the cores, from 0 to 1, that others took while none was idle; none where it was not read",
        clock_mhz="megahertz of the device's multiprocessors at the end; as what follows, none where no driver told",
        memory_clock_mhz="megahertz of the device's memory",
        watts="power of the device, mean of about the last second",
        energy_j="joules that the device took",
        temperature_c="degrees Celsius of the device",
        lead_s="seconds of the untimed steps that led into it; as what follows, none before version 0.3.0",
        first_half_s="seconds of the first half of its steps, the smaller one of an odd number",
        slowest_s="seconds of its slowest step",
        median_s="seconds of its median step",
    ),
    *_always("truth", host_peak_since_start="the kernel told the peak since the arm's start alone"),
    *_maybe(
        "integer",
        host_bytes="bytes resident in the arm and its loader workers, at the end; none where it shared its process",
        host_peak_bytes="the most that they held in it and in what led into it; none before version 0.3.0",
        device_bytes="peak bytes of the device's allocator; none on a CPU",
        process_bytes="bytes of the device that the arm's process held in all",
        strangers="processes on the device that were none of ours",
        first_step="of its cycle: windows that begin with the same step hold the same samples; 0 of whole cycles",
        lead_steps="untimed steps that led into it; as what follows, none before version 0.3.0",
        extra_steps="of these, by chance",
        batches="taken from loader workers while it was timed; as what follows, none without workers",
        produced="batches that loader workers finished while it was timed",
        slipped="batches that they finished while the arm stood still",
    ),
    *_maybe("text", throttled="names of what held the device's clock down; empty for nothing"),
)
_LOST = (
    *_RUN,
    *_ARM,
    *_CONFIG,
    *_always("text", outcome="failed, skipped or interrupted", reason="one line", trace="may be empty"),
    *_maybe("text", kind="what ended it, in a word; none before version 0.2.0"),
)
_SIDE = ("treatment", "reference")
_PROFILE: Mapping[str, tuple[Kind, str]] = {
    "rate": ("number", "samples a second over all its windows"),
    "input_wait": ("number", "share of its time, from 0 to 1, in which it waited for batches"),
    "copy": ("number", "share of its time in which batches were copied"),
    "device_span": ("number", "share of its time from the first kernel of each step to its last; none on a CPU"),
    "host_queueing": ("number", "share of its time in which the host queued those; none on a CPU"),
    "loader_rate": ("number", "samples a second of its loader alone"),
    "compute_rate": ("number", "samples a second of its step alone"),
    "bottleneck": ("text", "input or compute: the lower of the two, unless how long its steps wait shows the other"),
    "bound": ("number", "times faster at most, if that stage cost nothing"),
    "host_bytes": ("integer", "bytes resident after a window, the most of all windows"),
    "host_peak_bytes": ("integer", "peak bytes; none where they are not known of every window"),
    "host_peak_since_start": ("truth", "the kernel told the peak since the arm's start alone"),
    "device_bytes": ("integer", "peak bytes; none on a CPU"),
    "process_bytes": ("integer", "peak bytes of the device that its process held in all"),
    "joules": ("number", "joules that the device took for a sample"),
    "clock_mhz": ("number", "mean megahertz of the device's multiprocessors"),
    "step_p50_s": ("number", "seconds within which half of its steps were done; as what follows, none before 0.3.0"),
    "step_p95_s": ("number", "seconds within which 95 % of its steps were done"),
    "step_p99_s": ("number", "seconds within which 99 % of its steps were done; none of fewer than 100 steps"),
    "step_longest_s": ("number", "seconds of its longest step"),
    "first_step_s": ("number", "seconds of its slowest first step"),
    "steady": ("truth", "its times had settled when its warm-up ended"),
}
_RATIOS = (
    *_RUN,
    *_always("text", environment="digest; ratios of two environments are never pooled"),
    *_always("text", workload="by name", label="what the comparison is called"),
    *_maybe("text", size="smoke, quick or standard", timing="what is timed"),
    *_maybe("text", treatment="its stack", reference="its stack", reference_name="what the matrix calls it"),
    *_maybe("integer", batch="samples per optimizer step", copy="numbers repetitions, from 0"),
    *_maybe("text", data="what the real data are; none for the suite's own"),
    *_maybe(
        "number",
        ratio="treatment's rate over the reference's: above 1 is faster; none where there are words instead",
        low="lower end of its 95 % interval",
        high="upper end; may be infinite",
        df="degrees of freedom of Student's t",
        drift="root mean square of the reference's own log change between windows with like samples",
        contention="share of the cores that others took while none was idle, the larger of both arms; 0 where not read",
        trimmed_ratio="mean of log ratios of pairs without the extreme ones: what stalls do not reach",
        steps_ratio="of training steps, composed from that of a part; none where that is not known, as all of `steps_`",
        steps_low="lower end of its 95 % interval",
        steps_high="upper end; may be infinite",
        energy_ratio="samples a joule over the reference's: above 1 is thriftier; none where nobody counted",
        energy_low="lower end of its 95 % interval",
        energy_high="upper end; may be infinite",
    ),
    *_maybe(
        "integer",
        pairs="windows of the treatment, each between two of the reference",
        windows="of both arms, with those that were left out",
        left_out="windows, on evidence from outside of the arms alone; `notes` tells why",
        replicates="with fresh processes of both arms",
    ),
    *_maybe(
        "text",
        verdict="faster, slower, no effect, undecided or disturbed",
        steps_verdict="that of the composed ratio",
        method="what its width rests on: moderated t, t or scatter of windows",
    ),
    *_maybe(
        "truth",
        outlying="its replicates disagree more than its neighbours'",
        shared="its arms lived in one process, perhaps beside others",
        disturbed="the machine was too restless for a verdict",
        sensitive="leaving out extreme pairs would move the ratio by more than half its interval",
    ),
    *_maybe("text", outcome="why there is no ratio, in a word", words="why there is no ratio, in full"),
    *_maybe("text", quality="how its losses agree with the reference's", quality_words="the same in full"),
    *_maybe("text", notes="what a reader must know beside the ratio"),
    *(
        Column(name=f"{side}_{name}", kind=kind, words=words)
        for side in _SIDE
        for name, (kind, words) in _PROFILE.items()
    ),
)

TABLES: Mapping[str, tuple[Column, ...]] = {
    "runs": _RUNS,
    "arms": _ARMS,
    "settings": _SETTINGS,
    "losses": _LOSSES,
    "windows": _WINDOWS,
    "lost": _LOST,
    "ratios": _RATIOS,
}


# Rows: what each table says of a run, flat, with the names of its columns.

Fields = dict[str, Any]
NEVER_PLANNED = "not planned"  # of a missing result: the plan itself says why it is not made


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """A run with its plan and its records, beside the matrix made of them."""

    kept: StoredRun
    plan: Plan
    records: tuple[Record, ...]

    def config(self, arm: Arm) -> Fields:
        """The configuration that an arm is, and what its comparison is called."""
        block = next(block for block in self.plan.blocks if block.identity == arm.block)
        comparison = block.comparisons[arm.position - 1] if arm.position else None
        config = comparison.treatment if comparison else block.reference
        return {
            "workload": config.workload,
            "size": config.size,
            "batch": config.batch,
            "stack": config.stack,
            "timing": block.timing.value,
            "label": comparison.label if comparison else None,
        }


def _told(name: str, *sources: object) -> Fields:
    """What these have under the names of a table's columns; of two that have the same, the later one's."""
    names = [one.name for one in TABLES[name]]
    return {one: getattr(source, one) for source in sources for one in names if hasattr(source, one)}


def _runs(run: Exported) -> Iterator[Fields]:
    environment = run.kept.environment
    yield {
        **_told("runs", environment, run.kept, run.plan, run.plan.protocol),
        "began": datetime.fromisoformat(run.kept.began),
        "environment": environment.digest,
        "torch": dict(environment.packages).get("torch"),
        "packages": ", ".join(f"{name} {version}" for name, version in environment.packages),
        "variables": ", ".join(f"{name}={value}" for name, value in environment.variables),
    }


def _arms(run: Exported) -> Iterator[Fields]:
    for ready in _of(run, Ready):
        yield {
            **_told("arms", ready, ready.arm),
            **run.config(ready.arm),
            "active": not ready.inactive,
            "inactive": "; ".join(ready.inactive) or None,
        }


def _settings(run: Exported) -> Iterator[Fields]:
    for ready in _of(run, Ready):
        for name, value in ready.effective.items():
            yield {**_told("settings", ready.arm), "name": name, "value": _text(value), "number": _number(value)}


def _text(value: Value) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)


def _number(value: Value) -> float | None:
    return None if value is None or isinstance(value, str) else float(value)


def _losses(run: Exported) -> Iterator[Fields]:
    for ready in _of(run, Ready):
        for step, loss in enumerate(ready.losses, 1):
            yield {**_told("losses", ready.arm), "step": step, "loss": loss}


def _windows(run: Exported) -> Iterator[Fields]:
    for window in _of(run, Window):
        yield {
            **_told("windows", window, window.arm),
            **run.config(window.arm),
            "slowest_s": max(window.slowest_s) if window.slowest_s else None,
            "median_s": window.quantiles_s[len(window.quantiles_s) // 2] if window.quantiles_s else None,
            "throttled": None if window.throttled is None else ", ".join(window.throttled),
        }


def _lost(run: Exported) -> Iterator[Fields]:
    for lost in _of(run, Lost):
        kind = lost.kind.value if lost.kind else None
        yield {**_told("lost", lost, lost.arm), **run.config(lost.arm), "kind": kind}


def _of(run: Exported, kind: type[Any]) -> Iterator[Any]:
    return (record for record in run.records if isinstance(record, kind))


def _ratios(run: Exported) -> Iterator[Fields]:
    matrix = run.kept.matrix
    for table in (*matrix.tables, *matrix.batch_tables):
        yield from (_ratio(matrix, table, row) for row in table.rows)
    planned = {"environment": matrix.environment.digest, "outcome": NEVER_PLANNED}
    yield from ({**_told("ratios", one), **planned, "words": one.reason} for one in matrix.no_results)


def _ratio(matrix: Matrix, table: Table, row: Row) -> Fields:
    comparison = row.comparison
    return {
        **_told("ratios", comparison.treatment, comparison),
        "environment": matrix.environment.digest,
        "timing": table.timing.value,
        "treatment": comparison.treatment.stack,
        "reference": comparison.reference.stack,
        "reference_name": row.reference_name,
        "data": matrix.data.get(comparison.treatment.workload),
        **_estimate(row),
        **_steps(row.on_steps),
        **({f"energy_{name}": getattr(row.energy, name) for name in ("ratio", "low", "high")} if row.energy else {}),
        "outcome": row.absence.outcome.value if row.absence else None,
        "words": row.absence.words if row.absence else None,
        "quality": row.quality.status.value if row.quality else None,
        "quality_words": row.quality.sentence if row.quality else None,
        "notes": "; ".join(row.notes) or None,
        **_profile("treatment", row.treatment),
        **_profile("reference", row.reference),
    }


def _estimate(row: Row) -> Fields:
    estimate = row.estimate
    if estimate is None:
        return {}
    return {
        **_told("ratios", estimate),
        "left_out": sum(count for _, count in estimate.left_out),
        "replicates": estimate.processes,
        "verdict": estimate.verdict.value,
    }


def _steps(found: Composed | None) -> Fields:
    if found is None:
        return {}
    return {
        **{f"steps_{name}": getattr(found, name) for name in ("ratio", "low", "high")},
        "steps_verdict": found.verdict.value,
    }


def _profile(side: str, profile: Profile | None) -> Fields:
    if profile is None:
        return {}
    found, times = profile.bottleneck, profile.step_times
    facts = {
        **{name: getattr(profile, name) for name in _PROFILE if hasattr(profile, name)},
        "input_wait": profile.phases.input_wait,
        "copy": profile.phases.copy,
        "bottleneck": found.stage if found else None,
        "bound": found.bound if found else None,
        **{f"step_{name}_s": getattr(times, name, None) for name in ("p50", "p95", "p99", "longest")},
    }
    return {f"{side}_{name}": value for name, value in facts.items()}


MAKERS: Mapping[str, Callable[[Exported], Iterator[Fields]]] = {
    "runs": _runs,
    "arms": _arms,
    "settings": _settings,
    "losses": _losses,
    "windows": _windows,
    "lost": _lost,
    "ratios": _ratios,
}


_TYPES: Mapping[Kind, DataType] = {
    "text": string(),
    "integer": int64(),
    "number": float64(),
    "truth": bool_(),
    "moment": timestamp("us", tz="UTC"),
}


def tables(runs: Sequence[Exported]) -> Iterator[tuple[str, int, bytes]]:
    """Every table by name, with the number of its rows and its file; the schema's number is in the file's metadata."""
    for name, columns in TABLES.items():
        rows = [one for run in runs for one in _rows(name, run)]
        fields = (
            field(one.name, _TYPES[one.kind], nullable=one.may_miss, metadata={"description": one.words})
            for one in columns
        )
        told = {"speedmatrix.schema": str(SCHEMA), "speedmatrix.table": name}
        table = ArrowTable.from_pylist(rows, schema=schema(list(fields), metadata=told))
        file = io.BytesIO()
        parquet.write_table(table, file, compression="zstd")
        yield name, table.num_rows, file.getvalue()


def _rows(name: str, run: Exported) -> Iterator[dict[str, object]]:
    """Rows with every column and no other: a name that is misspelt is an error, not a column of nothing."""
    known = {column.name for column in TABLES[name]}
    for row in MAKERS[name](run):
        whole = {"machine": run.kept.machine, "run": run.kept.name, **row}
        if strange := whole.keys() - known:
            raise ValueError(f"{name} has no columns {sorted(strange)}")
        yield whole
