"""Advice as JSON: the same in numbers, under a schema number that rises when a name changes its meaning."""

import json
from collections.abc import Mapping
from typing import Any

from harness.analyze.advice import Advice, Counsel, Item
from harness.analyze.attribution import Gain
from harness.analyze.interplay import Interplay
from harness.analyze.profile import host_memory
from harness.analyze.ready_made import Candidate, ReadyMade
from harness.analyze.remedy import remedy
from harness.analyze.start_up import BreakEven
from harness.core.cell import Comparison
from harness.report.advice import without_advice
from harness.report.machine_readable import plain
from harness.report.sentences import holes

SCHEMA = 2


def to_json(advice: Advice, commands: Mapping[Comparison, str]) -> str:
    """The advice as JSON; units are in the names, an endless bound is null."""
    environment = advice.kept.environment
    document = {
        "schema": SCHEMA,
        "run": advice.kept.name,
        "machine": environment.machine,
        "environment": environment.digest,
        "workloads": [_counsel(one, advice, commands) for one in advice.counsels],
    }
    return json.dumps(plain(document), indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def _counsel(counsel: Counsel, advice: Advice, commands: Mapping[Comparison, str]) -> dict[str, Any]:
    base = counsel.base
    return {
        "workload": counsel.workload,
        "reference": str(base.cell) if base else None,
        "reference_name": base.name if base else None,
        "bottleneck": base.profile.bottleneck if base and base.profile else None,
        "no_advice": without_advice(counsel),
        "items": [_item(one, commands, counsel.device) for one in counsel.items],
        "interplays": [_interplay(one) for one in counsel.interplays],
        "stacks": [_stack(one, commands) for one in counsel.ready_made],
        "measured_stacks": counsel.looked_at,
        "skipped": [
            {"subjects": subjects, "why": why} for subjects, why in holes(advice.kept.matrix, counsel.workload)
        ],
    }


def _item(item: Item, commands: Mapping[Comparison, str], device: str) -> dict[str, Any]:
    effect, optimization = item.effect, item.optimization
    ours, theirs = effect.with_it, effect.without_it
    kind, host = host_memory(ours, theirs) if ours and theirs else (None, None)
    return {
        "switch": str(item.switch),
        "advice": item.call,
        "own_code": item.is_own_code,
        "on_top_of": str(effect.below),
        "timing": effect.timing,
        "gain": _gain(effect.gain),
        "last": _gain(item.last),
        "verdict": effect.verdict,
        "pairs": effect.estimate.pairs,
        "restarts": effect.estimate.processes,
        "numerics": optimization.numerics if optimization else None,
        "quality": effect.row.quality,
        "host_memory": kind,
        "host_bytes": host,
        "device_bytes": [ours.device_bytes, theirs.device_bytes] if ours and theirs else None,
        "start_up": _start(item.break_even),
        "requires": optimization.requires if optimization else (),
        "excludes": tuple(optimization.excludes) if optimization else (),
        "snippet": remedy(optimization, device) if optimization else None,
        "restarts_to_decide": item.restarts,
        "command": commands.get(effect.row.comparison),
    }


def _gain(gain: Gain | None) -> dict[str, float] | None:
    return {"ratio": gain.ratio, "low": gain.low, "high": gain.high} if gain else None


def _start(found: BreakEven | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {"extra_s": found.extra_s, "break_even_steps": found.steps, "break_even_s": found.seconds}


def _interplay(one: Interplay) -> dict[str, Any]:
    gains = {"alone": _gain(one.alone), "beside_others": _gain(one.beside), "gap": _gain(one.gap)}
    return {"subject": one.subject, "among": one.among, "kind": one.kind, "held_by": one.held_by, **gains}


def _stack(made: ReadyMade, commands: Mapping[Comparison, str]) -> dict[str, Any]:
    untried = made.untried
    return {
        "style": made.style,
        "best_measured": _candidate(made.best),
        "among": made.among,
        "not_measured": {"stack": untried.subject, "command": commands.get(untried)} if untried else None,
    }


def _candidate(one: Candidate | None) -> dict[str, Any] | None:
    if one is None:
        return None
    cell = {"subject": one.subject, "cell": str(one.cell), "gain": _gain(one.gain), "learns_alike": one.learns_alike}
    return {**cell, "start_up": _start(one.break_even)}
