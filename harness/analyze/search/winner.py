"""Searches: what the runs of a search for the fastest stack say together, and the winner that it came to."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, inf

import numpy as np

from harness.analyze.attribution import Gain, first_and_last
from harness.analyze.collection import StoredRow, rows_of, unnamed
from harness.analyze.estimate import OF_TABLE, Estimate, half_width_of, narrowest
from harness.analyze.evidence import gather
from harness.analyze.matrix import Matrix, Row
from harness.analyze.pairing import pair
from harness.analyze.profile import host_memory
from harness.analyze.quality import Agreement
from harness.analyze.search.prediction import Trusted, Validation, trusted
from harness.analyze.search.shares import Decomposition
from harness.analyze.search.stage_model import (
    Declared,
    Stack,
    Study,
    fit,
    joined,
    measured_log_times,
    study_of,
    usable,
)
from harness.analyze.soundness import Absence, Outcome
from harness.analyze.verdict import Thresholds
from harness.core.configuration import Configuration, Option
from harness.core.environment import Environment
from harness.core.optimization import Timing
from harness.core.plan import Plan
from harness.core.protocol import FEWEST_REPLICATES
from harness.core.records import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Certainty:
    """How far a search went."""

    ended: str  # why it ended, in words
    model: Validation | str  # how well the stage model predicted, or why it was not trusted
    rounds: int  # of proposals that were measured
    measured: int  # stacks, the reference not counted
    stacks: int  # that there are at most, some of them impossible
    ranked: bool  # all of them were ranked
    gain: float | None  # predicted rate of the best unmeasured stack over the best measured one, less 1
    left_out: tuple[str, ...]  # in words: options and stacks that were not sought, and why


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """The fastest stack that a search measured, and its own number from fresh replicates."""

    reference: Configuration
    name: str  # the reference's
    stack: Stack  # empty where nothing is faster than the reference
    idle: Stack  # what was on in the fastest stack of the search, and gained next to nothing in it
    idle_gain: Gain | None  # of that stack over this one in the same fresh replicates; None where nothing is idle
    unusable: str  # why the stack with what is idle is no answer, where it is not for its gain
    chosen_afresh: bool  # whether those replicates decided between the two
    sought: float | None  # ratio of the fastest stack in the search, which is too good on average: it was picked for it
    result: Estimate | Absence | None  # from fresh replicates; None before there are any
    spoilt: str  # why nobody should use it, where its losses in those replicates are not what its options promise
    decomposition: Decomposition | None
    certainty: Certainty
    runs: tuple[str, ...]  # folders, in the order in which they were measured
    command: str  # measures the winner alone again
    unfinished: tuple[str, ...]  # those of them in which something is left to measure


def paired(plan: Plan, records: Iterable[Record], one: Stack, other: Stack, thresholds: Thresholds) -> Gain | None:
    """One stack over another, replicate by replicate over the same reference; None where they share too few."""
    totals = {
        its.comparison.treatment.options: {
            (its.shared, replicate.number): replicate.log_ratio
            for replicate in pair(its.windows, its.position).replicates
        }
        for its in gather(plan, records)
    }
    ours, theirs = totals.get(one, {}), totals.get(other, {})
    logs = np.array([ours[number] - theirs[number] for number in sorted(ours.keys() & theirs.keys())])
    if len(logs) < FEWEST_REPLICATES:
        return None
    half_width = half_width_of(float(logs.std(ddof=1)), len(logs), narrowest(thresholds))
    return Gain(log=float(logs.mean()), half_width=half_width)


def preferred(rows: Mapping[Stack, Row], best: Stack, lean: Stack, gained: Gain | None, least_gain: float) -> Stack:
    """The leaner stack unless the best `gained` more than so much over it, as a share of its rate.

    Of two of which one alone has an estimate and losses that were promised it is that one; the best where the two were
    not paired.
    """
    sound = [one for one in (best, lean) if one in rows and rows[one].estimate and not spoilt_losses(rows[one])]
    if len(sound) == 1:
        return sound[0]
    if not sound or gained is None or gained.ratio > 1 + least_gain:
        return best
    return lean


def spoilt_losses(row: Row) -> str:
    """Why nobody should use a configuration, where its losses are not what its options promise; else nothing."""
    return row.quality.sentence if row.quality is not None and row.quality.status in _BROKEN else ""


# What was measured so far.

_BROKEN = {Agreement.DIFFERS, Agreement.NAN}
_FINAL = {Outcome.FAILED, Outcome.SKIPPED, Outcome.NOT_ACTIVE, Outcome.NOT_COMPARABLE, Outcome.UNSOUND}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What all runs of a search say together."""

    reference: Configuration
    matrices: tuple[Matrix, ...]  # of the runs, the first of which validates the model
    times: Mapping[Stack, float]  # log seconds of a sample, of every measured stack; infinite where it must not win
    model: Trusted | str  # or why it is not trusted
    barred: frozenset[Option]  # no part of any stack: they failed, or changed losses
    footprints: tuple["Footprint", ...]
    left_out: tuple[str, ...]  # what must not win, and why, in words

    @property
    def best(self) -> Stack:
        """The fastest measured stack that may win; the reference if there is none."""
        return min(self.times, key=lambda stack: self.times[stack])

    def ratio(self, stack: Stack) -> float:
        """How much faster than the reference a stack was in the search."""
        return exp(self.times[self.reference.options] - self.times[stack])

    def fits(self, stack: Stack) -> bool:
        """Whether the predicted peaks of a stack are within the memory that there is."""
        return all(one.fits(stack) for one in self.footprints)

    def entries(self, *further: Matrix) -> list[StoredRow]:
        """The rows of all runs, and of further ones."""
        runs = (unnamed(matrix) for matrix in (*self.matrices, *further))
        return [one for run in runs for one in rows_of(run)]

    def whole(self) -> tuple[Stack, Mapping[Option, float], Mapping[Option, float]] | None:
        """The largest stack of training steps, and log gains of its options put on first and put on last."""
        entries = self.entries()
        found = [one for one in entries if one.row.comparison.reference == self.reference and usable(one.row)]
        found = [one for one in found if one.row.comparison.timing is Timing.STEP]
        if not found:
            return None
        whole = max(found, key=lambda one: len(one.row.comparison.treatment.options))
        options = whole.row.comparison.treatment.options
        named = {str(one): one for one in options}
        first, last = ({named[name]: one.log for name, one in side.items()} for side in first_and_last(whole, entries))
        return options, first, last


def measured(
    matrices: Sequence[Matrix], reference: Configuration, declared: Declared, environment: Environment
) -> Measured | str:
    """What the runs of a search say; words where nothing was measured yet.

    The model is validated on the first run, whose balanced stacks nobody chose for being fast; then it is fitted to
    everything. Of quality, only losses that were compared with the reference's own count.
    """
    workload = reference.workload
    studies = [study_of(one, workload, declared) for one in matrices]
    first = studies[0]
    if isinstance(first, str):
        return first
    every = [row for matrix in matrices for row in matrix.rows if row.comparison.timing is Timing.STEP]
    rows = [row for row in every if row.comparison.treatment.workload == workload]
    bad = [(row, why) for row, why in _spoilt(rows) if row.absence or row.comparison.reference == reference]
    together, model = joined([one for one in studies if isinstance(one, Study)]), trusted(first)
    barred = frozenset(option for row, _ in bad if (option := _barred(row)) is not None)
    return Measured(
        reference=reference,
        matrices=tuple(matrices),
        times=_times(together, rows, {row.comparison.treatment.options for row, _ in bad}, barred),
        model=model if isinstance(model, str) else replace(model, model=fit(together)),
        barred=barred,
        footprints=footprints(matrices, workload, environment),
        left_out=tuple(dict.fromkeys(f"{row.label}: {why}" for row, why in bad)),
    )


def _times(together: Study, rows: Sequence[Row], bad: set[Stack], barred: frozenset[Option]) -> dict[Stack, float]:
    """Log times of the measured stacks, infinite where they must not win.

    A stack that was only compared with one that must not win is not counted as measured: nobody knows its losses.
    """
    reference = together.ratios[0].reference.options
    judged = {row.comparison.treatment.options for row in rows if row.comparison.reference.options == reference}
    doubtful = {row.comparison.treatment.options for row in rows if row.comparison.reference.options in bad}
    found = dict.fromkeys(bad, inf)
    for stack, time in measured_log_times(together).items():
        if stack in bad or barred & set(stack):
            found[stack] = inf
        elif stack not in doubtful or stack in judged:
            found[stack] = time
    return found


def _spoilt(rows: Iterable[Row]) -> Iterator[tuple[Row, str]]:
    """Rows that must not win, and why: losses are not what was promised, they failed for good, or a table decides."""
    for row in rows:
        if why := spoilt_losses(row):
            yield row, why
        elif row.absence is not None and row.absence.outcome in _FINAL:
            yield row, row.absence.words
        elif row.estimate is not None and row.estimate.looked_up:
            yield row, OF_TABLE


def _barred(row: Row) -> Option | None:
    """The one option that a spoilt row is about, which then is no part of any stack; None for several."""
    comparison = row.comparison
    added = set(comparison.treatment.options) - set(comparison.reference.options)
    lacking = set(comparison.reference.options) - set(comparison.treatment.options)
    return added.pop() if len(added) == 1 and not lacking else None


# Footprints: the peak memory of stacks that nobody measured, as a product of what each option does to it.
#
# The log of a peak is taken as a sum over options, fitted by least squares with a ridge: an option is expected to do
# little until configurations show otherwise. It serves to leave out what would not fit, and is never shown as a result.

EXPECTED, NOISE = 0.3, 0.03  # standard deviations of log bytes: of what an option does, and of a measured peak


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """What a stack needs of one memory, in bytes."""

    base: float  # log bytes with nothing on
    effects: Mapping[Option, float]  # on log bytes
    limit: int  # bytes that there are

    def peak(self, stack: Stack) -> float:
        """The predicted peak; an option that was never measured changes nothing."""
        return float(np.exp(self.base + sum(self.effects.get(one, 0.0) for one in stack)))

    def fits(self, stack: Stack) -> bool:
        """Whether the predicted peak is within the memory that there is."""
        return self.peak(stack) <= self.limit


def footprints(matrices: Iterable[Matrix], workload: str, environment: Environment) -> tuple[Footprint, ...]:
    """The host's footprint and, where there is one, the device's; nothing before anything was measured."""
    tables = [one for matrix in matrices for one in matrix.tables if one.config.workload == workload]
    profiles = [one for table in tables for one in (table.profile, *(row.treatment for row in table.rows)) if one]
    limit = environment.accelerator_memory_bytes
    told = zip((one.config.options for one in profiles), host_memory(*profiles)[1], strict=True)
    host = [(options, count) for options, count in told if count is not None]
    device = [(one.config.options, one.device_bytes) for one in profiles if one.device_bytes]
    found = [fitted(host, environment.memory_bytes)] if host else []
    return (*found, fitted(device, limit)) if device and limit else tuple(found)


def fitted(peaks: Iterable[tuple[Stack, int]], limit: int) -> Footprint:
    """The footprint from measured peaks of stacks, in bytes."""
    stacks, measured = zip(*peaks, strict=True)
    options = sorted({one for stack in stacks for one in stack}, key=str)
    logs = np.log(np.array(measured, dtype=np.float64))
    rows = np.array([[1.0, *(float(one in stack) for one in options)] for stack in stacks])
    ridge = np.diag([1e-6, *(NOISE / EXPECTED for _ in options)])
    goal = np.concatenate([logs - logs.mean(), np.zeros(1 + len(options))])
    found = np.linalg.lstsq(np.vstack([rows, ridge]), goal, rcond=None)[0]
    effects = {one: float(effect) for one, effect in zip(options, found[1:], strict=True)}
    return Footprint(base=float(found[0] + logs.mean()), effects=effects, limit=limit)
