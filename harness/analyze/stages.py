"""The stage model: four stage times of every stack, from measured ratios and what was seen beside them.

Each switch multiplies the time of each of four stages: input, device, host and sync. It is expected to act on the stage
that it declares and hardly elsewhere, until the data insist. `harness/analyze/step_time.py` says how stages add up to a
step, `harness/analyze/fitting.py` finds the numbers: docs/decisions/stage-model.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy.linalg import solve_triangular

from harness.analyze.step_time import Array, Overlap, Traced, step, variables
from harness.analyze.study import Arrangement, Signal, Stack, Study
from harness.core.optimization import Stage

STAGES: Final = (Stage.INPUT, Stage.DEVICE, Stage.HOST, Stage.SYNC)
FREE = 30.0  # taken off the log time of a stage that is thought to cost nothing
MISFIT = 0.01  # standard deviation of log time by which the formula itself is wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What the numbers of a point mean: base log times, effects by switch and stage, overlap, biases of signals."""

    always: frozenset[str]  # switches that are on in every measured cell, as text
    switches: Stack  # the others
    signals: tuple[Signal, ...]
    asynchronous: bool

    @property
    def size(self) -> int:
        """How many numbers make a point."""
        return self.overlap + 3 + len(self.signals)

    @property
    def overlap(self) -> int:
        """Where the numbers of the overlap begin."""
        return 4 + 4 * len(self.switches)

    def incidence(self, arrangements: Sequence[Arrangement]) -> Array:
        """Which switches are on, cells x switches; raises KeyError where one was never measured."""
        place = {str(switch): index for index, switch in enumerate(self.switches)}
        found = np.zeros((len(arrangements), len(place)))
        for row, one in enumerate(arrangements):
            found[row, [place[name] for name in map(str, one.switches) if name not in self.always]] = 1.0
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """Arrangements as arrays, for one frame."""

    incidence: Array  # cells x switches
    overlapped: np.ndarray[tuple[int], np.dtype[np.bool_]]


def frame_of(study: Study) -> Frame:
    """The frame of a study: one effect for each level of each optimization that is on in some cells and not in all."""
    stacks = [frozenset(one.switches) for one in study.arrangements]
    common = stacks[0].intersection(*stacks)
    seen = {signal for sight in study.sights for signal in sight.seconds}
    return Frame(
        always=frozenset(map(str, common)),
        switches=tuple(sorted(stacks[0].union(*stacks) - common, key=str)),
        signals=tuple(signal for signal in Signal if signal in seen),
        asynchronous=study.asynchronous,
    )


def cells(frame: Frame, arrangements: Sequence[Arrangement]) -> Cells:
    """Arrangements as arrays; raises KeyError where a switch was never measured."""
    overlapped = np.array([one.overlapped for one in arrangements], dtype=np.bool_)
    return Cells(incidence=frame.incidence(arrangements), overlapped=overlapped)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A model of one study: the best point, and what is known of it."""

    frame: Frame
    point: Array
    root: Array  # upper triangle R with R'R the precision of the point

    def log_times(self, arrangements: Sequence[Arrangement]) -> Array:
        """Log seconds of a sample for each arrangement; raises KeyError where a switch was never measured."""
        return log_times(self.frame, self.point, cells(self.frame, arrangements)).value

    def log_ratios(self, arrangements: Sequence[Arrangement], reference: Arrangement) -> tuple[Array, Array]:
        """Log ratios of rates to a reference's, above 0 where faster, and their standard deviations with the misfit."""
        found = cells(self.frame, (reference, *arrangements))
        traced = log_times(self.frame, self.point, found)
        rows = slopes(self.frame, found, traced)
        against = rows[:1] - rows[1:]
        deviations = np.linalg.norm(solve_triangular(self.root, against.T, trans="T"), axis=0)
        return traced.value[0] - traced.value[1:], np.hypot(deviations, MISFIT)

    def drawn(self, generator: np.random.Generator) -> "Fitted":
        """The model at a point that is as likely as the data allow, for proposals that explore."""
        away = solve_triangular(self.root, generator.standard_normal(len(self.point)))
        return replace(self, point=self.point + away)

    def stage_seconds(self, arrangement: Arrangement) -> Mapping[Stage, float]:
        """Seconds that each stage of a stack takes for a sample."""
        found = stage_logs(self.frame, self.point, cells(self.frame, (arrangement,)))
        return dict(zip(STAGES, np.exp(found[0]).tolist(), strict=True))


def ceilings(model: Fitted, arrangement: Arrangement) -> Mapping[Stage, float]:
    """By how much a stack would be faster if a stage took no time, stage by stage, as the model has it."""
    found = cells(model.frame, (arrangement,))
    now = log_times(model.frame, model.point, found).value[0]
    ratios = {}
    for index, stage in enumerate(STAGES):
        point = model.point.copy()
        point[index] -= FREE
        ratios[stage] = float(np.exp(now - log_times(model.frame, point, found).value[0]))
    return ratios


def stage_logs(frame: Frame, point: Array, found: Cells) -> Array:
    """Log seconds of every stage, cells x 4."""
    return np.asarray(point[:4] + found.incidence @ point[4 : frame.overlap].reshape(-1, 4))


def overlap_of(frame: Frame, point: Array) -> Overlap:
    """How stages overlap at a point."""
    loading, launching, hidden = point[frame.overlap : frame.overlap + 3]
    return Overlap(loading=loading, launching=launching, hidden=hidden, asynchronous=frame.asynchronous)


def log_times(frame: Frame, point: Array, found: Cells) -> Traced:
    """Log seconds of a sample."""
    return step(variables(stage_logs(frame, point, found)), found.overlapped, overlap_of(frame, point))


def slopes(frame: Frame, found: Cells, traced: Traced) -> Array:
    """How traced values change with a whole point, cells x numbers."""
    rows = np.zeros((len(traced.value), frame.size))
    rows[:, :4] = traced.slope[:, :4]
    each = found.incidence[:, :, None] * traced.slope[:, None, :4]
    rows[:, 4 : frame.overlap] = each.reshape(len(rows), -1)
    rows[:, frame.overlap : frame.overlap + 3] = traced.slope[:, 4:]
    return rows
