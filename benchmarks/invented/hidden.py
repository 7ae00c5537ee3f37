"""Hidden ratios: true speedups that are known, measured on an invented machine by a campaign or conventionally."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from benchmarks.invented.machines import DELAYS, Machine, World
from benchmarks.invented.rehearsal import STEP_S, Effects, RehearsedArm, VirtualClock
from harness.core.configuration import Comparison, Configuration, Option
from harness.core.optimization import Numerics, Promise, Timing
from harness.core.plan import Block, Plan
from harness.core.protocol import Protocol
from harness.core.records import Precisions, Record
from harness.plan.schedule import blocks
from harness.run.execution import Campaign
from harness.run.watching import Watcher

REFERENCE = Configuration(workload="invented", size="standard", batch=32)
UNCHANGED = 0.5  # share of configurations whose ratio is exactly 1
SLOWEST, FASTEST = 0.8, 2.5  # ends of the law, even in the log, that the others are drawn from
Widths = Callable[[Plan, Sequence[Record]], Precisions]
PROCESSES, PROCESS_S = 5, 40.0  # of each arm, and for how long each is timed, by the conventional plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Hidden:
    """A plan of configurations with one reference, and what each of them is truly worth."""

    plan: Plan
    effects: Effects

    def truth(self, comparison: Comparison) -> float:
        """The ratio that an interval of this comparison should hold."""
        return self.effects.speedup(comparison.treatment, comparison.reference)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a campaign recorded, and how many seconds of the machine it took."""

    records: tuple[Record, ...]
    machine_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Separate:
    """Log rates of processes that ran one after another, the reference's first, and the seconds they took."""

    reference: tuple[float, ...]
    treatment: tuple[float, ...]
    machine_s: float


def hide(ratios: Sequence[float], protocol: Protocol, seed: int) -> Hidden:
    """A plan with one configuration for each ratio, in blocks as the protocol has them."""
    options = [Option(name=f"hidden_{index:02d}") for index in range(len(ratios))]
    configs = [
        Configuration(workload=REFERENCE.workload, size=REFERENCE.size, batch=32, options=(one,)) for one in options
    ]
    comparisons = [
        Comparison(label=str(config.options[0]), treatment=config, reference=REFERENCE, timing=Timing.STEP)
        for config in configs
    ]
    promise = Promise(numerics=Numerics.EXACT, proof=(), pointless_where={})
    names = [one.name for one in options]
    return Hidden(
        plan=Plan(
            design="coverage",
            seed=seed,
            protocol=protocol,
            blocks=blocks(comparisons, protocol.treatments),
            no_results=(),
            names={str(REFERENCE): "baseline"},
            promises=dict.fromkeys(names, promise),
        ),
        effects=Effects(dict(zip(names, ratios, strict=True))),
    )


def draw_ratio(random: Random) -> float:
    """Exactly 1 for some configurations, anything between the ends for the others."""
    if random.random() < UNCHANGED:
        return 1.0
    return math.exp(random.uniform(math.log(SLOWEST), math.log(FASTEST)))


def measured(hidden: Hidden, world: World, random: Random, precisions: Widths) -> Seen:
    """The plan, measured by a campaign on a machine that is cold at first."""
    clock, machine = VirtualClock(), _machine(world, random)
    records: list[Record] = []

    def start(block: Block, _replicate: int, position: int) -> RehearsedArm:
        config = block.reference if position == 0 else block.comparisons[position - 1].treatment
        return _arm(config, hidden.effects, clock, machine, random)

    Campaign(
        plan=hidden.plan,
        records=records,
        start=start,
        append=lambda _: None,
        watcher=Watcher(),
        clock=clock,
        precisions=precisions,
    ).run()
    return Seen(records=tuple(records), machine_s=clock())


def conventional(hidden: Hidden, comparison: Comparison, world: World, random: Random) -> Separate:
    """Fresh processes of the reference, then fresh processes of the treatment, on a machine that is cold at first."""
    clock, machine = VirtualClock(), _machine(world, random)
    rates: dict[Configuration, list[float]] = {comparison.reference: [], comparison.treatment: []}
    for config, found in rates.items():
        steps = max(1, round(PROCESS_S / STEP_S * hidden.effects.speedup(config, REFERENCE)))
        for _ in range(PROCESSES):
            arm = _arm(config, hidden.effects, clock, machine, random)
            arm.arrive()
            arm.begin()
            window = arm.window(0, steps, 0)
            found.append(math.log(window["samples"] / window["wall_s"]))
    reference, treatment = (tuple(found) for found in rates.values())
    return Separate(reference=reference, treatment=treatment, machine_s=clock())


def _machine(world: World, random: Random) -> Machine:
    return Machine(world=world, generator=np.random.default_rng(random.getrandbits(64)))


def _arm(
    config: Configuration, effects: Effects, clock: VirtualClock, machine: Machine, random: Random
) -> RehearsedArm:
    arm = RehearsedArm(
        config=config,
        timing=Timing.STEP,
        effects=effects,
        clock=clock,
        random=Random(random.random()),
        slowed=machine.slowed,
        delays=DELAYS,
        differ=machine.world.luck,
    )
    if workload := machine.world.workload:
        arm.waits = workload.waits(np.random.default_rng(random.getrandbits(64)))
        arm.mean_wait = workload.mean
    return arm
