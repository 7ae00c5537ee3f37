"""Rows: what each table says of a run, flat, with the names of its columns."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from harness.analyze.collection import Kept
from harness.analyze.matrix import Matrix, Row, Table
from harness.analyze.profile import Profile
from harness.core.cell import Cell
from harness.core.measurement import Arm, Burst, Lost, Ready, Record
from harness.core.plan import Hole, Plan
from harness.core.recipe import Value

Fields = dict[str, Any]
NEVER_PLANNED = "not planned"  # of a hole: the plan itself says why it is not made


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """A run with its plan and its records, beside the matrix made of them."""

    kept: Kept
    plan: Plan
    records: tuple[Record, ...]

    @property
    def key(self) -> Fields:
        """What every row of the run begins with."""
        return {"machine": self.kept.machine, "run": self.kept.name}

    def cell(self, arm: Arm) -> Fields:
        """The cell that an arm is, and what its comparison is called."""
        block = next(block for block in self.plan.blocks if block.identity == arm.block)
        comparison = block.comparisons[arm.position - 1] if arm.position else None
        cell = comparison.treatment if comparison else block.reference
        return {
            "workload": cell.workload,
            "size": cell.size,
            "batch": cell.batch,
            "stack": stack(cell),
            "timing": block.timing.value,
            "subject": comparison.subject if comparison else None,
        }


def stack(cell: Cell) -> str:
    """What a cell switches on, as it is written on the command line; empty for nothing."""
    return "+".join(str(switch) for switch in cell.switches)


def _runs(run: Exported) -> Iterator[Fields]:
    kept, environment, protocol = run.kept, run.kept.environment, run.plan.protocol
    packages = dict(environment.packages)
    facts = ("device", "accelerator", "capability", "driver", "cpu", "system", "python", "compiler")
    yield {
        **{name: getattr(environment, name) for name in (*facts, "cores", "memory_bytes", "accelerator_memory_bytes")},
        "began": datetime.fromisoformat(kept.began),
        "version": kept.version,
        "command": kept.command,
        "design": run.plan.design,
        "seed": run.plan.seed,
        "restarts": protocol.restarts,
        "rounds": protocol.rounds,
        "target": protocol.target,
        "contributed": kept.contributed,
        "environment": environment.digest,
        "torch": packages.get("torch"),
        "packages": ", ".join(f"{name} {version}" for name, version in environment.packages),
        "variables": ", ".join(f"{name}={value}" for name, value in environment.variables),
    }


def _arms(run: Exported) -> Iterator[Fields]:
    numbers = ("build_s", "first_step_s", "warm_up_s", "step_s", "warm_up_steps", "steady")
    told = ("seed_spread", "repeat_spread", "loader_rate", "compute_rate", "score", "cycle_steps")
    for ready in _of(run, Ready):
        yield {
            **_arm(ready.arm),
            **run.cell(ready.arm),
            **{name: getattr(ready, name) for name in (*numbers, *told)},
            "engaged": not ready.unengaged,
            "unengaged": "; ".join(ready.unengaged) or None,
        }


def _settings(run: Exported) -> Iterator[Fields]:
    for ready in _of(run, Ready):
        for name, value in ready.effective.items():
            yield {**_arm(ready.arm), "name": name, "value": _text(value), "number": _number(value)}


def _text(value: Value) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)


def _number(value: Value) -> float | None:
    return None if value is None or isinstance(value, str) else float(value)


def _losses(run: Exported) -> Iterator[Fields]:
    for ready in _of(run, Ready):
        for step, loss in enumerate(ready.losses, 1):
            yield {**_arm(ready.arm), "step": step, "loss": loss}


def _bursts(run: Exported) -> Iterator[Fields]:
    counts = ("order", "steps", "samples", "device_bytes", "process_bytes", "strangers")
    host = ("host_bytes", "host_peak_bytes", "host_peak_since_start")
    seconds = ("began_s", "wall_s", "wait_s", "copy_s", "device_s", "queue_s", "others", "rate")
    board = ("clock_mhz", "memory_clock_mhz", "watts", "energy_j", "temperature_c")
    edges = ("first_step", "lead_steps", "lead_s", "first_half_s", "batches", "produced", "slipped")
    for burst in _of(run, Burst):
        facts = {name: getattr(burst, name) for name in (*counts, *host, *seconds, *board, *edges)}
        facts["slowest_s"] = max(burst.slowest_s) if burst.slowest_s else None
        facts["throttled"] = None if burst.throttled is None else ", ".join(burst.throttled)
        yield {**_arm(burst.arm), **run.cell(burst.arm), **facts}


def _lost(run: Exported) -> Iterator[Fields]:
    for lost in _of(run, Lost):
        kind = lost.kind.value if lost.kind else None
        facts = {"outcome": lost.outcome, "reason": lost.reason, "trace": lost.trace, "kind": kind}
        yield {**_arm(lost.arm), **run.cell(lost.arm), **facts}


def _of(run: Exported, kind: type[Any]) -> Iterator[Any]:
    return (record for record in run.records if isinstance(record, kind))


def _arm(arm: Arm) -> Fields:
    return {"block": arm.block, "restart": arm.restart, "life": arm.life, "position": arm.position}


def _ratios(run: Exported) -> Iterator[Fields]:
    matrix = run.kept.matrix
    for table in matrix.tables:
        yield from (_ratio(matrix, table, row) for row in table.rows)
    yield from (_hole(matrix, hole) for hole in matrix.holes)


def _ratio(matrix: Matrix, table: Table, row: Row) -> Fields:
    comparison = row.comparison
    return {
        "environment": matrix.environment.digest,
        "workload": comparison.treatment.workload,
        "subject": row.comparison.subject,
        "size": comparison.treatment.size,
        "timing": table.timing.value,
        "treatment": stack(comparison.treatment),
        "reference": stack(comparison.reference),
        "reference_name": row.reference_name,
        "batch": comparison.treatment.batch,
        "copy": comparison.copy,
        "data": matrix.data.get(comparison.treatment.workload),
        **_estimate(row),
        **_energy(row),
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
    numbers = ("ratio", "low", "high", "df", "interference", "crowding", "trimmed_ratio", "pairs", "windows")
    return {
        **{name: getattr(estimate, name) for name in (*numbers, "method", "outlying", "disturbed", "sensitive")},
        "left_out": sum(count for _, count in estimate.left_out),
        "restarts": estimate.processes,
        "verdict": estimate.verdict.value,
    }


def _energy(row: Row) -> Fields:
    return {f"energy_{name}": getattr(row.energy, name) for name in ("ratio", "low", "high")} if row.energy else {}


def _profile(side: str, profile: Profile | None) -> Fields:
    if profile is None:
        return {}
    found = profile.bottleneck
    same = (
        *("rate", "device_span", "host_queueing", "loader_rate", "compute_rate", "host_bytes", "device_bytes"),
        *("first_step_s", "host_peak_bytes", "host_peak_since_start", "process_bytes", "joules", "clock_mhz"),
    )
    facts = {
        **{name: getattr(profile, name) for name in same},
        "steady": profile.steady,
        "input_wait": profile.phases.input_wait,
        "copy": profile.phases.copy,
        "bottleneck": found.stage if found else None,
        "bound": found.bound if found else None,
    }
    return {f"{side}_{name}": value for name, value in facts.items()}


def _hole(matrix: Matrix, hole: Hole) -> Fields:
    return {
        "environment": matrix.environment.digest,
        "workload": hole.workload,
        "subject": hole.subject,
        "outcome": NEVER_PLANNED,
        "words": hole.reason,
    }


MAKERS: Mapping[str, Callable[[Exported], Iterator[Fields]]] = {
    "runs": _runs,
    "arms": _arms,
    "settings": _settings,
    "losses": _losses,
    "bursts": _bursts,
    "lost": _lost,
    "ratios": _ratios,
}
