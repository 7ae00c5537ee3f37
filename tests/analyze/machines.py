"""Invented machines: runs of synthetic and rehearsed trainers on each, with known effects, for tests of comparisons."""

from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import Any

from rich.console import Console

from benchmarks.invented.rehearsal import Effects, RehearsedArm, VirtualClock
from harness.analyze.collection import StoredRun
from harness.analyze.matrix import build_matrix
from harness.cli.measuring import Progress
from harness.core.configuration import Comparison
from harness.core.environment import Environment
from harness.core.plan import Block, Plan
from harness.core.records import Record
from harness.run.execution import Campaign
from harness.run.preparation import Prepared
from tests.analyze.synthetic import ENVIRONMENT, comparison, plan, records

SMALL = ENVIRONMENT
LARGE = replace(ENVIRONMENT, cores=16, packages=(("numpy", "2.1.0"), ("torch", "2.9.1")))
H200 = replace(ENVIRONMENT, device="cuda", accelerator="NVIDIA H200", driver="570.10", capability="9.0")


def run(environment: Environment, found: list[Record], of: Plan, day: int = 1, **facts: Any) -> StoredRun:
    """A run of some records, as it would be read from its folder."""
    began = f"2026-03-{day:02d}T10:00:00+00:00"
    name = f"202603{day:02d}T100000-{environment.digest[:8]}"
    matrix = build_matrix(of, found, environment)
    given = {"name": name, "command": "", "version": "0.2.0", **facts}
    return StoredRun(began=began, matrix=matrix, **given)


def by_somebody_else(one: StoredRun) -> StoredRun:
    """The same run, taken in from a stranger."""
    return replace(one, matrix=replace(one.matrix, contributed=True))


def told(
    environment: Environment, ratios: dict[str, float], day: int = 1, replicates: int = 4, **treatment: Any
) -> StoredRun:
    """A quiet run with those speedups, each in a block of its own."""
    comparisons = [comparison(*name.split("+")) for name in ratios]
    found = [
        one
        for index, ratio in enumerate(ratios.values())
        for one in records(index, ratio, replicates=replicates, **treatment)
    ]
    return run(environment, found, plan(*comparisons, replicates=replicates), day)


def rehearsed(environment: Environment, ready: Prepared, effects: Effects, day: int = 1) -> StoredRun:
    """A rehearsal on an invented machine: everything but the times is as in a measurement."""
    clock, random, found = VirtualClock(), Random(f"{ready.plan.seed} {environment.digest}"), list[Record]()

    def start(block: Block, _replicate: int, position: int) -> RehearsedArm:
        config = block.reference if position == 0 else block.comparisons[position - 1].treatment
        return RehearsedArm(
            config=config, timing=block.timing, effects=effects, clock=clock, random=Random(random.random())
        )

    watcher = Progress(ready.plan, Console(quiet=True))
    Campaign(plan=ready.plan, records=[], start=start, append=found.append, watcher=watcher, clock=clock).run()
    return run(environment, found, ready.plan, day)


def planned(comparisons: Iterable[Comparison], **facts: Any) -> Plan:
    """A plan of some comparisons with other facts than the usual."""
    return replace(plan(*comparisons), **facts)
