"""Gauges: what a claim is about, read from the records of the comparison that tests it."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from harness.analyze.absence import Absence
from harness.analyze.estimate import Estimate
from harness.analyze.evidence import Evidence, Side, gather
from harness.analyze.notes import unproven
from harness.analyze.pool import results
from harness.analyze.ruling import Gauged
from harness.analyze.terms import LEAST_FREEDOM, LEAST_SPREAD, UNCALIBRATED, Terms
from harness.core.claim import Metric
from harness.core.measurement import Record
from harness.core.plan import Plan
from harness.core.protocol import FEWEST_RESTARTS

Values = Mapping[int, float]  # by restart


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One comparison of a run: its result in the matrix, and the evidence behind it."""

    result: Estimate | Absence
    evidence: Evidence
    data: str = ""  # what the real data of its workload are, in words; empty where they are the suite's own


def trials(plan: Plan, records: Iterable[Record], terms: Terms = UNCALIBRATED) -> tuple[Trial, ...]:
    """Every comparison of a run, in the plan's order; raises Mistake where a switch has no promise in the plan."""
    gathered = list(gather(plan, records))
    return tuple(
        Trial(result=result, evidence=one, data=plan.data.get(one.comparison.treatment.workload, ""))
        for one, result in zip(gathered, results(gathered, plan.protocol, terms), strict=True)
    )


def gauge(metric: Metric, trial: Trial) -> Gauged | str:
    """What a comparison says of a metric, or why it says nothing; quality is judged elsewhere."""
    if metric is Metric.THROUGHPUT:
        return _throughput(trial.result)
    if metric is Metric.DEVICE_SHARE:
        shares = _shares(trial.evidence.treatment)
        return _at_most(_interval(shares)) if len(shares) >= FEWEST_RESTARTS else "no device times were recorded"
    measured = _COSTS[metric]
    ours, theirs = measured(trial.evidence.treatment), measured(trial.evidence.reference)
    ratios = {restart: math.log(theirs[restart] / ours[restart]) for restart in ours.keys() & theirs.keys()}
    if len(ratios) < FEWEST_RESTARTS:
        return f"{metric} was not recorded in two restarts"
    return _exponential(_interval(ratios, spread=LEAST_SPREAD))


def _throughput(result: Estimate | Absence) -> Gauged | str:
    if isinstance(result, Absence):
        return result.words
    if result.unrest:
        return f"the machine was too disturbed: {result.unrest}"
    if result.withheld:
        return unproven(result)
    return Gauged(
        value=result.ratio,
        low=result.low,
        high=result.high,
        restarts=result.processes,
        margin=result.terms.margin,
    )


def _host_bytes(side: Side) -> Values:
    """Peaks alone: what was resident after a window says little of what a window needs."""
    known = ((burst.arm.restart, burst.host_peak_bytes) for burst in side.bursts)
    return _largest((restart, float(count)) for restart, count in known if count)


def _device_bytes(side: Side) -> Values:
    known = ((burst.arm.restart, burst.device_bytes) for burst in side.bursts)
    return _largest((restart, float(count)) for restart, count in known if count)


def _start_s(side: Side) -> Values:
    """Of the first life of each restart, since later ones find caches warm; readies come in the order of lives."""
    found: dict[int, float] = {}
    for ready in side.readies:
        found.setdefault(ready.arm.restart, ready.build_s + ready.first_step_s)
    return found


def _shares(side: Side) -> Values:
    device_s: dict[int, float] = defaultdict(float)
    wall_s: dict[int, float] = defaultdict(float)
    for burst in side.bursts:
        if burst.device_s:  # older records have 0 where nothing bounded the device's work
            device_s[burst.arm.restart] += burst.device_s
            wall_s[burst.arm.restart] += burst.wall_s
    return {restart: device_s[restart] / wall_s[restart] for restart in device_s}


_COSTS: Mapping[Metric, Callable[[Side], Values]] = {
    Metric.HOST_MEMORY: _host_bytes,
    Metric.DEVICE_MEMORY: _device_bytes,
    Metric.START_UP: _start_s,
}


def _largest(values: Iterable[tuple[int, float]]) -> Values:
    found: dict[int, float] = {}
    for restart, value in values:
        found[restart] = max(value, found.get(restart, 0.0))
    return found


def _interval(values: Values, spread: float = 0.0) -> Gauged:
    """Student's t over restarts, no narrower than a spread allows: two restarts may agree by luck."""
    array = np.array(list(values.values()))
    own = stats.t.ppf(0.975, len(array) - 1) * array.std(ddof=1)
    least = stats.t.ppf(0.975, LEAST_FREEDOM) * (spread or LEAST_SPREAD * abs(array.mean()))
    centre, half_width = float(array.mean()), float(max(own, least) / math.sqrt(len(array)))
    return Gauged(value=centre, low=centre - half_width, high=centre + half_width, restarts=len(array))


def _at_most(gauged: Gauged) -> Gauged:
    """The same as an upper bound: the span of a step holds gaps in which the device waits for the host."""
    return replace(gauged, low=0.0)


def _exponential(logs: Gauged) -> Gauged:
    with np.errstate(over="ignore"):
        value, low, high = (float(np.exp(one)) for one in (logs.value, logs.low, logs.high))
    return Gauged(value=value, low=low, high=high, restarts=logs.restarts)
