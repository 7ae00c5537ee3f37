"""Simulated pipelines as the harness would measure them: the design's comparisons, noisy ratios, signals beside."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from harness.analyze.search.stage_model import Arrangement, Compared, Sight, Signal, Stack, Study
from harness.core.configuration import Comparison, Configuration, Option
from harness.core.optimization import LEVEL, Optimization, Stage
from harness.core.protocol import Protocol
from harness.plan.designs import matrix
from harness.plan.feasibility import Scope
from tests.analyze.synthetic import ENVIRONMENT
from tests.core.invented import optimization, workload
from tests.pipelines import Array, Pipeline, log_times, signals

NOISE = 0.01  # of a measured log ratio
STAGES = (Stage.INPUT, Stage.DEVICE, Stage.HOST, Stage.SYNC)
GPU = (Signal.LOADER, Signal.WAIT, Signal.COMPUTE, Signal.SPAN)  # what records hold on a GPU
CPU = (Signal.LOADER, Signal.WAIT, Signal.COMPUTE)
PROFILED = (Signal.LOADER, Signal.DEVICE, Signal.HOST)  # what a profiler would tell
NOTHING = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A pipeline, its options as optimizations of an invented workload, and the seed of what is measured."""

    pipeline: Pipeline
    options: tuple[Option, ...]  # in the pipeline's order
    scope: Scope
    known: dict[Stack, float] = field(default_factory=dict)  # log times that were simulated already

    def incidence(self, stacks: Iterable[Stack]) -> Array:
        """Stacks as the pipeline takes them."""
        return np.array([[float(option in stack) for option in self.options] for stack in stacks])

    def arrangements(self, stacks: Sequence[Stack]) -> list[Arrangement]:
        """Stacks as the model takes them."""
        overlapped = self.pipeline.overlapped(self.incidence(stacks))
        return [Arrangement(options=stack, overlapped=bool(one)) for stack, one in zip(stacks, overlapped, strict=True)]

    def log_times(self, stacks: Iterable[Stack]) -> Array:
        """What stacks truly take; each is simulated once."""
        stacks = list(stacks)
        new = [stack for stack in dict.fromkeys(stacks) if stack not in self.known]
        if new:
            self.known.update(zip(new, log_times(self.pipeline, self.incidence(new)), strict=True))
        return np.array([self.known[stack] for stack in stacks])

    @property
    def matrix(self) -> list[Comparison]:
        """The comparisons of the design `matrix`."""
        return [entry for entry in matrix(self.scope) if isinstance(entry, Comparison)]


def world(pipeline: Pipeline) -> World:
    """The pipeline as an invented workload, of which everything that does not need workers is a choice of its own."""
    count, first = pipeline.options, int((pipeline.choice == 0).sum())
    names = [f"s{index:02d}" for index in range(count)]
    workers = optimization("workers", {"workers": LEVEL}, levels=tuple(range(2, 2 + first)))
    found: list[Optimization] = [workers]
    options = [Option(name="workers", level=level) for level in workers.levels]
    for index in range(first, count):
        stage = STAGES[pipeline.declared[index]]
        needs = ("workers",) if pipeline.needs[index] else ()
        found.append(optimization(names[index], {names[index]: True}, stage=stage, requires=needs))
        options.append(Option(name=names[index]))
    scope = Scope(
        workload=replace(workload(), own=dict.fromkeys(names, False)),
        reference=Configuration(workload="toy", size="quick", batch=12),
        optimizations=tuple(found),
        known={one.name: one for one in found},
        original=(),
        environment=ENVIRONMENT,
        protocol=Protocol(),
        chosen=tuple(options),
    )
    return World(pipeline=pipeline, options=tuple(options), scope=scope)


def study(
    there: World, comparisons: Sequence[Comparison], seen: Sequence[Signal], generator: np.random.Generator
) -> Study:
    """The comparisons as they would be measured, each with noise, and the signals of all their configurations."""
    stacks = list(dict.fromkeys(config.options for one in comparisons for config in (one.reference, one.treatment)))
    truth, place = there.log_times(stacks), {stack: index for index, stack in enumerate(stacks)}
    arrangements = there.arrangements(stacks)
    told = signals(there.pipeline, there.incidence(stacks), generator)
    pairs = [(place[one.treatment.options], place[one.reference.options]) for one in comparisons]
    return Study(
        ratios=tuple(
            Compared(
                treatment=arrangements[ours],
                reference=arrangements[theirs],
                log_ratio=float(truth[theirs] - truth[ours] + generator.normal(0, NOISE)),
                deviation=NOISE,
            )
            for ours, theirs in pairs
        ),
        sights=tuple(
            Sight(arrangement=one, seconds=_known({signal: float(told[signal][index]) for signal in seen}))
            for index, one in enumerate(arrangements)
        ),
        seconds=float(np.exp(truth[pairs[0][1]])),
        declared={one.name: one.stage for one in there.scope.optimizations},
        asynchronous=there.pipeline.asynchronous,
    )


def _known(seconds: dict[Signal, float]) -> dict[Signal, float]:
    return {signal: value for signal, value in seconds.items() if np.isfinite(value)}
