"""Calibrations of machines that never were: what is wrong with each is planted."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from harness.analyze.calibration import Calibration, calibrate
from harness.core.cell import CONTROLS, DELAY_S, Cell, Comparison, Switch
from harness.core.optimization import Timing, promises
from harness.core.plan import Block, Plan
from harness.core.protocol import Protocol
from harness.core.records import Record
from tests.analyze.synthetic import KNOWN, arm, burst, cell, ready

ROUNDS, RESTARTS, STEPS = 4, 2, 10  # a synthetic burst holds ten steps
PLAIN = cell()


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What a machine does to cells whose truth is known; logs of rates."""

    luck: float = 0.004  # standard deviation of a process
    noise: float = 0.002  # of a burst
    off: Mapping[int, float] = field(default_factory=dict)  # copy -> by how much it is wrong, in every restart
    by_start: float = 0.0  # the arm started last over the one started first
    by_turn: float = 0.0  # right after the reference
    kept: Mapping[str, float] = field(default_factory=dict)  # control -> share of its delay that is seen
    copies: int = 20
    seed: int = 0


def comparisons(copies: int) -> Iterator[Comparison]:
    for share in (3, 10):
        for name in ("loader_delay", "host_delay"):
            switch = Switch(name=name, level=share)
            treatment = replace(PLAIN, switches=(switch,))
            yield Comparison(subject=str(switch), treatment=treatment, reference=PLAIN, timing=Timing.STEP)
    for copy in range(copies):
        yield Comparison(subject="itself", treatment=PLAIN, reference=PLAIN, timing=Timing.STEP, copy=copy)


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
        protocol=Protocol(restarts=RESTARTS, rounds=ROUNDS),
        blocks=blocks,
        holes=(),
        names={str(PLAIN): "plain"},
        promises=KNOWN | promises(CONTROLS.values()),
    )


def told(machine: Machine) -> list[Record]:
    """All records of a calibration on that machine; a plain step takes 0.64 s, ten of them are a burst."""
    random = np.random.default_rng(machine.seed)
    return [
        record
        for block in plan(machine.copies).blocks
        for restart in range(RESTARTS)
        for record in _life(machine, block, restart, random)
    ]


def _life(machine: Machine, block: Block, restart: int, random: np.random.Generator) -> Iterator[Record]:
    count = len(block.comparisons) + 1
    logs = random.normal(0, machine.luck, size=count)
    for place, position in enumerate(random.permutation(count)):
        logs[position] += machine.by_start * place / (count - 1)
        cell_there = PLAIN if position == 0 else block.comparisons[position - 1].treatment
        seen = {DELAY_S: delay_s(cell_there)} if cell_there.switches else {}
        yield ready(arm(block.identity, restart, int(position)), effective={"added_delay": True, **seen})
    for position, one in enumerate(block.comparisons, 1):
        logs[position] += machine.off.get(one.copy, 0.0) if one.treatment == one.reference else 0.0
        share = machine.kept.get(one.subject, 1.0)
        logs[position] -= share * np.log1p(delay_s(one.treatment) / 0.64)
    yield from _bursts(machine, block, restart, (logs, random))


def _bursts(
    machine: Machine, block: Block, restart: int, drawn: tuple[np.ndarray, np.random.Generator]
) -> Iterator[Record]:
    (logs, random), order, count = drawn, 0, len(block.comparisons)
    for _ in range(ROUNDS):
        positions = [int(one) + 1 for one in random.permutation(count)]
        for first in range(0, count, 2):
            for turn, position in enumerate((0, *positions[first : first + 2])):
                log = logs[position] + random.normal(0, machine.noise) + machine.by_turn * (turn == 1)
                yield burst(arm(block.identity, restart, position), order, 100 * float(np.exp(log)))
                order += 1
    log = logs[0] + random.normal(0, machine.noise)
    yield burst(arm(block.identity, restart, 0), order, 100 * float(np.exp(log)))


def delay_s(one: Cell) -> float:
    """Seconds that a control adds to a step: its share of the 0.64 s that a plain one takes."""
    return sum(0.64 * switch.level / 100 for switch in one.switches if isinstance(switch.level, int))


def calibration(machine: Machine) -> Calibration:
    return calibrate(plan(machine.copies), told(machine))
