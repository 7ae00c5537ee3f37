"""Exhibits for tests of the HTML report: synthetic runs, honest ones and one whose every word attacks the reader."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from harness.analyze.collection import StoredRun
from harness.analyze.evidence import gather
from harness.analyze.matrix import build_matrix
from harness.analyze.verdict import Verdict
from harness.core.configuration import Comparison, Configuration, Option
from harness.core.environment import Environment
from harness.core.optimization import Numerics, Optimization, Promise, Stage, Timing
from harness.core.plan import Block, NoResult, Plan
from harness.core.records import Lost, Record
from harness.report.html import Exhibit, Shown
from tests.analyze.synthetic import ENVIRONMENT, STARTS, Noise, arm, comparison, plan, ready, records, window
from tests.report.collected import composed

NAME, BEGAN, COMMAND = "20261121T100000-0a1b2c3d", "2026-11-21T10:00:00+00:00", "speedmatrix run leak --seed 7"
RATIOS = {"workers": 3.21, "amp": 0.94, "chunk_cache": 1.0, "pin_memory": 1.3, "augment": 40.0}
KNOWN = {
    name: Optimization(
        name=name, title=f"Title of {name}", stage=stage, numerics=Numerics.EXACT, sets={"workers": 1}, proof={}
    )
    for name, stage in {"workers": Stage.INPUT, "amp": Stage.DEVICE, "pin_memory": Stage.INPUT}.items()
}
NO_RESULTS = (
    NoResult(workload="leak", label="compile", reason="needs a C++ compiler (g++)"),
    NoResult(workload="speaker", label="tf32", reason="needs a CUDA device"),
)


def exhibit(
    the_plan: Plan | None = None,
    found: list[Record] | None = None,
    *,
    environment: Environment = ENVIRONMENT,
    name: str = NAME,
    commands: dict[Comparison, str] | None = None,
) -> Exhibit:
    """A run of five ratios and a failure, unless another plan and its records are given."""
    the_plan = the_plan or five()
    found = five_told() if found is None else found
    began = f"{name[:4]}-{name[4:6]}-{name[6:8]}T{name[9:11]}:{name[11:13]}:{name[13:15]}+00:00"
    kept = StoredRun(
        name=name,
        began=began,
        command=COMMAND,
        version="0.2.0",
        matrix=build_matrix(the_plan, found, environment),
    )
    return Exhibit(kept=kept, evidence=tuple(gather(the_plan, found)), commands=commands or {})


def composing(*, whole: bool = False) -> Exhibit:
    """A run that timed the loader of one option alone, which comes to 1.7x of training steps, and steps of another.

    Those of the first one too, if they shall be timed whole.
    """
    compared = [comparison("workers", timing=Timing.LOADER), comparison("amp"), comparison("workers")]
    found = [*records(0, 9.0, timing=Timing.LOADER, **STARTS["workers"]), *records(1, 0.9, **STARTS["amp"])]
    told = [*found, *records(2, 1.6, **STARTS["workers"])] if whole else found
    made = exhibit(plan(*(compared if whole else compared[:2])), told)
    return replace(made, kept=composed(made.kept, Verdict.UNDECIDED))


def five() -> Plan:
    return plan(*(comparison(name) for name in RATIOS), comparison("amp", "workers"), no_results=NO_RESULTS)


def five_told() -> list[Record]:
    noise = Noise(window=0.004, replicate=0.006, generator=np.random.default_rng(3))
    found: list[Record] = []
    for index, (name, ratio) in enumerate(RATIOS.items()):
        found += records(index, ratio, noise=noise, **STARTS[name])
    lost = Lost(arm=arm(5, 0, 1), outcome="failed", reason="out of memory: wanted 2 GiB | had 1 GiB")
    return [*found, *records(5, 1.1, replicates=1), lost]


def shown(*exhibits: Exhibit, collected: bool = False) -> Shown:
    return Shown(exhibits=exhibits or (exhibit(),), known=KNOWN, version="0.2.0", collected=collected)


def two_machines() -> Shown:
    """A run, a newer one of the same questions, and one of another machine."""
    newer = exhibit(name="20261122T100000-0a1b2c3d")
    elsewhere = exhibit(environment=replace(ENVIRONMENT, device="cuda", accelerator="NVIDIA H200"))
    return shown(exhibit(), newer, elsewhere, collected=True)


def hostile(evil: str) -> Shown:
    """A run in which every text that a stranger chooses is the same attack."""
    option = Option(name=evil, level=evil)
    treatment = Configuration(workload=evil, size=evil, batch=64, options=(option,))
    one = Comparison(
        label=evil, treatment=treatment, reference=replace(treatment, options=()), timing=comparison("amp").timing
    )
    bad = plan(
        one, replace(one, treatment=replace(treatment, options=(option, option))), no_results=(evil_no_result(evil),)
    )
    bad = replace(
        bad,
        design=evil,
        names={str(one.reference): evil},
        promises={
            evil: replace(next(iter(bad.promises.values())), proof=(evil,), pointless_where={f"{evil} {evil}": evil})
        },
        data={evil: evil},
    )
    found = records(0, 2.0, effective={evil: evil, "kind": evil})
    found += [*records(1, 1.5), Lost(arm=arm(1, 0, 1), outcome="failed", reason=evil, trace=evil)]
    facts = dict.fromkeys(("accelerator", "capability", "driver", "cpu", "system", "python", "compiler"), evil)
    environment = replace(ENVIRONMENT, **facts, packages=((evil, evil),))
    made = exhibit(bad, found, environment=environment, commands={one: evil})
    kept = replace(made.kept, name=evil, began=evil, version=evil, command=evil)
    return shown(replace(made, kept=replace(kept, matrix=replace(kept.matrix, noise=evil))))


def evil_no_result(evil: str) -> NoResult:
    return NoResult(workload=evil, label=evil, reason=evil)


def full() -> Shown:
    """Five workloads of seventy ratios each, as many windows as the standard protocol's and real settings."""
    names = [f"optimization_number_{index}" for index in range(70)]
    compared = [comparison(name, workload=f"workload_{letter}") for letter in "abcde" for name in names]
    alive = [tuple(compared[start : start + 4]) for start in range(0, len(compared), 4)]
    whole = plan(*(together[0] for together in alive))
    blocks = tuple(replace(block, comparisons=one) for block, one in zip(whole.blocks, alive, strict=True))
    promise = Promise(numerics=Numerics.EXACT, proof=("setting_number_1",), pointless_where={})
    noise = Noise(window=0.01, replicate=0.01, generator=np.random.default_rng(1))
    found = [record for block in blocks for replicate in range(2) for record in _alive(block, replicate, noise)]
    return shown(exhibit(replace(whole, blocks=blocks, promises=dict.fromkeys(names, promise)), found))


def _alive(block: Block, replicate: int, noise: Noise) -> Iterator[Record]:
    arms = len(block.comparisons) + 1
    effects = [noise.draw(0.3) for _ in range(arms)]
    for position in range(arms):
        settings = {f"setting_number_{index}": f"value_of_{index}" for index in range(18)} | {
            "setting_number_1": position
        }
        yield ready(arm(block.identity, replicate, position), effective=settings)
    for order in range(12 * arms + 1):
        position = order % arms
        rate = 123.456 * (effects[position] if position else 1.0) * noise.draw(0.02)
        yield window(arm(block.identity, replicate, position), order, rate, began_s=0.7512 * order)
