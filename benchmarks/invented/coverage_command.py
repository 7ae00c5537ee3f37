"""`rehearse --coverage`: do intervals hold hidden ratios, on invented machines, as often as they promise?"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from multiprocessing import get_context
from pathlib import Path
from random import Random

from rich.console import Console

from benchmarks.invented import coverage_report as report
from benchmarks.invented.coverage import Check, Held, Trial, as_if_independent, checked, held, trimmed, unpaired
from benchmarks.invented.hidden import (
    FASTEST,
    PROCESS_S,
    PROCESSES,
    SLOWEST,
    UNCHANGED,
    Hidden,
    Seen,
    conventional,
    draw_ratio,
    hide,
    measured,
)
from benchmarks.invented.machines import DELAYS, WORLDS, World
from benchmarks.invented.rehearsal import REPLICATE_NOISE
from harness.analyze.composition import precisions
from harness.analyze.estimate import Estimate, point_of
from harness.analyze.evidence import gather
from harness.analyze.matrix import build_matrix
from harness.analyze.pairing import pair
from harness.cli.measuring import preparing_all
from harness.cli.reading import console, deliver
from harness.core.environment import Environment
from harness.core.mistake import Mistake
from harness.plan.planning import protocol_named

POOLS = (10, 20, 30, 40)  # configurations of one run, in turn: as matrices have them
NOWHERE = Environment(
    device="cpu", accelerator="invented", accelerator_memory_bytes=None, capability=None, driver=None,
    cpu="invented", cores=1, memory_bytes=0, system="", python="", compiler=None, packages=(),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """How much is rehearsed: ratios in each environment, by which protocol, from which seed, with which processes."""

    configs: int
    protocol: str
    seed: int
    luck: float = REPLICATE_NOISE  # standard deviation of log time by which processes differ


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """One run on one invented machine: so many configurations."""

    world: World
    number: int
    configs: int
    asked: Asked


def show_coverage(asked: Asked, output: Path | None, *, as_json: bool) -> int:
    """Rehearses, shows the outcome and writes the page if one is wanted; 1 where a promise is not kept."""
    premises = premises_of(asked)
    if output is not None and not output.parent.is_dir():  # said now, and not after minutes
        raise Mistake(f"There is no folder {output.parent}; choose another path for --output.")
    with preparing_all(["rehearsing"], Console(stderr=True)) as tell:
        checks = rehearsed(asked, partial(tell, 0))
    if output is not None:
        deliver(report.to_markdown(checks, premises), output)
    if as_json:
        deliver(report.to_json(checks, premises), None)
    else:
        console().print(report.to_table(checks))
        for sentence in report.conclusion(checks):
            console().print(sentence, highlight=False)
    return 0 if all(one.kept for one in checks) else 1


def premises_of(asked: Asked) -> report.Premises:
    """What the figures depend on, in words that come from the numbers in use."""
    protocol = protocol_named(asked.protocol)
    luck = "" if asked.luck == REPLICATE_NOISE else f" --luck {100 * asked.luck:g}"
    looks = ", ".join(map(str, sorted({protocol.replicates, *protocol.looks})))
    facts = {
        "Start": f"{DELAYS.imports_s + DELAYS.warm_up_s:g} s for each process, one after another; "
        f"{DELAYS.resume_s:g} s are lost whenever an arm is resumed, its lead-in not counted",
        "Processes": f"each has luck of {100 * asked.luck:g} % (standard deviation) for its attempt",
        "Ratios": f"exactly 1 in {100 * UNCHANGED:.0f} % of them, else drawn from {SLOWEST:g} to {FASTEST:g}, "
        "even in the log",
        "Runs": f"of {', '.join(map(str, POOLS))} configurations in turn, each on a machine that begins cold",
        "speedmatrix": f"the {asked.protocol} protocol: {protocol.rounds} pairs a replicate, windows of "
        f"{protocol.window_s:g} s in the reference, each led in by {protocol.lead_s:g} s or more, "
        f"{protocol.treatments} treatments beside a reference, looks after {looks} replicates"
        + (f", until ±{100 * protocol.target:g} %" if protocol.target else ""),
        "Conventional": f"{PROCESSES} fresh processes for each arm, about {PROCESS_S:g} s each, the reference's first, "
        "each configuration on a machine that begins cold",
    }
    return report.Premises(
        configs=asked.configs,
        seed=asked.seed,
        command=f"./speedmatrix rehearse --coverage --cells {asked.configs} --protocol {asked.protocol}{luck} "
        f"--seed {asked.seed} --output docs/coverage.md",
        worlds={world.name: str(world) for world in WORLDS},
        facts=facts,
    )


def rehearsed(asked: Asked, tell: Callable[[float], None]) -> tuple[Check, ...]:
    """The check of every world; `tell` hears which share is done. The same seed gives the same, on any machine."""
    worlds = [replace(world, luck=asked.luck) for world in WORLDS]
    pools = [pool for world in worlds for pool in _pools(world, asked)]
    wanted, done = sum(pool.configs for pool in pools), 0
    found: dict[World, list[tuple[Trial, ...]]] = {world: [] for world in worlds}
    for pool, trials in zip(pools, _in_order(pools), strict=True):
        found[pool.world].append(trials)
        done += pool.configs
        tell(done / wanted)
    return tuple(checked(world.name, trials, stalls=world.workload is not None) for world, trials in found.items())


def _pools(world: World, asked: Asked) -> Iterator[Pool]:
    left = asked.configs
    for number, configs in enumerate(cycle(POOLS)):
        yield Pool(world=world, number=number, configs=min(configs, left), asked=asked)
        left -= configs
        if left <= 0:
            return


def _in_order(pools: list[Pool]) -> Iterator[tuple[Trial, ...]]:
    cores = len(os.sched_getaffinity(0))
    if cores == 1 or len(pools) == len(WORLDS):  # too few to be worth the start of other processes
        yield from map(trials_of, pools)
        return
    with ProcessPoolExecutor(cores, mp_context=get_context("spawn")) as executor:
        yield from executor.map(trials_of, pools)


def trials_of(pool: Pool) -> tuple[Trial, ...]:
    """Draws ratios, has them measured, and judges every configuration in all four ways."""
    random = Random(f"{pool.asked.seed} {pool.world.name} {pool.number}")
    ratios = [draw_ratio(random) for _ in range(pool.configs)]
    hidden = hide(ratios, protocol_named(pool.asked.protocol), seed=random.getrandbits(32))
    return tuple(_judged(hidden, measured(hidden, pool.world, random, precisions), pool.world, random))


def _judged(hidden: Hidden, seen: Seen, world: World, random: Random) -> Iterator[Trial]:
    estimates = {row.comparison: row.estimate for row in build_matrix(hidden.plan, seen.records, NOWHERE).rows}
    machine_s = seen.machine_s / len(estimates)
    gathered = list(gather(hidden.plan, seen.records))
    paired = [pair(evidence.windows, evidence.position) for evidence in gathered]
    means = trimmed(paired, point_of(hidden.plan.protocol))
    for evidence, pairs, mean in zip(gathered, paired, means, strict=True):
        truth, estimate = hidden.truth(evidence.comparison), estimates[evidence.comparison]
        if estimate is None:
            raise RuntimeError(f"{evidence.comparison.label} has no estimate")
        separate = conventional(hidden, evidence.comparison, world, random)
        yield Trial(
            ours=_held(truth, estimate, machine_s),
            trimmed=_held(truth, mean, machine_s),
            window_pairs_alone=held(truth, as_if_independent(pairs), machine_s),
            conventional=held(truth, unpaired(separate.reference, separate.treatment), separate.machine_s),
            replicates=estimate.processes,
        )


def _held(truth: float, estimate: Estimate, machine_s: float) -> Held:
    return Held(truth=truth, low=estimate.low, high=estimate.high, verdict=estimate.verdict, machine_s=machine_s)
