"""Synthetic runs: records of trainers that never ran, with known ratios, for tests of analysis and reports."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from harness.analyze.matrix import Matrix, build_matrix
from harness.analyze.pairing import Pairs, Replicate
from harness.core.configuration import Comparison, Configuration, Option
from harness.core.environment import Environment
from harness.core.optimization import Numerics, Promise, Timing
from harness.core.plan import Block, NoResult, Plan
from harness.core.protocol import Protocol
from harness.core.records import Arm, Lost, Ready, Record, Spent, Window

LOSSES = (2.3, 2.1, 1.9)
ENVIRONMENT = Environment(
    device="cpu",
    accelerator=None,
    accelerator_memory_bytes=None,
    capability=None,
    driver=None,
    cpu="Example | 9000",
    cores=2,
    memory_bytes=8 * 2**30,
    system="Linux 6.1",
    python="3.11.9",
    compiler=None,
    packages=(("numpy", "2.1.0"), ("torch", "2.11.0")),
)
KNOWN = {
    "workers": Promise(numerics=Numerics.EXACT, proof=("workers",), pointless_where={}),
    "pin_memory": Promise(numerics=Numerics.EXACT, proof=("pinned_batches",), pointless_where={}),
    "amp": Promise(numerics=Numerics.CLOSE, proof=("bfloat16_layers",), pointless_where={}),
    "set_to_none": Promise(numerics=Numerics.EXACT, proof=("set_to_none",), pointless_where={}),
    "tuned_malloc": Promise(numerics=Numerics.EXACT, proof=("malloc",), pointless_where={}),
    "augment": Promise(numerics=Numerics.DIFFERENT, proof=(), pointless_where={}),
    "chunk_cache": Promise(
        numerics=Numerics.EXACT, proof=("chunk_cache_bytes",), pointless_where={"layout contiguous": "it has no chunks"}
    ),
}


def config(*names: str, workload: str = "leak", batch: int = 64) -> Configuration:
    return Configuration(
        workload=workload, size="quick", batch=batch, options=tuple(Option(name=name) for name in names)
    )


def comparison(*names: str, timing: Timing = Timing.STEP, workload: str = "leak") -> Comparison:
    treatment = config(*names, workload=workload)
    return Comparison(
        label="+".join(names) or "baseline", treatment=treatment, reference=config(workload=workload), timing=timing
    )


def pairs_of(*replicates: Sequence[float], drift: float = 0.0, **fields: Any) -> Pairs:
    """What replicates with these log ratios of pairs give; the totals' is their mean, and windows do not scatter."""
    found = (Replicate(log_ratio=float(np.mean(one)), window_pairs=tuple(map(float, one))) for one in replicates)
    return Pairs(replicates=tuple(found), drift=drift, **fields)


def plan(*comparisons: Comparison, replicates: int = 2, no_results: tuple[NoResult, ...] = ()) -> Plan:
    """Every comparison in a block of its own, named after its index."""
    blocks = tuple(
        Block(identity=str(index), reference=one.reference, timing=one.timing, comparisons=(one,))
        for index, one in enumerate(comparisons)
    )
    return Plan(
        design="singles",
        seed=7,
        protocol=Protocol(replicates=replicates, rounds=4),
        blocks=blocks,
        no_results=no_results,
        names={str(config()): "baseline", str(config("workers", "amp")): "original"},
        promises=KNOWN,
    )


def arm(block: int | str = 0, replicate: int = 0, position: int = 0, attempt: int = 0) -> Arm:
    return Arm(block=str(block), replicate=replicate, attempt=attempt, position=position)


def ready(
    owner: Arm,
    *,
    losses: tuple[float, ...] = LOSSES,
    effective: Mapping[str, bool | int | float | str | None] | None = None,
    inactive: tuple[str, ...] = (),
    seed_spread: float | None = 0.05,
    score: float | None = 0.5,
    steady: bool = True,
    loader_rate: float | None = 120.0,
    compute_rate: float | None = 600.0,
    asked_rate: float | None = None,
) -> Ready:
    return Ready(
        arm=owner,
        build_s=1.0,
        first_step_s=0.35 + owner.replicate,
        warm_up_s=3.0,
        warm_up_steps=20,
        step_s=0.5,
        steady=steady,
        effective=dict(effective or {"layout": "contiguous", "workers": 0}),
        inactive=inactive,
        losses=losses,
        seed_spread=seed_spread if owner.position == 0 else None,
        loader_rate=loader_rate,
        compute_rate=compute_rate,
        asked_rate=asked_rate,
        score=score,
    )


def window(
    owner: Arm, order: int, rate: float, *, timing: Timing = Timing.STEP, began_s: float | None = None
) -> Window:
    return Window(
        arm=owner,
        order=order,
        timing=timing,
        steps=10,
        samples=640,
        began_s=10.0 * order if began_s is None else began_s,
        wall_s=640 / rate,
        wait_s=0.8 * 640 / rate,
        copy_s=0.05 * 640 / rate,
        device_s=None,
        host_bytes=432_013_312 + order,
        host_peak_bytes=432_013_312 + order,
        device_bytes=None,
        lead_steps=1,
        lead_s=64 / rate,
    )


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Standard deviations of log rates: between windows, between replicates of one comparison."""

    window: float = 0.0
    replicate: float = 0.0
    generator: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def draw(self, deviation: float) -> float:
        return float(np.exp(self.generator.normal(0, deviation))) if deviation else 1.0


QUIET = Noise()


def windows(
    block: int | str,
    replicate: int,
    ratio: float,
    *,
    rounds: int = 4,
    noise: Noise = QUIET,
    timing: Timing = Timing.STEP,
    attempt: int = 0,
) -> Iterator[Window]:
    """Reference and treatment in turns, ending with the reference, as one replicate gives them."""
    effect = ratio * noise.draw(noise.replicate)
    for order in range(2 * rounds + 1):
        owner = arm(block, replicate, order % 2, attempt)
        rate = 100.0 * (effect if order % 2 else 1.0) * noise.draw(noise.window)
        yield window(owner, order, rate, timing=timing)


def records(
    block: int | str,
    ratio: float,
    *,
    replicates: int = 2,
    noise: Noise = QUIET,
    timing: Timing = Timing.STEP,
    **treatment: Any,
) -> list[Record]:
    """All records of a block with one comparison; keywords describe the treatment's start."""
    found: list[Record] = []
    for replicate in range(replicates):
        found += [ready(arm(block, replicate, 0)), ready(arm(block, replicate, 1), **treatment)]
        found += windows(block, replicate, ratio, noise=noise, timing=timing)
    return found


def matrix(the_plan: Plan, found: list[Record]) -> Matrix:
    return build_matrix(the_plan, found, ENVIRONMENT)


def story() -> Matrix:
    """A run with everything in it: five ratios, and one of each kind of words."""
    options = [(name,) for name in STARTS]
    others = [("amp", "workers"), ("amp", "pin_memory"), ("pin_memory", "workers"), ("augment", "workers"), ("amp",)]
    comparisons = [comparison(*one) for one in (*options, *others)]
    evaluation = comparison("workers", timing=Timing.EVALUATION)
    no_result = NoResult(workload="leak", label="compile", reason="needs a C++ compiler (g++)")
    other = NoResult(workload="speaker", label="tf32", reason="needs a CUDA device")
    return matrix(plan(*comparisons, evaluation, no_results=(no_result, other)), told())


def told() -> list[Record]:
    """The story's records."""
    noise = Noise(window=0.004, replicate=0.006, generator=np.random.default_rng(3))
    ratios = [3.21, 0.94, 1.0, 1.004, 1.5]
    found: list[Record] = []
    for index, (start, ratio) in enumerate(zip(STARTS.values(), ratios, strict=True)):
        found += records(index, ratio, noise=noise, **start)
    lost = {
        5: Lost(arm=arm(5, 0, 1), outcome="failed", reason="out of memory: wanted 2 GiB | had 1 GiB"),
        6: Lost(arm=arm(6, 0, 1), outcome="interrupted", reason="stopped by the user"),
    }
    found += [*records(5, 1.1, replicates=1), lost[5], ready(arm(6, 0, 0)), lost[6]]
    found += records(7, 2.0, inactive=("workers is 0, not 2",), replicates=2)
    found += records(8, 1.2, replicates=1)
    return [*found, *records(10, 4.0, timing=Timing.EVALUATION, noise=noise), SPENT]


SPENT = Spent(
    arm=Arm(block="10", replicate=1, attempt=0, position=0),
    imports_s=10.0,
    build_s=5.0,
    evidence_s=15.0,
    warm_up_s=20.0,
    lead_s=30.0,
    windows_s=115.0,
    rest_s=5.0,
)


STARTS: dict[str, dict[str, Any]] = {
    "workers": {"effective": {"layout": "contiguous", "workers": 2}, "loader_rate": 400.0},
    "amp": {"effective": {"layout": "contiguous", "bfloat16_layers": True}, "losses": (2.31, 2.1, 1.9)},
    "chunk_cache": {"effective": {"layout": "contiguous", "chunk_cache_bytes": 33_554_432}},
    "pin_memory": {"effective": {"layout": "contiguous", "pinned_batches": True}, "losses": (2.3, 2.2, 1.9)},
    "augment": {"effective": {"layout": "contiguous"}, "steady": False},
}
