"""The sweep: what an option is worth on emulated devices of many speeds, and at which step time it stops paying."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from harness.analyze.estimate import OF_TABLE, Estimate
from harness.analyze.grouping import together
from harness.analyze.matrix import Row, Table
from harness.analyze.profile import Profile
from harness.core.configuration import Configuration
from harness.core.emulation import EMULATED, emulation_of, is_former, known_devices
from harness.core.environment import Environment
from harness.core.optimization import Timing
from harness.core.recipe import Recipe
from harness.core.workload import Workload

PAYS = 1.05  # a speedup of 5 %: whatever shortens the input never stops paying altogether, however long a step is


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """An option at one step time of the device."""

    step_s: float
    estimate: Estimate
    predicted: float | None = None  # what loader and device, as seen at the other step times, come to here
    ahead: bool = False  # an arm has loader workers, whose gain has a peak where input and device take equally long
    hides: bool = False  # the reference loads ahead: what shortens that gains nothing once the device takes longer


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossover:
    """A step time, in seconds, at which a speedup crosses `PAYS`: 0 and infinite lie beyond what was measured.

    `low_s` and `high_s` are where the ends of the intervals cross it. A fall that stays above 1 is followed on the line
    of an option that shortens the input, which is exact where input and device take turns in the reference. Of a rise,
    of a fall to 1 or below, and of one that is steeper than such a line, only the measured points on both sides are
    known: they are the ends.
    """

    at_s: float
    low_s: float
    high_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One option over the device's step time, the shortest first."""

    label: str
    points: tuple[Point, ...]
    no_results: Mapping[float, str]  # why there is none at a step time
    launches_less: bool = False  # than its reference does: it gains more where launches are what a step waits for

    @property
    def until(self) -> Crossover:
        """Up to which step time it pays; 0 where it does at none."""
        anywhere = _is_steep(self.points) or any(one.hides for one in self.points)
        at, low, high = (last_above(self._line(name), anywhere=anywhere) for name in ("ratio", "low", "high"))
        return Crossover(at_s=at.at_s, low_s=min(at.low_s, low.low_s), high_s=max(at.high_s, high.high_s))

    @property
    def since(self) -> Crossover:
        """From which step time on it pays, as workers do only where there is something to hide behind; 0: from all."""
        at, low, high = (first_above(self._line(name)) for name in ("ratio", "high", "low"))
        return Crossover(at_s=at.at_s, low_s=min(at.low_s, low.low_s), high_s=max(at.high_s, high.high_s))

    def _line(self, name: str) -> list[tuple[float, float]]:
        return [(one.step_s, getattr(one.estimate, name)) for one in self.points]

    @property
    def best(self) -> Point:
        """Where it gives most."""
        return max(self.points, key=lambda one: one.estimate.ratio)

    @property
    def missed(self) -> float | None:
        """By how much the predictions err at most, as a factor of 1 or more; None where there is none."""
        known = [(one.estimate.ratio, one.predicted) for one in self.points if one.predicted]
        return max((math.exp(abs(math.log(seen / told))) for seen, told in known), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """One workload on devices of many speeds."""

    reference: Configuration
    host: str  # on which all of it but the device was real
    curves: tuple[Curve, ...]
    no_results: Mapping[str, str] = field(default_factory=dict)  # label -> why an option has no curve
    host_s: float = 0.0  # that the host takes to launch a step of the reference, whose device is never faster
    is_former: bool = False  # what launches take its host is what a former table says
    # Step time -> seconds for which a step of the reference loads, where nothing of it works ahead.
    loading_s: Mapping[float, float] = field(default_factory=dict)


Measured = tuple[float, Environment, Sequence[Table]]  # the device's step time in seconds, and what was measured there
_Option = tuple[str, Configuration]  # a name, and what it stands for: `all` is not the same on every day


def sweep_of(measured: Iterable[Measured]) -> tuple[Sweep, ...]:
    """The workloads of what was measured on devices that differ in their step time alone."""
    found = sorted(measured, key=lambda one: one[0])
    references = dict.fromkeys(table.config for _, _, tables in found for table in tables)
    return tuple(_of_one(reference, found) for reference in references)


def _of_one(reference: Configuration, measured: Sequence[Measured]) -> Sweep:
    """Of whole steps alone: a loader's own ratio is the same beside every device, and no speedup of training."""
    rows: dict[_Option, list[tuple[float, Row]]] = {}
    missing: dict[_Option, dict[float, str]] = {}
    for step_s, _, tables in measured:
        whole = (one for one in tables if one.config == reference and one.timing in {Timing.STEP, Timing.EPOCH})
        for row in (row for table in whole for row in table.rows):
            option = row.label, row.comparison.treatment
            if words := _unfit(row):
                missing.setdefault(option, {})[step_s] = words
            else:
                rows.setdefault(option, []).append((step_s, row))
    curves = [
        Curve(
            label=_label(option, rows),
            points=tuple(with_predictions(held)),
            no_results=missing.get(option, {}),
            launches_less=any(
                row.treatment and row.reference and row.treatment.launching_s < row.reference.launching_s
                for _, row in held
            ),
        )
        for option, held in rows.items()
    ]
    environment = measured[0][1]
    return Sweep(
        reference=reference,
        host=f"{environment.cpu}, {environment.cores} cores",
        no_results={
            _label(one, missing): next(iter(words.values())) for one, words in missing.items() if one not in rows
        },
        host_s=max(
            (row.reference.launching_s for held in rows.values() for _, row in held if row.reference), default=0.0
        ),
        is_former=any(is_former(one.device, one.driver) for _, one, _ in measured),
        loading_s=dict(_loading(rows.values())),
        curves=tuple(sorted(curves, key=lambda one: -one.best.estimate.ratio)),
    )


def _loading(rows: Iterable[Sequence[tuple[float, Row]]]) -> Iterator[tuple[float, float]]:
    references = ((step_s, row.reference) for held in rows for step_s, row in held)
    known = (two for two in references if two[1] is not None and two[1].loader_rate and not works_ahead(two[1]))
    for step_s, several in sorted(together(known).items()):
        yield step_s, median(arm.config.batch / arm.loader_rate for arm in several if arm and arm.loader_rate)


def _label(option: _Option, options: Iterable[_Option]) -> str:
    """What a curve is called; of stacks of one name also what they do not have in common."""
    label, treatment = option
    alike = [set(other.options) for name, other in options if name == label]
    if len(alike) == 1:
        return label
    common = set.intersection(*alike)
    own = [str(one) for one in treatment.options if one not in common]
    lacking = sorted(map(str, set.union(*alike) - set(treatment.options)))
    return f"{label} {'with' if own else 'without'} {', '.join(own or lacking)}"


def _unfit(row: Row) -> str | None:
    """Why a row can be no point of a curve; None if it can."""
    if row.estimate is None:
        return row.absence.words if row.absence else "too few replicates"
    if row.estimate.disturbed:
        return f"the machine was too disturbed: {row.estimate.disturbance}"
    if row.estimate.looked_up:
        return OF_TABLE
    return None if math.isfinite(row.estimate.high) else "too few replicates"


def with_predictions(rows: Sequence[tuple[float, Row]]) -> Iterator[Point]:
    """An option's rows by step time, each beside what all others come to there."""
    for step_s, row in rows:
        others = [one for one in rows if one[0] != step_s]
        ours, theirs = (_predicted_s(others, step_s, which) for which in ("treatment", "reference"))
        assert row.estimate  # noqa: S101  rows without one are no points
        ahead = any(arm and works_ahead(arm) for arm in (row.treatment, row.reference))
        predicted = theirs / ours if ours and theirs else None
        hides = row.reference is not None and works_ahead(row.reference)
        yield Point(step_s=step_s, estimate=row.estimate, predicted=predicted, ahead=ahead, hides=hides)


def _predicted_s(others: Sequence[tuple[float, Row]], step_s: float, which: str) -> float | None:
    """What a step takes at one step time of the device, by what loader and step took alone at the others.

    They take turns, unless something works ahead: then the longer of them counts.
    """
    loading, beside, ahead = [], [], False
    for at_s, row in others:
        arm: Profile | None = getattr(row, which)
        if arm is not None and arm.loader_rate and arm.compute_rate:
            loading.append(arm.config.batch / arm.loader_rate)
            beside.append(arm.config.batch / arm.compute_rate - at_s)
            ahead = works_ahead(arm)
    if not loading:
        return None
    device_s = max(step_s, step_s + median(beside))
    return max(median(loading), device_s) if ahead else median(loading) + device_s


def works_ahead(arm: Profile) -> bool:
    """Whether loading goes on while the device is at work: by workers, or by a host that does not wait for it."""
    return any(bool(arm.facts.get(name)) for name in ("workers", "device_prefetch", "deferred_metrics"))


class KnownTime(NamedTuple):
    """How fast a known device is, as far as its table and the host's launches tell."""

    step_s: float
    least_s: float  # the true step time lies between these
    most_s: float
    host_s: float = 0.0  # that the host takes to launch it: least and most are no shorter


# In what a device is marked, the fastest whose time is known there.
MARKED_IN = (Recipe(autocast="bfloat16", channels_last=True), Recipe(autocast="bfloat16"), Recipe())


def known_times(workload: Workload, reference: Configuration, host_s: float = 0.0) -> dict[str, KnownTime]:
    """The step times of known devices, in seconds: as long a sample as in the real system, at the reference's batch.

    A step of the real system's batch takes the `host_s` of its launches at least, however fast the device is.
    None where the loader's samples are smaller than the real system's: beside its steps they would hide too easily.
    """
    size = workload.sizes.get("standard")
    if size is None or not workload.sizes[reference.size].whole_samples:
        return {}
    time_of = partial(emulation_of, workload=workload, size_name="standard", size=size)
    found = {}
    for name, device in known_devices().items():
        known = (time_of(f"{EMULATED}:{name}", recipe=one) for one in MARKED_IN)
        if times := min(filter(None, known), key=lambda one: one.step_s, default=None):
            ends_s = times.step_s, times.step_s / times.band, times.step_s * times.band
            step_s, least_s, most_s = (max(one, host_s) / size.batch * reference.batch for one in ends_s)
            found[device.title] = KnownTime(step_s, least_s, most_s, host_s / size.batch * reference.batch)
    return dict(sorted(found.items(), key=lambda one: one[1]))


_Place = tuple[float, float]  # a step time, and the speedup there
NOWHERE = Crossover(at_s=0.0, low_s=0.0, high_s=0.0)
BEYOND = Crossover(at_s=math.inf, low_s=math.inf, high_s=math.inf)


def last_above(points: Sequence[_Place], *, anywhere: bool = False) -> Crossover:
    """The largest step time up to which a line through the points lies above `PAYS`; 0 or infinite beyond its ends.

    A line that comes up again after it fell is followed to its last crossing. `anywhere` between two points it may
    cross where it is known to be no line.
    """
    if not points or all(ratio < PAYS for _, ratio in points):
        return NOWHERE
    if points[-1][1] >= PAYS:
        return BEYOND
    one, other = [(one, other) for one, other in pairwise(points) if one[1] >= PAYS > other[1]][-1]
    if anywhere or other[1] <= 1:
        return _within(one, other)
    at_s = _falling(one, other)
    return Crossover(at_s=at_s, low_s=at_s, high_s=at_s)


def first_above(points: Sequence[_Place]) -> Crossover:
    """The smallest step time from which on a line through the points lies above `PAYS`; 0 or infinite beyond them."""
    if not points or all(ratio < PAYS for _, ratio in points):
        return BEYOND
    if points[0][1] >= PAYS:
        return NOWHERE
    one, other = next((one, other) for one, other in pairwise(points) if one[1] < PAYS <= other[1])
    return _within(one, other)


def _within(one: _Place, other: _Place) -> Crossover:
    """A crossing somewhere between two points, at best where a straight line over the logarithms has it."""
    (early, first), (late, last) = one, other
    share = math.log(PAYS / first) / math.log(last / first)
    return Crossover(at_s=early * (late / early) ** share, low_s=early, high_s=late)


def _falling(one: _Place, other: _Place) -> float:
    """The step time at which a speedup that falls from above `PAYS` to below it, and stays above 1, crosses that.

    With a loader of L before and l after, a speedup R of 1 + (L - l) / (l + D) beside a device of D makes 1 / (R - 1) a
    straight line over D. It falls no faster than that of an option that leaves nothing of the loader, 1 + L / D.
    """
    (early, above), (late, below) = one, other
    soonest = min(late, early * (above - 1) / (PAYS - 1))
    first, middle, last = (1 / (ratio - 1) for ratio in (above, PAYS, below))
    return max(soonest, early + (middle - first) / (last - first) * (late - early))


def _is_steep(points: Sequence[Point]) -> bool:
    """Whether a fall is surely steeper than that of an option that leaves nothing of the loader: no line tells it."""
    falls = [(one, other) for one, other in pairwise(points) if one.estimate.ratio >= PAYS > other.estimate.ratio]
    return any(
        other.estimate.high - 1 < (one.estimate.low - 1) * one.step_s / other.step_s for one, other in falls[-1:]
    )


def between(points: Sequence[Point], at_s: float) -> tuple[float, float, float] | None:
    """The speedup at a step time between two measured ones and the ends of its interval; None beyond them.

    None too beside the highest point where workers load ahead: their peak may lie on either side, and far above it. And
    where the reference loads ahead: its speedup falls within a short span of step times, which may lie anywhere.
    Elsewhere on the same line where it falls, else on a straight one over the logarithms; so are the widths.
    """
    for one, other in pairwise(points):
        if one.step_s <= at_s <= other.step_s:
            early, late = one.estimate, other.estimate
            highest = max(each.estimate.ratio for each in points)
            is_by_the_peak = (one.ahead or other.ahead) and highest in {early.ratio, late.ratio}
            if is_by_the_peak or one.hides or other.hides:
                return None
            share = math.log(at_s / one.step_s) / math.log(other.step_s / one.step_s)
            log = math.log(early.ratio) + share * math.log(late.ratio / early.ratio)
            if early.ratio > late.ratio > 1:
                first, last = 1 / (early.ratio - 1), 1 / (late.ratio - 1)
                line = first + (at_s - one.step_s) / (other.step_s - one.step_s) * (last - first)
                log = math.log(1 + 1 / line)
            half = early.half_width + share * (late.half_width - early.half_width)
            return math.exp(log), math.exp(log - half), math.exp(log + half)
    return None
