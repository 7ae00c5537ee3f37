"""How much do equal processes differ, under glibc's own malloc thresholds and under tuned ones?

python -m benchmarks.process_luck measure [WORKLOAD ...]   appends to benchmarks/process_luck.jsonl
python -m benchmarks.process_luck table                    prints the table for docs/decisions

Equal processes of each kind live side by side and take turns in a random order. What a process is like for its whole
life is the scatter of the processes' mean paces that the scatter of their windows does not explain; a round's own mean
is taken out first, so that a machine that drifts does not count.
"""

import json
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from benchmarks.precision.in_harness import _run as run_facts
from harness.catalogue import read_catalogue
from harness.core.configuration import Comparison, Configuration, parse_option
from harness.core.optimization import Timing, promises
from harness.core.plan import Plan
from harness.core.protocol import BRIEF, SETTLING_STEPS
from harness.measure.surroundings import read_environment
from harness.plan.schedule import blocks
from harness.run.arm import ProcessArm
from harness.run.data import data_root, ensure_data
from harness.run.preparation import Prepared, job_of, served_in
from harness.run.sentinel import Sentinel

RECORDS = Path(__file__).with_name("process_luck.jsonl")
SIZE, TUNED, WINDOW_S, LEAD_S = "quick", "tuned_malloc", 0.8, 0.1
EACH, ROUNDS, SITTINGS = 4, 5, 2  # processes of a kind side by side; windows of each; times that all is built anew


def measure(names: Sequence[str]) -> None:
    """Measures workloads and appends a line for every window."""
    for sitting in range(SITTINGS):
        for name in names or sorted(read_catalogue(ledger=False).workloads):
            with RECORDS.open("a", encoding="utf-8") as file:
                for line in _sitting(name, sitting):
                    file.write(json.dumps(line) + "\n")
                    file.flush()


def _prepared(name: str) -> Prepared:
    catalogue = read_catalogue(ledger=False)
    plain = Configuration(workload=name, size=SIZE, batch=catalogue.workload(name).sizes[SIZE].batch)
    tuned = Configuration(workload=name, size=SIZE, batch=plain.batch, options=(parse_option(TUNED),))
    kinds = [("itself", plain, EACH - 1), (TUNED, tuned, EACH)]
    comparisons = [
        Comparison(label=label, treatment=config, reference=plain, timing=Timing.STEP, copy=copy)
        for label, config, count in kinds
        for copy in range(count)
    ]
    plan = Plan(
        design="process_luck", seed=0, protocol=BRIEF.fixed(), blocks=blocks(comparisons, 2 * EACH), no_results=(),
        names={str(plain): "baseline"}, promises=promises([catalogue.known[TUNED]]),
    )  # fmt: skip
    return Prepared(catalogue=catalogue, environment=read_environment("cpu"), plan=plan)


def _sitting(name: str, sitting: int) -> Iterator[dict[str, Any]]:
    ready = _prepared(name)
    (block,) = ready.plan.blocks
    folder = ensure_data(data_root(None), ready.catalogue.workload(name), SIZE, lambda _: None)
    data, sentinel, random = {(name, SIZE): folder}, Sentinel(), Random(f"{name} {sitting}")
    facts = {
        "began": datetime.now(UTC).isoformat(timespec="seconds"),
        "environment": run_facts(ready).environment.digest,
        "cpu": ready.environment.cpu,
        "workload": name,
        "sitting": sitting,
    }
    with ExitStack() as closing:
        closing.callback(sentinel.close)
        services = {one: closing.enter_context(served) for one, served in served_in(ready, data, sentinel)}
        arms: list[tuple[str, ProcessArm]] = []
        for position in random.sample(range(2 * EACH), 2 * EACH):
            job = job_of(ready, data, block, sitting, position)
            object.__setattr__(job, "service", services.get(name))
            arms.append(("glibc" if position < EACH else "tuned", ProcessArm(job, sentinel)))
            closing.callback(arms[-1][1].close)
        for _, arm in arms:
            arm.arrive()
        steps_s = [arm.begin()["step_s"] for _, arm in arms]
        step_s = float(np.median(steps_s))
        lead = max(1, math.ceil(LEAD_S / step_s), *(arm.settle(SETTLING_STEPS, 0) for _, arm in arms))
        steps = max(2, round(WINDOW_S / step_s))
        for round_ in range(ROUNDS):
            for index in random.sample(range(len(arms)), len(arms)):
                kind, arm = arms[index]
                window = arm.window(lead, steps, 0)
                kept = {one: window[one] for one in ("steps", "samples", "wall_s", "others", "host_bytes")}
                yield facts | {"process": index, "kind": kind, "round": round_, "lead_steps": lead, **kept}


def _paces(windows: Sequence[dict[str, Any]], kind: str) -> Iterator[np.ndarray]:
    """Log seconds a sample of one kind in each sitting: processes down, rounds across."""
    for sitting in sorted({one["sitting"] for one in windows}):
        mine = [one for one in windows if one["sitting"] == sitting and one["kind"] == kind]
        processes = sorted({one["process"] for one in mine})
        found = {(one["process"], one["round"]): math.log(one["wall_s"] / one["samples"]) for one in mine}
        yield np.array([[found[process, round_] for round_ in range(ROUNDS)] for process in processes])


def luck(windows: Sequence[dict[str, Any]], kind: str) -> tuple[float, float]:
    """Standard deviations of log paces: of equal processes for their whole lives, and of windows of one process."""
    between, within = [], []
    for paces in _paces(windows, kind):
        rest = paces - paces.mean(axis=0)
        means = rest.mean(axis=1)
        scatter = rest - means[:, None]
        count, rounds = rest.shape
        error = float((scatter**2).sum() / ((count - 1) * (rounds - 1)))
        between.append(float((means**2).sum() / (count - 1)) - error / rounds)
        within.append(error)
    return math.sqrt(max(0.0, float(np.mean(between)))), math.sqrt(float(np.mean(within)))


def table(windows: Sequence[dict[str, Any]]) -> str:
    """The table: a line for each workload."""
    head = ("workload", "tuned over glibc", "processes differ, glibc", "tuned", "windows scatter, glibc", "tuned")
    lines = ["| " + " | ".join(head) + " |\n|" + "---|" * len(head)]
    for name in sorted({one["workload"] for one in windows}):
        mine = [one for one in windows if one["workload"] == name]
        paces = {kind: np.mean([one.mean() for one in _paces(mine, kind)]) for kind in ("glibc", "tuned")}
        (glibc, glibc_window), (tuned, tuned_window) = luck(mine, "glibc"), luck(mine, "tuned")
        configs = [f"{math.exp(paces['glibc'] - paces['tuned']):.2f}x"]
        configs += [f"{one:.1%}" for one in (glibc, tuned, glibc_window, tuned_window)]
        lines.append(f"| {name} | " + " | ".join(configs) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        measure(sys.argv[2:])
    else:
        print(table([json.loads(line) for line in RECORDS.read_text().splitlines()]), end="")
