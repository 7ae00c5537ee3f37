"""The stage model: four stage times of every stack, from measured ratios and what was seen beside them.

Each option multiplies the time of each of four stages: input, device, host and sync. It is expected to act on the stage
that it declares and hardly elsewhere, until the data insist: docs/decisions/stage-model.md.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import geometric_mean
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.optimize import OptimizeResult, least_squares

from harness.analyze.composition import NORMAL
from harness.analyze.grouping import together
from harness.analyze.matrix import Matrix, Row, Table
from harness.analyze.profile import Profile
from harness.core.configuration import Option
from harness.core.optimization import Stage, Timing

# How the stages of a pipeline add up to a step: soft maxima of log times, each carried along with its slopes.
#
# With loader workers a step takes as long as the slower of loading and computing; without, the host loads and a share
# of that is hidden behind a device that still works. A soft maximum, (x^p + y^p)^(1/p), rounds the corner off where two
# stages are nearly alike: batches and kernels take unequally long, so neither waits all the time. p = 1 is the sum.

Array = NDArray[np.float64]
VARIABLES = 7  # log times of input, device, host and sync; then how loading and launching overlap, and the hidden share


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """Values of several configurations, and how each changes with the seven variables."""

    value: Array  # configurations
    slope: Array  # configurations x variables


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """How stages overlap, as numbers that may take any value."""

    loading: float  # log(p - 1) of loading beside computing
    launching: float  # log(p - 1) of the host's launching beside the device
    hidden: float  # log odds of the share of loading that the host does while the device works
    asynchronous: bool  # False where host and device are the same cores, which take turns and hide nothing


def variables(logs: Array) -> tuple[Traced, Traced, Traced, Traced]:
    """The log times of the four stages, configurations x 4, as variables."""
    found = []
    for index in range(4):
        slope = np.zeros((len(logs), VARIABLES))
        slope[:, index] = 1.0
        found.append(Traced(value=logs[:, index], slope=slope))
    return found[0], found[1], found[2], found[3]


def step(stages: Sequence[Traced], overlapped: NDArray[np.bool_], overlap: Overlap) -> Traced:
    """Log time of a step; `overlapped` says which configurations have loader workers."""
    loading, device, host, sync = stages
    beside = _sum(soft_maximum(loading, computing(stages, overlap), _power(overlap.loading, 4)), sync)
    if overlap.asynchronous:
        share = 1 / (1 + np.exp(-overlap.hidden))
        hidden = _scaled(loading, np.log(share), 1 - share)
        seen = _scaled(loading, np.log1p(-share), -share)
        busy = soft_maximum(device, _sum(host, hidden), _power(overlap.launching, 5))
        in_turn = _sum(_sum(busy, seen), sync)
    else:
        in_turn = _sum(_sum(computing(stages, overlap), loading), sync)
    return Traced(
        value=np.where(overlapped, beside.value, in_turn.value),
        slope=np.where(overlapped[:, None], beside.slope, in_turn.slope),
    )


def computing(stages: Sequence[Traced], overlap: Overlap) -> Traced:
    """Log time of a batch on the device, launching included and waiting left out: what events on the device span."""
    _, device, host, _ = stages
    if not overlap.asynchronous:
        return _sum(device, host)
    return soft_maximum(device, host, _power(overlap.launching, 5))


def alone(stages: Sequence[Traced], overlap: Overlap) -> Traced:
    """Log time of a step on batches that lie on the device already."""
    return _sum(computing(stages, overlap), stages[3])


def soft_maximum(one: Traced, other: Traced, power: Traced) -> Traced:
    """The log of (x^p + y^p)^(1/p) from the logs of x and y."""
    p = power.value
    total = np.logaddexp(p * one.value, p * other.value) / p
    share = np.exp(p * (one.value - total))
    mean = share * one.value + (1 - share) * other.value
    slope = (
        share[:, None] * one.slope + (1 - share)[:, None] * other.slope + ((mean - total) / p)[:, None] * power.slope
    )
    return Traced(value=total, slope=slope)


def _sum(one: Traced, other: Traced) -> Traced:
    return soft_maximum(one, other, Traced(value=np.ones(1), slope=np.zeros((1, VARIABLES))))


def _power(log_excess: float, variable: int) -> Traced:
    slope = np.zeros((1, VARIABLES))
    slope[0, variable] = np.exp(log_excess)
    return Traced(value=np.array([1 + np.exp(log_excess)]), slope=slope)


def _scaled(one: Traced, log_share: float, slope_of_share: float) -> Traced:
    slope = one.slope.copy()
    slope[:, 6] += slope_of_share
    return Traced(value=one.value + log_share, slope=slope)


# Studies: what was measured of one workload on one machine, as the stage model takes it.

Stack = tuple[Option, ...]  # sorted by name


class Signal(StrEnum):
    """What was seen of a configuration beside its rate, as seconds for each sample."""

    LOADER = "loader"  # its batches taken and thrown away
    WAIT = "wait"  # for batches that the host loads itself, while it trains
    COMPUTE = "compute"  # its step on batches that lie on the device already
    SPAN = "span"  # from the first kernel of a step to the last, as events on the device tell
    DEVICE = "device"  # kernels alone, as a profiler tells
    HOST = "host"  # launching alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangement:
    """One stack as the model sees it."""

    options: Stack
    overlapped: bool  # loader workers prepare batches while the step runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What was seen of one measured configuration beside its rate."""

    arrangement: Arrangement
    seconds: Mapping[Signal, float]  # a sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One measured ratio of rates."""

    treatment: Arrangement
    reference: Arrangement
    log_ratio: float  # above 0 is faster
    deviation: float  # its standard error
    block: Hashable = None  # ratios of one share the luck of their reference; None: of no other


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """All that was measured; the first ratio's reference is what absolute times are tied to."""

    ratios: tuple[Compared, ...]
    sights: tuple[Sight, ...]
    seconds: float  # a sample of the first ratio's reference takes
    declared: Mapping[str, Stage]  # optimization -> the stage that it is said to act on
    asynchronous: bool  # the device works while the host goes on: a GPU

    @property
    def arrangements(self) -> tuple[Arrangement, ...]:
        """Every configuration of the study once, the first ratio's reference first."""
        both = (one for ratio in self.ratios for one in (ratio.reference, ratio.treatment))
        return tuple(dict.fromkeys((*both, *(sight.arrangement for sight in self.sights))))


def measured_log_times(study: Study) -> dict[Stack, float]:
    """Log seconds of a sample of every stack that ratios lead to from the first reference, as they were measured.

    A stack that was measured several times against the same has their mean, the surer ones weighing more.
    """
    found = {study.ratios[0].reference.options: math.log(study.seconds)}
    while True:
        reached = together(
            (one.treatment.options, (found[one.reference.options] - one.log_ratio, one.deviation**-2))
            for one in study.ratios
            if one.reference.options in found and one.treatment.options not in found
        )
        if not reached:
            return found
        for stack, values in reached.items():
            found[stack] = sum(time * weight for time, weight in values) / sum(weight for _, weight in values)


def joined(studies: Sequence[Study]) -> Study:
    """Studies of one workload and machine as one; raises ValueError where their first references differ."""
    first = studies[0]
    if any(one.ratios[0].reference != first.ratios[0].reference for one in studies):
        raise ValueError("studies with different references cannot be joined")
    return replace(
        first,
        ratios=tuple(
            replace(ratio, block=None if ratio.block is None else (number, ratio.block))  # each study counts its own
            for number, one in enumerate(studies)
            for ratio in one.ratios
        ),
        sights=tuple(sight for one in studies for sight in one.sights),
    )


STAGES: Final = (Stage.INPUT, Stage.DEVICE, Stage.HOST, Stage.SYNC)
FREE = 30.0  # taken off the log time of a stage that is thought to cost nothing
MISFIT = 0.01  # standard deviation of log time by which the formula itself is wrong
SHARED = 0.5  # of a ratio's variance that is its reference's luck, if processes of both arms differ alike


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What the numbers of a point mean: base log times, effects by option and stage, overlap, biases of signals."""

    always: frozenset[str]  # options that are on in every measured configuration, as text
    options: Stack  # the others
    signals: tuple[Signal, ...]
    asynchronous: bool

    @property
    def size(self) -> int:
        """How many numbers make a point."""
        return self.overlap + 3 + len(self.signals)

    @property
    def overlap(self) -> int:
        """Where the numbers of the overlap begin."""
        return 4 + 4 * len(self.options)

    def incidence(self, arrangements: Sequence[Arrangement]) -> Array:
        """Which options are on, configurations x options; raises KeyError where one was never measured."""
        place = {str(option): index for index, option in enumerate(self.options)}
        found = np.zeros((len(arrangements), len(place)))
        for row, one in enumerate(arrangements):
            found[row, [place[name] for name in map(str, one.options) if name not in self.always]] = 1.0
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Configurations:
    """Arrangements as arrays, for one frame."""

    incidence: Array  # configurations x options
    overlapped: np.ndarray[tuple[int], np.dtype[np.bool_]]


def frame_of(study: Study) -> Frame:
    """The frame of a study: an effect for each level of an optimization that is on in some configurations only."""
    stacks = [frozenset(one.options) for one in study.arrangements]
    common = stacks[0].intersection(*stacks)
    seen = {signal for sight in study.sights for signal in sight.seconds}
    return Frame(
        always=frozenset(map(str, common)),
        options=tuple(sorted(stacks[0].union(*stacks) - common, key=str)),
        signals=tuple(signal for signal in Signal if signal in seen),
        asynchronous=study.asynchronous,
    )


def configs(frame: Frame, arrangements: Sequence[Arrangement]) -> Configurations:
    """Arrangements as arrays; raises KeyError where an option was never measured."""
    overlapped = np.array([one.overlapped for one in arrangements], dtype=np.bool_)
    return Configurations(incidence=frame.incidence(arrangements), overlapped=overlapped)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A model of one study: the best point, and what is known of it."""

    frame: Frame
    point: Array
    root: Array  # upper triangle R with R'R the precision of the point

    def log_times(self, arrangements: Sequence[Arrangement]) -> Array:
        """Log seconds of a sample for each arrangement; raises KeyError where an option was never measured."""
        return log_times(self.frame, self.point, configs(self.frame, arrangements)).value

    def log_ratios(self, arrangements: Sequence[Arrangement], reference: Arrangement) -> tuple[Array, Array]:
        """Log ratios of rates to a reference's, above 0 where faster, and their standard deviations with the misfit."""
        found = configs(self.frame, (reference, *arrangements))
        traced = log_times(self.frame, self.point, found)
        rows = slopes(self.frame, found, traced)
        against = rows[:1] - rows[1:]
        deviations = np.linalg.norm(solve_triangular(self.root, against.T, trans="T"), axis=0)
        return traced.value[0] - traced.value[1:], np.hypot(deviations, MISFIT)

    def drawn(self, generator: np.random.Generator) -> "Fitted":
        """The model at a point that is as likely as the data allow, for proposals that explore."""
        away = solve_triangular(self.root, generator.standard_normal(len(self.point)))
        return replace(self, point=self.point + away)


def upper_bounds(model: Fitted, arrangement: Arrangement) -> Mapping[Stage, float]:
    """By how much a stack would be faster if a stage took no time, stage by stage, as the model has it."""
    found = configs(model.frame, (arrangement,))
    now = log_times(model.frame, model.point, found).value[0]
    ratios = {}
    for index, stage in enumerate(STAGES):
        point = model.point.copy()
        point[index] -= FREE
        ratios[stage] = float(np.exp(now - log_times(model.frame, point, found).value[0]))
    return ratios


def stage_logs(frame: Frame, point: Array, found: Configurations) -> Array:
    """Log seconds of every stage, configurations x 4."""
    return np.asarray(point[:4] + found.incidence @ point[4 : frame.overlap].reshape(-1, 4))


def overlap_of(frame: Frame, point: Array) -> Overlap:
    """How stages overlap at a point."""
    loading, launching, hidden = point[frame.overlap : frame.overlap + 3]
    return Overlap(loading=loading, launching=launching, hidden=hidden, asynchronous=frame.asynchronous)


def log_times(frame: Frame, point: Array, found: Configurations) -> Traced:
    """Log seconds of a sample."""
    return step(variables(stage_logs(frame, point, found)), found.overlapped, overlap_of(frame, point))


def slopes(frame: Frame, found: Configurations, traced: Traced) -> Array:
    """How traced values change with a whole point, configurations x numbers."""
    rows = np.zeros((len(traced.value), frame.size))
    rows[:, :4] = traced.slope[:, :4]
    each = found.incidence[:, :, None] * traced.slope[:, None, :4]
    rows[:, 4 : frame.overlap] = each.reshape(len(rows), -1)
    rows[:, frame.overlap : frame.overlap + 3] = traced.slope[:, 4:]
    return rows


# Fitting the stage model: nonlinear least squares about what is expected, and Laplace's approximation around the best.
#
# An option is expected to act on the stage that it declares and hardly elsewhere, until the data insist.

ANCHOR = 0.02  # of the absolute log time, on which no ratio depends
# Standard deviations of log effects: on the declared stage, on the others, and on all where none of them is declared.
DECLARED, ELSEWHERE, UNDECLARED = 0.3, 0.05, 0.15
FREEDOM = 3.0  # of Student's t, which effects are expected to follow: what lies far out is believed
REWEIGHED = 3  # times
# Standard deviations of log signals about a constant bias that is not known, and of that bias.
SIGNAL: Final = {
    Signal.LOADER: 0.06,
    Signal.WAIT: 0.04,
    Signal.COMPUTE: 0.04,
    Signal.SPAN: 0.05,
    Signal.DEVICE: 0.04,
    Signal.HOST: 0.06,
}
BIAS = 0.15
SHARES: Final = (-0.7, -0.7, -1.2, -2.3)  # log shares of a step that stages are expected to take
BASE = 1.0  # standard deviation of those
SHIFTS: Final = ((0.0, 0.0, 0.0, 0.0), (0.8, -0.8, 0.0, 0.0), (-0.8, 0.8, 0.0, 0.0))  # of the base, where fits start
OVERLAP, OVERLAP_SPREAD = (1.8, 1.6, 0.0), (0.6, 0.6, 1.5)  # of the three numbers of `Overlap`


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What is expected before anything is measured."""

    mean: Array
    spread: Array  # standard deviations


def expectation(study: Study, frame: Frame) -> Expectation:
    """Effects about zero, wide on the declared stage; base times as the reference's signals and usual shares say."""
    base = np.array(SHARES) + np.log(study.seconds)
    for index, signal in ((0, Signal.LOADER), (1, Signal.DEVICE), (2, Signal.HOST)):
        logs = [np.log(sight.seconds[signal]) for sight in study.sights if signal in sight.seconds]
        base[index] = np.mean(logs) if logs else base[index]
    declared = [study.declared.get(option.name) for option in frame.options]
    widths = [
        [DECLARED if stage is one else ELSEWHERE for stage in STAGES] if one in STAGES else [UNDECLARED] * 4
        for one in declared
    ]
    effects = np.array(widths).reshape(-1)
    signals = len(frame.signals)
    return Expectation(
        mean=np.concatenate([base, np.zeros(len(effects)), OVERLAP, np.zeros(signals)]),
        spread=np.concatenate([np.full(4, BASE), effects, OVERLAP_SPREAD, np.full(signals, BIAS)]),
    )


def fit(study: Study) -> Fitted:
    """The model of a study; raises ValueError where there is no ratio.

    Effects follow Student's t about zero: after each fit the ridge of an effect widens with the effect that was found,
    which is expectation maximisation for that law.
    """
    if not study.ratios:
        raise ValueError("a stage model needs one measured ratio at least")
    frame = frame_of(study)
    expected = expectation(study, frame)
    rows = measured_rows(study, frame)
    ridge, effects = expected, slice(4, frame.overlap)
    # From what is expected, and with input or device far ahead: from the wrong side a fit may stick.
    starts = [expected.mean + np.pad(shift, (0, frame.size - 4)) for shift in SHIFTS]
    found = min((_least(rows, ridge, start) for start in starts), key=lambda one: float(one.cost))
    for _ in range(REWEIGHED):
        point = np.asarray(found.x)
        spread = expected.spread.copy()
        spread[effects] = np.sqrt((FREEDOM * spread[effects] ** 2 + point[effects] ** 2) / (FREEDOM + 1))
        ridge = replace(expected, spread=spread)
        found = _least(rows, ridge, point)
    point = np.asarray(found.x)
    jacobian = np.vstack([rows(point)[1], np.diag(1 / ridge.spread)])
    return Fitted(frame=frame, point=point, root=np.asarray(np.linalg.qr(jacobian, mode="r")))


Rows = Callable[[Array], tuple[Array, Array]]  # residuals in standard deviations, and their slopes


def _least(rows: Rows, ridge: Expectation, start: Array) -> OptimizeResult:
    """The point with the least sum of squares; MINPACK needs no threads of BLAS, which hurt on small matrices."""
    weights = np.diag(1 / ridge.spread)

    def residuals(point: Array) -> Array:
        return np.concatenate([rows(point)[0], (point - ridge.mean) / ridge.spread])

    def jacobian(point: Array) -> Array:
        return np.vstack([rows(point)[1], weights])

    return least_squares(residuals, start, jacobian, method="lm", xtol=1e-6, ftol=1e-6)


def measured_rows(study: Study, frame: Frame) -> Rows:
    """Residuals of all ratios, of the absolute time and of all signals, as a function of the point."""
    place = {one: index for index, one in enumerate(study.arrangements)}
    found = configs(frame, study.arrangements)
    treated = [place[one.treatment] for one in study.ratios]
    referred = [place[one.reference] for one in study.ratios]
    seen = np.array([one.log_ratio for one in study.ratios])
    weights = whitening(study.ratios)
    readers = [_signal_rows(study, frame, signal) for signal in frame.signals]

    def rows(point: Array) -> tuple[Array, Array]:
        traced = log_times(frame, point, found)
        steep = slopes(frame, found, traced)
        anchored = traced.value[referred[0]] - np.log(study.seconds)
        residuals = [weights @ (traced.value[referred] - traced.value[treated] - seen), [anchored / ANCHOR]]
        changes = [weights @ (steep[referred] - steep[treated]), steep[referred[:1]] / ANCHOR]
        for residual, change in (reader(point) for reader in readers):
            residuals.append(residual)
            changes.append(change)
        return np.concatenate(residuals), np.vstack(changes)

    return rows


def whitening(ratios: Sequence[Compared]) -> Array:
    """What makes their errors independent, each of 1: those of a block hold the luck of one reference.

    So all of a block may be wrong together, and a contrast of two of them is surer than either.
    """
    deviations = np.array([one.deviation for one in ratios])
    blocks = [number if one.block is None else one.block for number, one in enumerate(ratios)]
    alike = np.array([[one == other for other in blocks] for one in blocks])
    covariance = SHARED * alike * np.outer(deviations, deviations)
    np.fill_diagonal(covariance, deviations**2 + MISFIT**2)
    return np.asarray(solve_triangular(np.linalg.cholesky(covariance), np.eye(len(ratios)), lower=True))


def _signal_rows(study: Study, frame: Frame, signal: Signal) -> Rows:
    sights = [sight for sight in study.sights if signal in sight.seconds]
    found = configs(frame, [sight.arrangement for sight in sights])
    logs = np.log([sight.seconds[signal] for sight in sights])
    bias = frame.overlap + 3 + frame.signals.index(signal)

    def rows(point: Array) -> tuple[Array, Array]:
        stages = variables(stage_logs(frame, point, found))
        traced = _seen(signal, stages, overlap_of(frame, point))
        steep = slopes(frame, found, traced)
        steep[:, bias] = 1.0
        return (traced.value + point[bias] - logs) / SIGNAL[signal], steep / SIGNAL[signal]

    return rows


def _seen(signal: Signal, stages: Sequence[Traced], overlap: Overlap) -> Traced:
    if signal is Signal.COMPUTE:
        return alone(stages, overlap)
    if signal is Signal.SPAN:
        return computing(stages, overlap)
    return stages[{Signal.LOADER: 0, Signal.WAIT: 0, Signal.DEVICE: 1, Signal.HOST: 2}[signal]]


# Telemetry: what the records of a matrix say about the stages of its configurations, as the stage model takes it.
#
# The records hold no time of the device's kernels alone and none of the host's launching alone: a profiler would have
# to run beside the clock. They hold four times that see one stage or two, for every configuration that was timed on
# steps.


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What the catalogue says of stacks."""

    stages: Mapping[str, Stage]  # optimization -> the stage that it acts on
    overlapped: Callable[[Stack], bool]  # whether a stack has loader workers

    def arrangement(self, stack: Stack) -> Arrangement:
        """The stack as the model sees it."""
        return Arrangement(options=stack, overlapped=self.overlapped(stack))


def signals(profile: Profile, *, overlapped: bool) -> dict[Signal, float]:
    """Seconds for each sample that were seen of one configuration beside its rate.

    Behind loader workers, waiting tells no stage: it is what remains of loading when the rest of the step is over.
    """
    found = {
        Signal.WAIT: None if overlapped or profile.phases.overlapped else profile.phases.input_wait / profile.rate,
        Signal.LOADER: 1 / profile.loader_rate if profile.loader_rate else None,
        Signal.COMPUTE: 1 / profile.compute_rate if profile.compute_rate else None,
        Signal.SPAN: profile.device_span / profile.rate if profile.device_span else None,
    }
    return {signal: seconds for signal, seconds in found.items() if seconds}


def study_of(matrix: Matrix, workload: str, declared: Declared) -> Study | str:
    """All that a matrix says of one workload's training steps; words where it says nothing.

    Only configurations of one batch are taken: the first table's, whose reference ties the times to seconds. A ratio
    without any bound tells nothing, nor does one of a disturbed machine.
    """
    tables = [table for table in matrix.tables if table.config.workload == workload and table.timing is Timing.STEP]
    tables = [table for table in tables if any(map(usable, table.rows))]
    if not tables:
        return f"no ratio of {workload} was measured on training steps"
    like, rate = tables[0].config, next(row.reference.rate for row in tables[0].rows if row.reference)
    tables = [table for table in tables if (table.config.size, table.config.batch) == (like.size, like.batch)]
    rows = [row for table in tables for row in filter(usable, table.rows)]
    rows = [row for row in rows if row.comparison.treatment.batch == like.batch]
    return Study(
        ratios=tuple(
            Compared(
                treatment=declared.arrangement(row.comparison.treatment.options),
                reference=declared.arrangement(row.comparison.reference.options),
                log_ratio=float(np.log(row.estimate.ratio)),
                deviation=row.estimate.half_width / NORMAL,
                block=row.block or None,
            )
            for row in rows
            if row.estimate
        ),
        sights=tuple(_sights(tables, declared)),
        seconds=1 / rate,
        declared=declared.stages,
        asynchronous=matrix.environment.accelerated,
    )


def usable(row: Row) -> bool:
    """Whether a row has a ratio with bounds, on a machine that was quiet enough to believe it."""
    return row.estimate is not None and math.isfinite(row.estimate.high) and not row.estimate.disturbed


def _sights(tables: Iterable[Table], declared: Declared) -> Iterable[Sight]:
    """What was seen of each configuration; of one that several tables hold, the geometric means."""
    calm = ((table, (row for row in table.rows if row.estimate and not row.estimate.disturbed)) for table in tables)
    both = ((table, (table.profile, *(row.treatment for row in rows))) for table, rows in calm)
    like = (one for table, profiles in both for one in profiles if one and one.config.batch == table.config.batch)
    for stack, alike in together((one.config.options, one) for one in like).items():
        told = (signals(one, overlapped=declared.overlapped(stack)).items() for one in alike)
        found = together(pair for several in told for pair in several)
        means = {signal: geometric_mean(values) for signal, values in found.items()}
        yield Sight(arrangement=declared.arrangement(stack), seconds=means)
