"""Fitting the stage model: nonlinear least squares about what is expected, and Laplace's approximation around the best.

A switch is expected to act on the stage that it declares and hardly elsewhere, until the data insist.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy.optimize import OptimizeResult, least_squares

from harness.analyze.stages import (
    MISFIT,
    STAGES,
    Fitted,
    Frame,
    cells,
    frame_of,
    log_times,
    overlap_of,
    slopes,
    stage_logs,
)
from harness.analyze.step_time import Array, Overlap, Traced, alone, computing, variables
from harness.analyze.study import Signal, Study
from harness.core.optimization import Stage

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
    effects = np.array([_width(study.declared.get(switch.name)) for switch in frame.switches]).reshape(-1)
    signals = len(frame.signals)
    return Expectation(
        mean=np.concatenate([base, np.zeros(len(effects)), OVERLAP, np.zeros(signals)]),
        spread=np.concatenate([np.full(4, BASE), effects, OVERLAP_SPREAD, np.full(signals, BIAS)]),
    )


def _width(declared: Stage | None) -> list[float]:
    if declared not in STAGES:
        return [UNDECLARED] * 4
    return [DECLARED if stage is declared else ELSEWHERE for stage in STAGES]


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
    found = min((_least(rows, ridge, start) for start in _starts(expected.mean)), key=lambda one: float(one.cost))
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


def _starts(mean: Array) -> Iterator[Array]:
    """What is expected, and the same with input or device far ahead: from the wrong side a fit may stick."""
    for shift in SHIFTS:
        start = mean.copy()
        start[:4] += shift
        yield start


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
    found = cells(frame, study.arrangements)
    treated = [place[one.treatment] for one in study.ratios]
    referred = [place[one.reference] for one in study.ratios]
    seen = np.array([one.log_ratio for one in study.ratios])
    weights = 1 / np.hypot([one.deviation for one in study.ratios], MISFIT)
    readers = [_signal_rows(study, frame, signal) for signal in frame.signals]

    def rows(point: Array) -> tuple[Array, Array]:
        traced = log_times(frame, point, found)
        steep = slopes(frame, found, traced)
        anchored = traced.value[referred[0]] - np.log(study.seconds)
        residuals = [(traced.value[referred] - traced.value[treated] - seen) * weights, [anchored / ANCHOR]]
        changes = [(steep[referred] - steep[treated]) * weights[:, None], steep[referred[:1]] / ANCHOR]
        for residual, change in (reader(point) for reader in readers):
            residuals.append(residual)
            changes.append(change)
        return np.concatenate(residuals), np.vstack(changes)

    return rows


def _signal_rows(study: Study, frame: Frame, signal: Signal) -> Rows:
    sights = [sight for sight in study.sights if signal in sight.seconds]
    found = cells(frame, [sight.arrangement for sight in sights])
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
