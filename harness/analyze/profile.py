"""Profiles: what one arm showed besides its ratio: rates, phases, memory, start-up and facts."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, harmonic_mean
from typing import Literal

from harness.analyze.evidence import Side, tells_energy
from harness.analyze.grouping import ratios_of_sums
from harness.analyze.soundness import workers_of
from harness.core.configuration import Configuration
from harness.core.optimization import TRAINS
from harness.core.recipe import Value
from harness.core.records import Window

# Bottlenecks: where an arm's time goes, and which of its two upper bounds holds it back.

WAITS, WORKS = 0.6, 0.02  # shares of waiting that leave no doubt of which stage is behind them
CLEARLY = 1.1  # times the other bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Phases:
    """Shares of wall time; together 1."""

    input_wait: float
    copy: float
    compute: float  # all the rest: launch, device, optimizer, metrics
    overlapped: bool = False  # batches were sent ahead: what ran beside the compute is part of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Bottleneck:
    """The stage with the lower upper bound. Rates in samples a second."""

    stage: Literal["input", "compute"]
    loader_rate: float
    compute_rate: float
    rate: float
    bound: float  # the step rate could rise by this factor if the stage cost nothing
    short_probe: bool = False  # the share of waiting says otherwise than the bounds, which were then probed too shortly
    input_wait: float | None = None  # share of the time in which steps wait for a batch; None where nobody told it
    loads_beside: bool = False  # loader workers load while steps compute

    @property
    def stages(self) -> tuple[Literal["input", "compute"], ...]:
        """What holds the rate back: both stages where neither clearly takes longer than the other."""
        ordered = sorted((self.loader_rate, self.compute_rate))
        is_clear = self.short_probe or ordered[1] > CLEARLY * ordered[0]
        return (self.stage,) if is_clear else ("input", "compute")


def phases(windows: Collection[Window]) -> Phases:
    """Shares as sums over sums, so that long windows weigh more."""
    wall_s = sum(window.wall_s for window in windows)
    input_wait = sum(window.wait_s for window in windows) / wall_s
    copy = sum(window.copy_s for window in windows) / wall_s
    return Phases(input_wait=input_wait, copy=copy, compute=1 - input_wait - copy)


def beside(compute: float, shares: Phases) -> Phases:
    """The shares where batches are sent ahead, and compute alone would take that share of the time.

    Copies then run on a stream of their own, and the host waits for the next batch while the device still works: only
    what compute does not cover has held the steps up.
    """
    input_wait = min(shares.input_wait, max(0.0, 1 - compute))
    return Phases(input_wait=input_wait, copy=0.0, compute=1 - input_wait, overlapped=True)


def bottleneck(
    rate: float,
    loader_rate: float,
    compute_rate: float,
    input_wait: float | None = None,
    *,
    loads_beside: bool = False,
) -> Bottleneck:
    """The stage that holds a rate back.

    Without that stage the rate is the other bound, whether the stages overlap (the rate is the lower bound) or take
    turns (their times add), so one formula serves loader workers and none. A bound below 1 is noise and reads 1. Where
    steps are seen to wait most of their time, or none of it, that decides: a probe may be too short for what comes now
    and then.
    """
    stage: Literal["input", "compute"] = "input" if loader_rate < compute_rate else "compute"
    waits = input_wait is not None and input_wait > WAITS and loader_rate > CLEARLY * compute_rate
    works = input_wait is not None and input_wait < WORKS and compute_rate > CLEARLY * loader_rate
    if waits or works:
        stage = "input" if waits else "compute"
    other = compute_rate if stage == "input" else loader_rate
    return Bottleneck(
        stage=stage,
        loader_rate=loader_rate,
        compute_rate=compute_rate,
        rate=rate,
        bound=max(1.0, other / rate),
        short_probe=waits or works,
        input_wait=input_wait,
        loads_beside=loads_beside,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    """How long single steps of one configuration took, in seconds, over all its windows."""

    p50: float
    p95: float
    p99: float | None  # None of fewer steps than a hundred
    longest: float
    steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One configuration over all its replicates. Rates in samples a second, over sums of time."""

    config: Configuration
    rate: float
    replicate_rates: tuple[float, ...]  # of each process by itself
    phases: Phases
    device_span: float | None  # share of wall time from the first kernel of each step to its last, gaps included
    loader_rate: float | None
    compute_rate: float | None
    bottleneck: Bottleneck | None  # of training; None where an upper bound is missing or evaluation is timed
    host_bytes: int | None  # resident after a window, the most of all; None in a shared process or beside an emulation
    device_bytes: int | None
    first_step_s: float  # of the slowest replicate, since a warm compilation cache hides the cost
    steady: bool
    facts: Mapping[str, Value]
    joules: float | None = None  # of a sample, where the device counts what it takes
    clock_mhz: float | None = None  # of the device's multiprocessors, mean over windows
    process_bytes: int | None = None  # peak of what its process held of the device in all
    host_queueing: float | None = None  # share of wall time in which the host queued what spans so long on the device
    host_peak_bytes: int | None = None  # None where it is not known of every window
    host_peak_since_start: bool = False
    step_times: StepTimes | None = None  # None where any of its windows tells nothing of single steps
    losses: tuple[float, ...] = ()  # of the first steps, in the first replicate that tells them
    launching_s: float = 0.0  # that launching a step takes the host of an emulated device; 0 beside others
    tabled_s: float = 0.0  # that a step takes an emulated device by its table or its name; 0 beside others
    emulated: bool = False  # its device is, so that the device's memory lies in the host's

    @property
    def launches(self) -> float | None:
        """The share of its time, but for waits for input, in which the host launches; None where it is emulated.

        None too where the host waits for the device within that time: for a value that it reads, or for room in the
        queue of launches, which it fills where it reads none for many steps.
        """
        steps = 1 - self.phases.input_wait
        if any(self.facts.get(name) is True for name in WAITING_IN_STEPS):
            return None
        return None if self.emulated or self.host_queueing is None or steps <= 0 else self.host_queueing / steps


WAITING_IN_STEPS = ("gradient_scaling", "finite_check", "deferred_metrics")  # facts of an arm whose host does


class HostMemory(StrEnum):
    """What is known of the memory that arms took of their host."""

    PEAK = "host peak"
    SINCE_START = "host peak since start"  # building, first steps and warm-up included
    RESIDENT = "host resident"  # after a window, which is no peak


def host_memory(*profiles: Profile) -> tuple[HostMemory, tuple[int | None, ...]]:
    """Bytes that may be compared with each other: peaks where all arms have them, else what was resident.

    None for an arm that shared its process, of whose memory nobody can tell what was the arm's own.
    """
    told = [one for one in profiles if one.host_bytes is not None]
    if not told or any(one.host_peak_bytes is None for one in told):
        return HostMemory.RESIDENT, tuple(one.host_bytes for one in profiles)
    since_start = any(one.host_peak_since_start for one in told)
    kind = HostMemory.SINCE_START if since_start else HostMemory.PEAK
    return kind, tuple(one.host_peak_bytes for one in profiles)


def profile(side: Side) -> Profile | None:
    """The profile of one side of a comparison, or None before it gave a window."""
    windows, readies = side.windows, side.readies
    if not windows or not readies:
        return None
    rate = sum(window.samples for window in windows) / sum(window.wall_s for window in windows)
    trains = windows[0].timing in TRAINS
    shares = phases(windows)
    loader_rate, compute_rate = _bounds(side, rate, shares) if trains else (None, None)
    # A host that waits for nothing of the device loads the next batch while that works on the last.
    asynchronous = any(one.device_s is not None for one in windows)
    deferred = any(one.name == "deferred_metrics" for one in side.config.options)
    ahead = (asynchronous and deferred) or any(one.effective.get("device_prefetch") is True for one in readies)
    shown = beside(rate / compute_rate, shares) if ahead and compute_rate else shares
    clocks = [window.clock_mhz for window in windows if window.clock_mhz is not None]
    emulated = any("emulated_step_ms" in one.effective for one in readies)
    compute_rate = None if _is_of_few_shapes(side) else compute_rate
    return Profile(
        config=side.config,
        rate=rate,
        replicate_rates=tuple(
            ratios_of_sums(
                ((one.arm.block, one.arm.replicate, one.arm.attempt), one.samples, one.wall_s) for one in windows
            ).values()
        ),
        phases=shown,
        device_span=_told("device_s", "wall_s", windows),
        host_queueing=_told("queue_s", "wall_s", windows),
        loader_rate=loader_rate,
        compute_rate=compute_rate,
        bottleneck=bottleneck(rate, loader_rate, compute_rate, shown.input_wait, loads_beside=workers_of(side) > 0)
        if loader_rate and compute_rate
        else None,
        host_bytes=None if emulated else _largest(window.host_bytes for window in windows),
        device_bytes=_largest(window.device_bytes for window in windows),
        first_step_s=max(ready.first_step_s for ready in readies),
        steady=all(ready.steady for ready in readies),
        facts=_facts(side),
        launching_s=_emulated_s(side, "emulated_host_ms"),
        tabled_s=_emulated_s(side, "emulated_step_ms"),
        joules=_told("energy_j", "samples", filter(tells_energy, windows)),
        clock_mhz=fmean(clocks) if clocks else None,
        process_bytes=_largest(window.process_bytes for window in windows),
        host_peak_bytes=None if emulated else _host_peak(windows),
        host_peak_since_start=any(window.host_peak_since_start for window in windows),
        step_times=step_times(windows),
        losses=next((ready.losses for ready in readies if ready.losses), ()),
        emulated=emulated,
    )


def _is_of_few_shapes(side: Side) -> bool:
    """Whether the few batches of the probed step stand for no others: an emulated step takes as long whatever they are.

    Without loader workers a host that computes itself was not probed: its windows tell the step's rate.
    """
    emulated = any("emulated_step_ms" in one.effective for one in side.readies)
    varying = any(one.effective.get("varying_shapes") is True for one in side.readies)
    probed = workers_of(side) > 0 or side.windows[0].device_s is not None
    return varying and probed and not emulated


FEWEST_FOR_P99 = 100


def step_times(windows: Sequence[Window]) -> StepTimes | None:
    """Quantiles of all steps: those that each window names stand for as many steps as it took.

    The upper ones are exact unless the slowest are crowded in one window, which names its slowest 2 % one by one.
    """
    told = [(one.steps, one.quantiles_s) for one in windows if one.quantiles_s and one.slowest_s]
    if len(told) < len(windows):
        return None
    steps = sum(count for count, _ in told)
    body = sorted((time, count / len(times)) for count, times in told for time in times)
    slowest = sorted((time for one in windows for time in one.slowest_s or ()), reverse=True)
    return StepTimes(
        p50=_quantile(body, 0.5 * steps),
        p95=_quantile(body, 0.95 * steps),
        p99=slowest[steps // 100] if steps >= FEWEST_FOR_P99 else None,
        longest=slowest[0],
        steps=steps,
    )


def _quantile(weighted: Sequence[tuple[float, float]], wanted: float) -> float:
    """The value up to which so much of the weight lies, of values in order."""
    reached = 0.0
    for value, weight in weighted:
        reached += weight
        if reached >= wanted * (1 - 1e-9):
            return value
    return weighted[-1][0]


def _bounds(side: Side, rate: float, shares: Phases) -> tuple[float | None, float | None]:
    """Samples a second of the loader alone and of the step alone.

    Where no worker loads ahead, the host loads, then computes: its windows tell both, over the very same samples. A
    device that works on its own hides loading, so that its step alone was probed.
    """
    probed = tuple(_mean_rate(getattr(one, name) for one in side.readies) for name in ("loader_rate", "compute_rate"))
    if workers_of(side):
        return probed[0], probed[1]
    loader = rate / shares.input_wait if shares.input_wait > 0 else probed[0]
    on_host = side.windows[0].device_s is None
    return loader, rate / (1 - shares.input_wait) if on_host and shares.input_wait < 1 else probed[1]


def _largest(told: Iterable[int | None]) -> int | None:
    return max((one for one in told if one is not None), default=None)


def _host_peak(windows: Sequence[Window]) -> int | None:
    known = [window.host_peak_bytes for window in windows if window.host_peak_bytes is not None]
    return max(known) if len(known) == len(windows) else None


def _mean_rate(rates: Iterable[float | None]) -> float | None:
    known = [rate for rate in rates if rate is not None]
    return harmonic_mean(known) if known else None  # as if all samples went through one after the other


def _told(over: str, under: str, windows: Iterable[Window]) -> float | None:
    """The sum of one field over the sum of another, in the windows that tell the first."""
    known = [(getattr(one, over), getattr(one, under)) for one in windows if getattr(one, over) is not None]
    return sum(part for part, _ in known) / sum(whole for _, whole in known) if known else None


# What nobody promises and a table tells: bytes between ranks in an update, and in a second of nothing else.
COUNTED = frozenset({"reduced_bytes", "link_bytes_per_s"})


def _emulated_s(side: Side, name: str) -> float:
    told = (one.effective.get(name) for one in side.readies)
    return max((one / 1000 for one in told if isinstance(one, (int, float))), default=0.0)


def _facts(side: Side) -> dict[str, Value]:
    """Proved settings, counts and whatever is told in words; a later replicate has the last word."""
    return {
        name: value
        for ready in side.readies
        for name, value in sorted(ready.effective.items())
        if name in side.proved or name in COUNTED or isinstance(value, str)
    }
