"""Measuring with the real campaign, arms and analysis: a set of options beside its reference, as in any run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from time import monotonic
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

from harness.analyze.matrix import Row, build_matrix
from harness.catalogue import read_catalogue
from harness.core.catalogue import Catalogue
from harness.core.configuration import Comparison, Configuration, compose, parse_option
from harness.core.environment import Environment
from harness.core.optimization import LEVEL, Numerics, Optimization, Stage, Timing, promises
from harness.core.plan import Block, Plan
from harness.core.protocol import Protocol
from harness.core.recipe import Recipe
from harness.core.records import Record, Window
from harness.run import arm
from harness.run.arm import BudgetSpent, Hosts, ProcessArm, launch_environment
from harness.run.execution import Campaign
from harness.run.preparation import job_of
from harness.run.sentinel import Sentinel
from harness.run.watching import Watcher
from tests.oracles import sabotage
from tests.oracles.stages import PLAIN, VARIABLE, Stages, Told, slower, workload_of

WORKLOAD_FILE = Path(__file__).with_name("known_times.py")
PROTOCOL = Protocol(
    replicates=2,
    rounds=4,
    window_s=0.6,
    window_steps=4,
    floor_steps=2,
    floor_s=0.3,
    settle_s=0.0,
    upper_bound_s=0.2,
    loss_steps=2,
    treatments=16,
    start_limit_s=120.0,
    window_limit_s=60.0,
    slow_s=0.4,
    lead_s=0.1,
    whole_s=2.0,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A reference and the options that are measured beside it in one block."""

    name: str
    stages: Mapping[str, Stages]  # by variant; `baseline` is the reference's
    options: Sequence[str]  # `variant=x+workers=2`
    reference: str = ""
    timing: Timing = Timing.STEP
    protocol: Protocol = PROTOCOL
    seed: int = 0
    sabotage: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    device: str = "cpu"
    shared: bool = False  # whether its arms live in one process
    # Times as long that everything takes when its run goes on, which was interrupted; 0: it runs through.
    resumed: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What came of an experiment."""

    plan: Plan
    records: list[Record]
    seconds: float


INTERRUPTED = 9  # windows of the second replicate, the last of which closes no pair where four options are measured


def measure(experiment: Experiment) -> Measured:
    """Runs the experiment's campaign to its end, and before that a part of it where it is interrupted."""
    began_s, ready, records = monotonic(), prepared(experiment), list[Record]()
    if experiment.resumed:
        assert not _run(ready, experiment, records, INTERRUPTED)
        later = {name: slower(one, experiment.resumed) for name, one in experiment.stages.items()}
        experiment = replace(experiment, stages=later)
    assert _run(ready, experiment, records)
    return Measured(plan=ready.plan, records=records, seconds=monotonic() - began_s)


def _run(ready: Any, experiment: Experiment, records: list[Record], most: int | None = None) -> bool:
    """Measures what these records leave, up to so many windows of the second replicate; tells whether all is done.

    What it records is added to them.
    """
    sentinel, began = Sentinel(), list(records)
    hosts = Hosts(sentinel=sentinel)
    told = {VARIABLE: Told(variants=experiment.stages).to_json(), sabotage.VARIABLE: experiment.sabotage}

    def append(record: Record) -> None:
        records.append(record)
        if isinstance(record, Window) and _windows_of(records, replicate=1) == most:
            raise BudgetSpent

    with TemporaryDirectory() as folder:
        data = {("oracle", "quick"): Path(folder)}

        def start(block: Block, replicate: int, position: int) -> ProcessArm:
            job = job_of(ready, data, block, replicate, position)
            return OracleArm(job, sentinel, told | dict(experiment.environment), hosts)

        campaign = Campaign(
            plan=ready.plan, records=began, start=start, append=append, watcher=Watcher(),
            clock=monotonic, run_name=f"{experiment.name} {experiment.seed}",
        )  # fmt: skip
        try:
            return campaign.run()
        finally:
            hosts.end()
            sentinel.close()


def _windows_of(records: Sequence[Record], replicate: int) -> int:
    return sum(isinstance(one, Window) and one.arm.replicate == replicate for one in records)


def prepared(experiment: Experiment) -> Any:
    """What a campaign takes its jobs from."""
    catalogue = _catalogue(experiment)
    return SimpleNamespace(
        catalogue=catalogue,
        environment=SimpleNamespace(device=experiment.device),
        plan=_plan(experiment, catalogue),
        recipe=lambda config: compose(catalogue.workload("oracle"), config.options, catalogue.known),
    )


def rows_of(found: Sequence[Measured]) -> list[Row]:
    """The rows of one matrix over all experiments, in their order, as if one run had measured them."""
    first = found[0].plan
    plan = replace(
        first,
        blocks=tuple(block for one in found for block in one.plan.blocks),
        promises={name: promise for one in found for name, promise in one.plan.promises.items()},
    )
    matrix = build_matrix(plan, [record for one in found for record in one.records], _environment())
    by_comparison = {row.comparison: row for row in matrix.rows}
    return [by_comparison[one] for one in plan.comparisons]


class OracleArm(ProcessArm):
    """An arm that is told its stages, as variables of its environment."""

    def __init__(self, job: Any, sentinel: Sentinel, told: Mapping[str, str], hosts: Hosts) -> None:
        def with_stages(recipe: Recipe, inherited: dict[str, str]) -> dict[str, str]:
            return launch_environment(recipe, inherited) | told

        with STARTING, patch.object(arm, "launch_environment", with_stages):
            super().__init__(job, sentinel, host=hosts.of(job) if job.shared else None)


STARTING = Lock()  # several experiments may run at once


def _environment() -> Environment:
    from tests.analyze.synthetic import ENVIRONMENT

    return ENVIRONMENT


def _catalogue(experiment: Experiment) -> Catalogue:
    """The suite's own optimizations, and one that chooses the stages."""
    # Arms read the parts from the file.
    workload = workload_of(experiment.stages[PLAIN], cast("Callable[[], Any]", lambda: None), str(WORKLOAD_FILE))
    variant = Optimization(
        name="variant",
        title="Other stage times",
        stage=Stage.INPUT,
        numerics=Numerics.EXACT,
        sets={"variant": LEVEL},
        proof={"variant": LEVEL},
        levels=tuple(experiment.stages),
    )
    known = read_catalogue(ledger=False).optimizations
    return Catalogue(workloads={"oracle": workload}, optimizations={**known, "variant": variant})


def _plan(experiment: Experiment, catalogue: Catalogue) -> Plan:
    reference = _config(experiment.reference, experiment)
    comparisons = tuple(
        Comparison(
            label=f"{experiment.name}: {one}",
            treatment=_config(one, experiment),
            reference=reference,
            timing=experiment.timing,
            copy=experiment.options[:index].count(one),
        )
        for index, one in enumerate(experiment.options)
    )
    block = Block(
        identity=experiment.name, reference=reference, timing=experiment.timing, comparisons=comparisons,
        shared=experiment.shared,
    )  # fmt: skip
    switched = sorted({option.name for one in comparisons for option in one.treatment.options + reference.options})
    return Plan(
        design="singles",
        seed=experiment.seed,
        protocol=experiment.protocol,
        blocks=(block,),
        no_results=(),
        names={str(reference): experiment.reference or "baseline"},
        promises=promises(catalogue.known[name] for name in switched),
    )


def _config(stack: str, experiment: Experiment) -> Configuration:
    options = tuple(sorted(map(parse_option, filter(None, stack.split("+")))))
    return Configuration(workload="oracle", size="quick", batch=experiment.stages[PLAIN].batch, options=options)
