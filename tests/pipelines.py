"""Simulated pipelines: training runs as a chain of events, so that the answers of planning and analysis can be checked.

Workers load batches that are handed over in order, the host launches kernels ahead of the device, and waits for it
every so many steps. No formula of the stage model is used here: what a stack takes comes out of the events. The effects
of options are drawn, some with side effects on other stages, and some are declared wrongly.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
STAGES = ("input", "device", "host", "sync")
IN_FLIGHT = 2  # batches for each worker
AHEAD = 0.15  # of a step's launching, after which its first kernel can start
LOADING_NOISE, DEVICE_NOISE, HOST_NOISE = 0.25, 0.04, 0.10  # standard deviations of log times from batch to batch
SIGNAL_NOISE = {"loader": 0.05, "wait": 0.03, "compute": 0.03, "span": 0.03, "device": 0.03, "host": 0.05}
SIGNAL_BIAS = 0.1  # standard deviation, one draw for each signal of a pipeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """One system that trains, and what its options do to it. Times in units of a usual step."""

    base: Array  # log times of the four stages
    effects: Array  # options x stages, logs
    pairs: Array  # stages x options x options, logs: what two together do beyond both
    stages: NDArray[np.intp]  # what each option really acts on
    declared: NDArray[np.intp]  # what is said of it
    choice: NDArray[np.intp]  # options with the same number are levels of one optimization
    needs: NDArray[np.bool_]  # options that mean nothing without workers, the first choice
    biases: dict[str, float]
    workers: int
    sync_steps: int  # the host waits for the device after so many steps
    lead: int  # steps that the host may be ahead
    asynchronous: bool = True  # False: the device is the host itself
    theft: float = 0.0  # by how much workers that load slow the device down, because they take its cores

    @property
    def options(self) -> int:
        """How many columns a stack has."""
        return len(self.effects)

    def possible(self, stacks: Array) -> NDArray[np.bool_]:
        """Which stacks have one level of each choice at most, and workers where they are needed."""
        counts = np.stack([stacks[:, self.choice == one].sum(axis=1) for one in np.unique(self.choice)], axis=1)
        lacking = stacks[:, self.needs].any(axis=1) & (counts[:, 0] == 0)
        return np.asarray((counts <= 1).all(axis=1) & ~lacking)

    def overlapped(self, stacks: Array) -> NDArray[np.bool_]:
        """Which stacks have loader workers."""
        return np.asarray(stacks[:, self.choice == 0].any(axis=1))

    def times(self, stacks: Array) -> Array:
        """Mean seconds that each stage takes, stacks x stages."""
        together = np.stack([np.einsum("ni,ij,nj->n", stacks, pairs, stacks) for pairs in self.pairs], axis=1)
        return np.asarray(np.exp(self.base + stacks @ self.effects + together))


def drawn(generator: np.random.Generator, options: int, mislabelled: float = 0.1, levels: int = 1) -> Pipeline:
    """A pipeline of so many options: the first are workers, at so many levels, the next two mean nothing without."""
    uniform = generator.uniform
    stages = generator.choice(4, options, p=[0.25, 0.4, 0.2, 0.15])
    stages[: levels + 2] = [*([0] * levels), 0, 3]
    effects = np.zeros((options, 4))
    for index in range(levels + 2, options):
        effects[index, stages[index]] = _effect(generator)
        if generator.random() < 0.15:
            effects[index, generator.integers(4)] += generator.normal(0, 0.1)
    speed = np.sort(uniform(1.5, 4, levels))
    effects[:levels, 0], effects[:levels, 2] = -np.log(speed), np.log(uniform(1, 1.15, levels))
    effects[levels, 0], effects[levels + 1, 3] = np.log(uniform(0.85, 1)), np.log(uniform(0.6, 1))
    wrong = generator.random(options) < mislabelled
    return Pipeline(
        base=np.log(uniform([0.3, 0.3, 0.15, 0.02], [2, 2, 0.9, 0.2])),
        effects=effects,
        pairs=_pairs(generator, effects, stages),
        stages=stages,
        declared=np.where(wrong, generator.choice(4, options), stages),
        choice=np.array([0] * levels + list(range(1, options - levels + 1))),
        needs=np.isin(np.arange(options), [levels, levels + 1]),
        biases={signal: float(generator.normal(0, SIGNAL_BIAS)) for signal in SIGNAL_NOISE},
        workers=int(generator.choice([2, 4, 8])),
        sync_steps=int(generator.choice([1, 4, 10, 50])),
        lead=int(generator.integers(2, 20)),
    )


def _effect(generator: np.random.Generator) -> float:
    """A log effect: three in ten do nothing, two in ten harm."""
    kind = generator.random()
    if kind < 0.3:
        return float(generator.normal(0, 0.004))
    return float(np.log(generator.uniform(0.55, 0.95) if kind < 0.8 else generator.uniform(1.02, 1.3)))


def _pairs(generator: np.random.Generator, effects: Array, stages: NDArray[np.intp]) -> Array:
    """Two gains on one stage are partly the same gain; other pairs quarrel or help a little."""
    count = len(effects)
    found = np.zeros((4, count, count))
    for one in range(count):
        for other in range(one):
            if stages[one] == stages[other] and generator.random() < 0.35:
                stage = stages[one]
                gains = effects[one, stage], effects[other, stage]
                least = min(map(abs, gains))
                redundant = 0.5 * least * generator.uniform(0.2, 1)
                found[stage, one, other] = redundant if max(gains) < -0.02 else generator.normal(0, 0.03)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Lived:
    """What many stacks took for a step, and the device from its first kernel to its last. Logs, one for each stack."""

    step: Array
    span: Array


def live(pipeline: Pipeline, times: Array, overlapped: NDArray[np.bool_], steps: int = 1000) -> Lived:
    """Trains all stacks side by side, batch after batch, on the same random batches; the first fifth is warm-up."""
    loading, device_s, launching, waiting = times.T
    generator = np.random.default_rng(7)
    noise = generator.standard_normal((steps, 3)) * (LOADING_NOISE, DEVICE_NOISE, HOST_NOISE)
    noise = np.exp(noise - np.array([LOADING_NOISE, DEVICE_NOISE, HOST_NOISE]) ** 2 / 2)
    count, queue = len(times), IN_FLIGHT * pipeline.workers
    device_s = device_s * np.where(overlapped, 1 + pipeline.theft, 1.0)
    free, taken = np.zeros((pipeline.workers, count)), np.zeros((queue, count))
    ends = np.zeros((pipeline.lead, count))
    host, device, span, began = np.zeros(count), np.zeros(count), np.zeros(count), np.zeros(count)
    for index, (load, compute, launch) in enumerate(noise):
        worker = index % pipeline.workers
        # A worker may begin once the batch has been taken whose place this one fills.
        loaded = np.maximum(free[worker], taken[index % queue]) + loading * load * pipeline.workers
        free[worker] = loaded
        host = np.where(overlapped, np.maximum(host, loaded), host + loading * load)
        taken[index % queue] = host
        host = np.maximum(host, ends[index % pipeline.lead])
        first = np.maximum(device, host + AHEAD * launching * launch)
        host = host + launching * launch
        device = np.maximum(first + device_s * compute, host) if pipeline.asynchronous else host + device_s * compute
        host = host if pipeline.asynchronous else device
        ends[index % pipeline.lead] = device
        if (index + 1) % pipeline.sync_steps == 0:
            host = np.maximum(host, device) + pipeline.sync_steps * waiting
        span += device - first
        if index == steps // 5:
            began, span = np.maximum(host, device), np.zeros(count)
    lasted = (np.maximum(host, device) - began) / (steps - 1 - steps // 5)
    return Lived(step=np.log(lasted), span=np.log(span / (steps - 1 - steps // 5)))


def log_times(pipeline: Pipeline, stacks: Array) -> Array:
    """The true log time of a step of every stack."""
    return live(pipeline, pipeline.times(stacks), pipeline.overlapped(stacks)).step


def signals(pipeline: Pipeline, stacks: Array, generator: np.random.Generator) -> dict[str, Array]:
    """What would be seen beside the rate, noisy and biased, in units of a usual step; NaN where nothing is seen."""
    times, overlapped = pipeline.times(stacks), pipeline.overlapped(stacks)
    cached = times * (1e-9, 1.0, 1.0, 1.0)
    seen = {
        "loader": np.log(times[:, 0]),
        "wait": np.where(overlapped, np.nan, np.log(times[:, 0])),
        "compute": live(replace(pipeline, workers=1), cached, np.zeros_like(overlapped)).step,
        "span": live(pipeline, times, overlapped).span,
        "device": np.log(times[:, 1]),
        "host": np.log(times[:, 2]),
    }
    return {
        name: np.exp(value + pipeline.biases[name] + generator.normal(0, SIGNAL_NOISE[name], len(stacks)))
        for name, value in seen.items()
    }


def on_cpu(pipeline: Pipeline) -> Pipeline:
    """The same system where host and device are the same cores."""
    return replace(pipeline, asynchronous=False)


def with_thieves(pipeline: Pipeline, generator: np.random.Generator) -> Pipeline:
    """The same system on few cores, where its workers hold up the trainer as no upper bound shows."""
    return replace(on_cpu(pipeline), theft=float(generator.uniform(0.1, 0.5)))


def with_large_effects(pipeline: Pipeline, generator: np.random.Generator) -> Pipeline:
    """The same system with three effects as a cache, half precision or a missing synchronisation have them."""
    effects = pipeline.effects.copy()
    for index in generator.choice(np.arange(3, pipeline.options), 3, replace=False):
        effects[index, pipeline.stages[index]] = -np.log(generator.uniform(3, 15))
    return replace(pipeline, effects=effects)
