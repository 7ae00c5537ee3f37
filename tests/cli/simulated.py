"""A workload whose stacks take what a chain of events makes of them, so that searches can be run without processes."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.invented.rehearsal import VirtualClock
from harness.analyze.composition import precisions
from harness.catalogue import read_catalogue
from harness.cli.measuring import Progress
from harness.core.configuration import Configuration
from harness.core.optimization import Timing
from harness.core.plan import Block, Request
from harness.plan.planning import planned
from harness.run.execution import Campaign
from harness.run.preparation import Prepared
from harness.search import QualityClass, Search, SearchBudget, request_of, stacks_in
from harness.store import Journal, finish, read_records
from tests.analyze.synthetic import ENVIRONMENT
from tests.pipelines import Pipeline, drawn, log_times, on_cpu, signals

STEP_S = 0.05  # of one unit of a pipeline
EFFECTS = {  # name: what it makes of the times of input, device, host and sync
    "workers=1": (0.5, 1.0, 1.05, 1.0),
    "prefetch_factor=4": (0.95, 1.0, 1.0, 1.0),
    "amp_bfloat16": (1.0, 0.7, 1.0, 1.0),
    "channels_last": (1.0, 1.15, 1.0, 1.0),
    "conv1d_rewrite": (1.0, 0.85, 1.0, 1.0),
    "fused_optimizer": (1.0, 1.0, 0.8, 1.0),
    "deferred_metrics": (1.0, 1.0, 1.0, 0.6),
    "garbage_collector_off": (1.0, 1.0, 1.1, 1.0),
}
NAMES = tuple(EFFECTS)
MEMORY = ("host_bytes", "host_peak_bytes")  # what `spoil` may change of a window


def pipeline() -> Pipeline:
    """Batches that load as long as they are computed, on a CPU."""
    found, count = on_cpu(drawn(np.random.default_rng(5), len(EFFECTS))), len(EFFECTS)
    return replace(
        found,
        base=np.log([1.2, 1.0, 0.3, 0.1]),
        effects=np.log(np.array(list(EFFECTS.values()))),
        pairs=np.zeros((4, count, count)),
        choice=np.arange(count),
        needs=np.array([name.startswith("prefetch") for name in EFFECTS]),
        workers=1,
        sync_steps=4,
        lead=8,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What every stack of the options takes, and what is seen beside it: seconds of a step, by stack."""

    step_s: dict[frozenset[str], float]
    seen: dict[frozenset[str], dict[str, float]]

    def ratio(self, names: frozenset[str]) -> float:
        """How much faster a stack is than plain."""
        return self.step_s[frozenset()] / self.step_s[names]


def truth() -> Truth:
    """All stacks, those that make no sense too."""
    system = pipeline()
    stacks = np.array(list(product((0.0, 1.0), repeat=len(EFFECTS))))
    names = [frozenset(name for name, on in zip(EFFECTS, row, strict=True) if on) for row in stacks]
    told = signals(system, stacks, np.random.default_rng(9))
    step_s = STEP_S * np.exp(log_times(system, stacks))
    return Truth(
        step_s=dict(zip(names, step_s.tolist(), strict=True)),
        seen={
            one: {signal: STEP_S * float(values[row]) for signal, values in told.items()}
            for row, one in enumerate(names)
        },
    )


def on_in(config: Configuration) -> frozenset[str]:
    """The options of a configuration as text."""
    return frozenset(map(str, config.options))


@dataclass(slots=True, kw_only=True)
class SimulatedArm:
    """An arm that needs no process; `spoil` may change what it reports."""

    config: Configuration
    timing: Timing
    truth: Truth
    clock: VirtualClock
    random: Random
    spoil: Callable[[Configuration, dict[str, Any]], None]
    luck: float = 0.0

    begins_beside = False

    def arrive(self) -> None:
        self.clock.now_s += 2.0
        self.luck = self.random.gauss(0.0, 0.005)

    def begin(self) -> dict[str, Any]:
        self.clock.now_s += 2.0
        seen = self.truth.seen[on_in(self.config)]
        told = {
            "build_s": 1.0, "first_step_s": 0.5, "warm_up_s": 1.0, "warm_up_steps": 20, "step_s": self.step_s,
            "steady": True, "effective": {}, "inactive": (), "losses": (1.0, 0.9), "seed_spread": 0.1,
            "loader_rate": self.config.batch / seen["loader"], "compute_rate": self.config.batch / seen["compute"],
            "score": None,
        }  # fmt: skip
        self.spoil(self.config, told)
        return {name: value for name, value in told.items() if name not in MEMORY}

    def settle(self, steps: int, offset: int) -> int:  # noqa: ARG002  its steps are all alike
        self.clock.now_s += steps * self.step_s
        return 1

    def window(self, lead: int, steps: int, start: int) -> dict[str, Any]:  # noqa: ARG002
        lead_s = lead * self.step_s
        self.clock.now_s += lead_s
        wall_s = float(steps * self.step_s * np.exp(self.luck + self.random.gauss(0.0, 0.01)))
        self.clock.now_s += wall_s
        wait_s = self.truth.seen[on_in(self.config)]["wait"]
        told = {
            "timing": self.timing.value, "steps": steps, "samples": steps * self.config.batch, "wall_s": wall_s,
            "wait_s": 0.0 if np.isnan(wait_s) else min(steps * float(wait_s), 0.95 * wall_s), "copy_s": 0.0,
            "device_s": None, "host_bytes": 1 << 30, "host_peak_bytes": 1 << 30, "device_bytes": None,
            "lead_steps": lead, "lead_s": lead_s,
        }  # fmt: skip
        facts: dict[str, Any] = {}
        self.spoil(self.config, facts)
        return told | {name: value for name, value in facts.items() if name in MEMORY}

    def close(self) -> None:
        pass

    @property
    def step_s(self) -> float:
        return self.truth.step_s[on_in(self.config)]


def honest(_config: Configuration, _told: dict[str, Any]) -> None:
    """Changes nothing."""


@dataclass(slots=True, kw_only=True)
class Laboratory:
    """Where simulated searches measure; time passes there only while arms work."""

    results: Path
    truth: Truth
    spoil: Callable[[Configuration, dict[str, Any]], None] = honest
    clock: VirtualClock = field(default_factory=VirtualClock)
    measured: list[str] = field(default_factory=list)  # designs of the plans that were worked on

    def measure(self, ready: Prepared, folder: Path, until: float | None) -> None:
        """Runs a plan into its folder."""
        self.measured.append(ready.plan.design)
        journal, random = Journal(folder), Random(len(self.measured))

        def start(block: Block, _replicate: int, position: int) -> SimulatedArm:
            config = block.reference if position == 0 else block.comparisons[position - 1].treatment
            return SimulatedArm(
                config=config, timing=block.timing, truth=self.truth, clock=self.clock,
                random=Random(random.random()), spoil=self.spoil,
            )  # fmt: skip

        campaign = Campaign(
            plan=ready.plan, records=read_records(folder), start=start, append=journal.append,
            watcher=Progress(ready.plan, Console(quiet=True)), clock=self.clock, deadline_s=until,
            precisions=precisions,
        )  # fmt: skip
        try:
            if campaign.run():
                finish(folder)
        finally:
            journal.close()

    def search(
        self,
        *names: str,
        budget_s: float | None = None,
        quality: QualityClass = QualityClass.CLOSE,
        fresh: bool = False,
    ) -> Search:
        """A search over some of the options."""
        asked = Request(workloads=("leak",), size="quick", design="matrix", only=names or NAMES, device="cpu")
        request, catalogue = request_of(asked, quality), read_catalogue()
        plan = planned(request, catalogue, ENVIRONMENT)
        ready = Prepared(catalogue=catalogue, environment=ENVIRONMENT, plan=plan)
        bench = SearchBudget(
            results=self.results, measure=self.measure, clock=self.clock, began_s=self.clock(), budget_s=budget_s,
            fresh=fresh, tell=lambda _: None,
        )  # fmt: skip
        return Search(request=request, ready=ready, possible=stacks_in(request, ready), budget=bench)


def fastest(found: Truth, *left_out: str) -> float:
    """The best ratio over plain of all stacks that make sense and lack some options."""
    out, lonely = set(left_out), {"prefetch_factor=4"}  # which makes no sense without workers
    sensible = (one for one in found.step_s if not one & out and (not one & lonely or "workers=1" in one))
    return max(found.ratio(names) for names in sensible)
