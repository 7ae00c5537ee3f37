"""An invented H200: how many ratios a session of 25 minutes brings, with arms that share a process and without.

python -m benchmarks.invented.h200

Plan, schedule, budget and analysis are real; times are those of a real one (docs/gpu-campaign.md) as far as it was
seen. A process imports for 3.5 s once for each replicate and each environment of variables; whatever is on the device
first pays 1 s for its context, which no fork inherits: an isolated arm each time, a shared process once. Whole steps
load their batch in one process, as the baseline of the size `standard` does, or in their loader workers, each its part
of it; steps on batches that lie on the device already (`--probe compute`) take 5 to 283 ms. The design `stages` times
an option on the loader or on such steps alone, where that is all that it changes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.invented.rehearsal import REPLICATE_NOISE, WINDOW_NOISE, Effects, VirtualClock
from harness.analyze.composition import precisions
from harness.catalogue import read_catalogue
from harness.core.configuration import Configuration
from harness.core.environment import Environment
from harness.core.optimization import Timing
from harness.core.plan import STAGES, Block, Plan, Request
from harness.core.protocol import Protocol
from harness.core.records import Record, Window
from harness.plan.cost import OTHER_SEEDS, START_S, Pace
from harness.plan.planning import PROCESS, SHARED, pace_of, planned
from harness.run.arm import launch_environment
from harness.run.execution import Campaign, Start
from harness.run.preparation import Prepared, job_of, known_elsewhere
from harness.run.watching import Watcher

SESSION_S, IMPORTS_S, CONTEXT_S = 25 * 60.0, 3.5, 1.0
RESUMED_S, FREED_S = 0.02, 0.3  # a turn; an arm that ends in a process that goes on
# Seconds of a baseline step: on the device, and to load its batch on a core, as an H200 and its host did.
# Not seen there: patches3d, imagenet at `quick`, and loading of leak, spoof and speaker at `standard`.
STEPS_S: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "standard": {
        "leak": (0.090, 0.3),
        "spoof": (0.026, 0.3),
        "speaker": (0.049, 3.5),
        "imagenet": (0.283, 6.4),
        "patches3d": (0.140, 13.0),
    },
    "quick": {
        "leak": (0.005, 0.013),
        "spoof": (0.026, 0.064),
        "speaker": (0.049, 0.22),
        "imagenet": (0.026, 0.359),
        "patches3d": (0.135, 0.106),
    },
}
UNEVEN: Mapping[str, Mapping[str, int]] = {"patches3d": {"uneven_steps": 4}}  # its distances, of every fourth step
H200 = Environment(
    device="cuda", accelerator="NVIDIA H200", accelerator_memory_bytes=141 << 30, capability="9.0", driver="580.159.03",
    cpu="invented", cores=16, memory_bytes=128 << 30, system="Linux x86_64", python="3.11.7", compiler="g++",
    packages=(("torch", "2.11.0"),), cpu_flags=(), allocators=(),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What 25 minutes came to."""

    isolation: str
    design: str
    probe: str | None
    protocol: Protocol
    planned: int
    ratios: int
    size: str
    windows_s: float  # of the session, in windows
    spent_s: Mapping[str, float]  # of it, by what it was spent on
    over_s: float  # when nothing was left, or the time was up

    @property
    def share(self) -> float:
        """Of the time that was used, in windows."""
        return self.windows_s / self.over_s


@dataclass(slots=True, kw_only=True)
class Machine:
    """What was imported and which processes hold a context, on a clock of its own."""

    clock: VirtualClock = field(default_factory=VirtualClock)
    roots: set[tuple[object, ...]] = field(default_factory=set)
    contexts: set[tuple[object, ...]] = field(default_factory=set)
    loaded: set[tuple[object, ...]] = field(default_factory=set)  # processes with the loaders whose batches they keep
    spent_s: dict[str, float] = field(default_factory=dict)

    def spend(self, what: str, seconds: float) -> None:
        """Lets time pass."""
        self.clock.now_s += seconds
        self.spent_s[what] = self.spent_s.get(what, 0.0) + seconds


@dataclass(slots=True, kw_only=True)
class InventedArm:
    """An arm on that machine; it answers in plain data."""

    config: Configuration
    timing: Timing
    protocol: Protocol
    machine: Machine
    root: tuple[object, ...]  # what it is forked from
    host: tuple[object, ...] | None  # the process that it shares, if any
    effects: Effects
    random: Random
    observed: bool  # it was seen in full before
    reference: bool
    batches: str | None  # of whose loader, for arms of a process that keeps them
    workers: int  # of the loader
    luck: float = 0.0

    begins_beside = False

    @property
    def _parts_s(self) -> tuple[float, float]:
        on_device, loading_s = STEPS_S[self.config.size][self.config.workload]
        return on_device, loading_s / max(1, self.workers)

    @property
    def step_s(self) -> float:
        """Of this configuration, undisturbed; what loads is no faster for what the device is spared."""
        on_device, loading_s = self._parts_s
        speedup = self.effects.speedup(self.config, Configuration(workload="", size="", batch=1))
        if self.timing is Timing.LOADER:
            return loading_s
        return on_device / speedup + (0.0 if self.timing is Timing.COMPUTE else loading_s)

    @property
    def _whole_s(self) -> float:
        """Of a step with its loading, which the first steps of every arm have."""
        on_device, loading_s = self._parts_s
        return on_device + loading_s

    @property
    def _loads(self) -> float:
        """The share of what is timed that waits for the loader."""
        return 0.0 if self.timing is Timing.COMPUTE else self._parts_s[1] / self.step_s

    def arrive(self) -> None:
        """Imports, unless what it is forked from has done so, and draws its luck."""
        if self.root not in self.machine.roots:
            self.machine.roots.add(self.root)
            self.machine.spend("imports", IMPORTS_S)
        self.luck = self.random.gauss(0.0, REPLICATE_NOISE)

    def begin(self) -> dict[str, Any]:
        """Pays for a context unless its process has one, then starts as the brief protocol has it."""
        spend, protocol = self.machine.spend, self.protocol
        is_first = self.host is None or self.host not in self.machine.contexts
        if is_first:
            self.machine.contexts |= {self.host} if self.host else set()
            spend("contexts", CONTEXT_S)
        spend("building", START_S)
        judged = protocol.judged_again or not self.observed
        if self.timing is Timing.LOADER and not judged:
            spend("first steps", self.step_s)
        else:
            spend("first steps", protocol.loss_steps * (self.step_s if self._are_loaded() else self._whole_s))
        on_device, _ = self._parts_s  # steps that show something are taken on batches that are there
        spread_s = OTHER_SEEDS * protocol.loss_steps * on_device if self.reference and judged else 0.0
        probed_s = protocol.upper_bound_s if self.timing is Timing.STEP else 0.0
        spend("evidence", (not self.observed) * 2 * on_device + spread_s + probed_s)
        floor_steps = 1 if protocol.is_slow(self.step_s) else protocol.floor_steps
        spend("warm-up", max(floor_steps * self.step_s, protocol.floor_s) + 1.5 * protocol.settle_s)
        return {
            "build_s": START_S, "first_step_s": self.step_s, "warm_up_s": 1.0, "warm_up_steps": 2,
            "step_s": self.step_s, "steady": True, "inactive": (),
            "effective": {**UNEVEN.get(self.config.workload, {}), "workers": self.workers},
            "losses": (1.0, 0.9, 0.8) if judged else (), "seed_spread": 0.1 if self.reference and judged else None,
            "loader_rate": None, "compute_rate": None, "score": None,
            "cycle_steps": 1 if self.timing is Timing.COMPUTE else 400,
        }  # fmt: skip

    def _are_loaded(self) -> bool:
        """Whether another arm of its process has loaded its first batches."""
        if self.batches is None or self.host is None:
            return False
        key = (*self.host, self.batches)
        found = key in self.machine.loaded
        self.machine.loaded.add(key)
        return found

    def settle(self, steps: int, offset: int) -> int:  # noqa: ARG002  its steps are all alike
        """Steps that no clock counts."""
        self.machine.spend("warm-up", RESUMED_S + steps * self.step_s)
        return 1

    def window(self, lead: int, steps: int, start: int) -> dict[str, Any]:  # noqa: ARG002
        """A window and what leads into it."""
        lead_s = lead * self.step_s
        wall_s = steps * self.step_s * (1 + self.luck + self.random.gauss(0.0, WINDOW_NOISE))
        self.machine.spend("turns", RESUMED_S)
        self.machine.spend("lead-ins", lead_s)
        self.machine.spend("windows", wall_s)
        return {
            "timing": self.timing.value, "steps": steps, "samples": steps * self.config.batch, "wall_s": wall_s,
            "wait_s": wall_s * self._loads, "copy_s": 0.0, "device_s": wall_s, "host_bytes": 1 << 30,
            "device_bytes": 1 << 30,
            "lead_steps": lead, "lead_s": lead_s, "first_half_s": wall_s * (steps // 2) / steps,
            "slowest_s": (wall_s / steps,),
        }  # fmt: skip

    def close(self) -> None:
        """Ends it, or frees it where its process goes on."""
        self.machine.spend("endings", FREED_S if self.host else 0.1)


def starter(ready: Prepared, records: list[Record], machine: Machine, random: Random) -> Start:
    """What starts the arms of a plan on a machine; `records` are those of its run so far."""
    plan, effects = ready.plan, Effects()
    data = dict.fromkeys(((one.reference.workload, one.reference.size) for one in plan.blocks), Path())

    def start(block: Block, replicate: int, position: int) -> InventedArm:
        config = block.reference if position == 0 else block.comparisons[position - 1].treatment
        recipe = ready.recipe(config)
        variables = launch_environment(recipe, {})
        return InventedArm(
            config=config,
            timing=block.timing,
            protocol=plan.protocol,
            machine=machine,
            root=(plan.design, replicate, *sorted(variables.items())),
            host=(plan.design, replicate, config.workload) if block.shared else None,
            effects=effects,
            random=Random(random.random()),
            observed=replicate > 0 or (position == 0 and known_elsewhere(ready, records, block, replicate)),
            reference=position == 0,
            batches=job_of(ready, data, block, replicate, position).batches,
            workers=recipe.workers,
        )

    return start


def session(
    isolation: str,
    probe: str | None,
    *,
    design: str = "alone",
    seed: int = 0,
    session_s: float = SESSION_S,
    size: str = "standard",
) -> Session:
    """A session over all five workloads, by the brief protocol, each option alone unless another design is named."""
    catalogue, machine, random = read_catalogue(), Machine(), Random(seed)
    request = Request(
        workloads=tuple(STEPS_S[size]), size=size, device="cuda", design=design, probe=probe, isolation=isolation,
        seed=seed,
    )  # fmt: skip
    plan = planned(request, catalogue, H200)
    ready, records = Prepared(catalogue=catalogue, environment=H200, plan=plan), list[Record]()
    start = starter(ready, records, machine, random)
    campaign = Campaign(
        plan=plan, records=records, start=start, append=lambda _: None, watcher=Watcher(), clock=machine.clock,
        deadline_s=session_s, precisions=precisions, paces=_paces(plan, catalogue.workloads, size), cores=1,
    )  # fmt: skip
    campaign.run()
    return Session(
        isolation=isolation,
        design=design,
        probe=probe,
        protocol=plan.protocol,
        planned=len(plan.comparisons),
        ratios=len(precisions(plan, records)),
        size=size,
        windows_s=sum(one.wall_s for one in records if isinstance(one, Window)),
        spent_s=machine.spent_s,
        over_s=max(session_s, machine.clock.now_s) if campaign.left_s <= 0 else machine.clock.now_s,
    )


def _paces(plan: Plan, workloads: Mapping[str, Any], size: str) -> dict[str, Pace]:
    names = {block.reference.workload for block in plan.blocks}
    return {name: pace_of(workloads[name], size, "cuda") for name in names}


def lines(found: list[Session]) -> Iterator[str]:
    """A Markdown table: a row for each session, a column for each part of its time."""
    parts = ("imports", "contexts", "building", "first steps", "evidence", "warm-up", "lead-ins", "windows")
    yield f"| size | steps | processes | ratios | of | {' | '.join(parts)} | rest |"
    yield f"|{'---|' * (len(parts) + 6)}"
    for one in found:
        shares = [one.spent_s.get(part, 0.0) / one.over_s for part in parts]
        told = " | ".join(f"{100 * share:.0f} %" for share in [*shares, max(0.0, 1 - sum(shares))])
        steps = "on resident batches" if one.probe else "whole, and parts alone" if one.design == STAGES else "whole"
        yield f"| {one.size} | {steps} | {one.isolation} | {one.ratios} | {one.planned} | {told} |"


if __name__ == "__main__":
    both = PROCESS, SHARED
    plain = [session(isolation, probe) for probe in (None, "compute") for isolation in both]
    usual = [session(isolation, None, design=STAGES, size=size) for size in STEPS_S for isolation in both]
    for line in lines([*plain, *usual]):
        print(line)
