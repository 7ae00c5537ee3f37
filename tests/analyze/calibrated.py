"""Calibrations of machines that never were: what is wrong with each is planted."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from harness.analyze.calibration import Calibration, calibrate
from harness.core.configuration import CONTROLS, DELAY_S, Comparison, Configuration, Option
from harness.core.optimization import Timing, promises
from harness.core.plan import Block, Plan
from harness.core.protocol import Protocol
from harness.core.records import Record
from tests.analyze.synthetic import KNOWN, arm, config, ready, window

ROUNDS, REPLICATES, STEPS = 4, 2, 10  # a synthetic window holds ten steps
PLAIN = config()


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What a machine does to configurations whose truth is known; logs of rates."""

    luck: float = 0.004  # standard deviation of a process
    noise: float = 0.002  # of a window
    off: Mapping[int, float] = field(default_factory=dict)  # copy -> by how much it is wrong, in every replicate
    kept: Mapping[str, float] = field(default_factory=dict)  # control -> share of its delay that is seen
    copies: int = 20
    seed: int = 0


def comparisons(copies: int) -> Iterator[Comparison]:
    for share in (3, 10):
        for name in ("loader_delay", "host_delay"):
            option = Option(name=name, level=share)
            treatment = replace(PLAIN, options=(option,))
            yield Comparison(label=str(option), treatment=treatment, reference=PLAIN, timing=Timing.STEP)
    for copy in range(copies):
        yield Comparison(label="itself", treatment=PLAIN, reference=PLAIN, timing=Timing.STEP, copy=copy)


def plan(copies: int = 20) -> Plan:
    """Blocks of four."""
    all_of_them = tuple(comparisons(copies))
    blocks = tuple(
        Block(identity=f"b{at:02d}", reference=PLAIN, timing=Timing.STEP, comparisons=all_of_them[at : at + 4])
        for at in range(0, len(all_of_them), 4)
    )
    return Plan(
        design="calibration",
        seed=0,
        protocol=Protocol(replicates=REPLICATES, rounds=ROUNDS),
        blocks=blocks,
        no_results=(),
        names={str(PLAIN): "baseline"},
        promises=KNOWN | promises(CONTROLS.values()),
    )


def told(machine: Machine) -> list[Record]:
    """All records of a calibration on that machine; a plain step takes 0.64 s, ten of them are a window."""
    random = np.random.default_rng(machine.seed)
    return [
        record
        for block in plan(machine.copies).blocks
        for replicate in range(REPLICATES)
        for record in _attempt(machine, block, replicate, random)
    ]


def _attempt(machine: Machine, block: Block, replicate: int, random: np.random.Generator) -> Iterator[Record]:
    count = len(block.comparisons) + 1
    logs = random.normal(0, machine.luck, size=count)
    for position in random.permutation(count):
        config_there = PLAIN if position == 0 else block.comparisons[position - 1].treatment
        seen = {DELAY_S: delay_s(config_there)} if config_there.options else {}
        yield ready(arm(block.identity, replicate, int(position)), effective={"added_delay": True, **seen})
    for position, one in enumerate(block.comparisons, 1):
        logs[position] += machine.off.get(one.copy, 0.0) if one.treatment == one.reference else 0.0
        share = machine.kept.get(one.label, 1.0)
        logs[position] -= share * np.log1p(delay_s(one.treatment) / 0.64)
    yield from _windows(machine, block, replicate, (logs, random))


def _windows(
    machine: Machine, block: Block, replicate: int, drawn: tuple[np.ndarray, np.random.Generator]
) -> Iterator[Record]:
    (logs, random), order, count = drawn, 0, len(block.comparisons)
    for _ in range(ROUNDS):
        positions = [int(one) + 1 for one in random.permutation(count)]
        for first in range(0, count, 2):
            for position in (0, *positions[first : first + 2]):
                log = logs[position] + random.normal(0, machine.noise)
                yield window(arm(block.identity, replicate, position), order, 100 * float(np.exp(log)))
                order += 1
    log = logs[0] + random.normal(0, machine.noise)
    yield window(arm(block.identity, replicate, 0), order, 100 * float(np.exp(log)))


def delay_s(one: Configuration) -> float:
    """Seconds that a control adds to a step: its share of the 0.64 s that a plain one takes."""
    return sum(0.64 * option.level / 100 for option in one.options if isinstance(option.level, int))


def calibration(machine: Machine) -> Calibration:
    return calibrate(plan(machine.copies), told(machine))
