"""Deciding: what a search knows after so many runs, and what it therefore measures next."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, inf

import numpy as np

from harness.analyze.attribution import first_and_last
from harness.analyze.collection import Entry, Kept
from harness.analyze.fitting import fit
from harness.analyze.footprint import Footprint, footprints
from harness.analyze.matrix import Matrix, Row
from harness.analyze.outlook import Anatomy
from harness.analyze.prediction import Trusted, trusted
from harness.analyze.study import Stack, Study, joined, log_times
from harness.analyze.telemetry import study_of
from harness.analyze.winner import barred, spoilt, step_rows
from harness.cli.foretelling import Ground, anatomy, forecast_by, step_space
from harness.core.cell import Cell
from harness.core.optimization import Timing
from harness.plan.balanced import Space
from harness.plan.search import Proposal, Wanted, propose, without_what_hurts

WANTED = Wanted()


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What all runs of a search say together."""

    ground: Ground
    space: Space  # what may still be sought: nothing that failed, changes losses or is too large
    matrices: tuple[Matrix, ...]  # of the runs, the first of which tests the model
    times: Mapping[Stack, float]  # log seconds of a sample, of every measured stack; infinite where it must not win
    model: Trusted | str
    left_out: tuple[str, ...]

    @property
    def best(self) -> Stack:
        """The fastest measured stack that may win; the reference if there is none."""
        return min(self.times, key=lambda stack: self.times[stack])

    def ratio(self, stack: Stack) -> float:
        """How much faster than the reference a stack was in the search."""
        return exp(self.times[self.ground.scope.reference.switches] - self.times[stack])


def known(ground: Ground, matrices: Sequence[Matrix]) -> Known | str:
    """What the runs say; words where nothing was measured yet."""
    workload = ground.scope.workload.name
    ground = replace(ground, space=step_space(ground.scope, matrices[0]))
    studies = [study_of(one, workload, ground.declared) for one in matrices]
    found = [one for one in studies if isinstance(one, Study)]
    if isinstance(studies[0], str):
        return studies[0]
    bad = _spoilt(step_rows(matrices, workload), ground.scope.reference)
    together = joined(found)
    return Known(
        ground=ground,
        space=_sought(ground.space, bad, footprints(matrices, workload, ground.scope.environment)),
        matrices=tuple(matrices),
        times=_times(together, step_rows(matrices, workload), [row for row, _ in bad]),
        model=_model(studies[0], together),
        left_out=tuple(dict.fromkeys(f"{row.subject}: {why}" for row, why in bad)),
    )


def _spoilt(rows: Sequence[Row], reference: Cell) -> list[tuple[Row, str]]:
    """Rows whose stacks must not win; only losses that were held against the reference's own tell."""
    found = spoilt(rows)
    return [(row, why) for row, why in found if row.absence or row.comparison.reference == reference]


def _times(together: Study, rows: Sequence[Row], bad: Sequence[Row]) -> dict[Stack, float]:
    """Log times of the measured stacks, infinite where they must not win.

    A stack that was only held against one that must not win is not counted as measured: nobody knows its losses.
    """
    reference = together.ratios[0].reference.switches
    stacks, switches = {row.comparison.treatment.switches for row in bad}, {barred(row) for row in bad}
    judged = {row.comparison.treatment.switches for row in rows if row.comparison.reference.switches == reference}
    doubtful = {row.comparison.treatment.switches for row in rows if row.comparison.reference.switches in stacks}
    found = dict.fromkeys(stacks, inf)
    for stack, time in log_times(together).items():
        if stack in stacks or switches & set(stack):
            found[stack] = inf
        elif stack not in doubtful or stack in judged:
            found[stack] = time
    return found


def _model(first: Study, together: Study) -> Trusted | str:
    """Tested on the first run, whose balanced stacks nobody chose for being fast; then fitted to everything."""
    found = trusted(first)
    return found if isinstance(found, str) else replace(found, model=fit(together))


def _sought(space: Space, bad: Sequence[tuple[Row, str]], memories: Sequence[Footprint]) -> Space:
    out = {barred(row) for row, _ in bad}
    levels = (tuple(one for one in alike if one not in out) for alike in space.levels)
    return replace(
        space,
        levels=tuple(alike for alike in levels if alike),
        possible=lambda stack: all(one.fits(stack) for one in memories) and space.possible(stack),
    )


def proposed(so_far: Known, rounds: int) -> Proposal:
    """The stacks to measure next, the most promising first; or none, and why."""
    if isinstance(so_far.model, str):
        return _without_a_model(so_far, rounds)
    generator = np.random.default_rng(rounds)
    models = (so_far.model.model, so_far.model.model.drawn(generator))
    forecasts = [forecast_by(model, so_far.ground.declared) for model in models]
    found = propose(so_far.space, so_far.times, forecasts, generator, WANTED)
    return found if rounds else _with_the_lightest(so_far, found)


def _with_the_lightest(so_far: Known, found: Proposal) -> Proposal:
    """In the first round also all together without whatever hurts in it.

    A model believes in small harms less than was measured, and several of them add up to more than it looks for.
    """
    light = next((one for one in _lighter(so_far) if one not in so_far.times and one not in found.stacks), None)
    if light is None:
        return found
    return replace(found, stacks=(*found.stacks[: WANTED.stacks - 1], light), finished=None)


def _without_a_model(so_far: Known, rounds: int) -> Proposal:
    """All together without what hurts, once; then the measured cells decide."""
    over = "the stage model is not trusted here, so measured cells decide: all together, and without what hurts in it"
    stacks = () if rounds else tuple(one for one in _lighter(so_far) if one not in so_far.times)
    return Proposal(stacks=stacks[: WANTED.stacks], gain=0.0, finished=None if stacks else over)


def _lighter(so_far: Known) -> tuple[Stack, ...]:
    entries = _entries(so_far.matrices)
    mine = [one for one in entries if one.row.comparison.reference == so_far.ground.scope.reference]
    wholes = [one for one in mine if one.row.estimate and one.row.comparison.timing is Timing.STEP]
    if not wholes:
        return ()
    whole = max(wholes, key=lambda one: len(one.row.comparison.treatment.switches))
    named = {str(one): one for one in whole.row.comparison.treatment.switches}
    first, last = ({named[name]: one.log for name, one in found.items()} for found in first_and_last(whole, entries))
    return without_what_hurts(so_far.space, whole.row.comparison.treatment.switches, first, last)


def taken_apart(so_far: Known, stack: Stack, final: Sequence[Matrix]) -> Anatomy | None:
    """The parts of a stack; its total comes from the newest run that measured it against the reference."""
    entries = _entries((*so_far.matrices, *final))
    wanted = stack, so_far.ground.scope.reference, Timing.STEP
    mine = [
        one
        for one in entries
        if one.row.estimate
        and (one.row.comparison.treatment.switches, one.row.comparison.reference, one.row.comparison.timing) == wanted
    ]
    return anatomy(mine[-1], entries, so_far.ground, so_far.model) if mine else None


def _entries(matrices: Sequence[Matrix]) -> list[Entry]:
    return [
        Entry(kept=Kept(name="", began="", command="", version="", matrix=matrix), table=table, row=row)
        for matrix in matrices
        for table in matrix.tables
        for row in table.rows
    ]


def gain_left(so_far: Known) -> float | None:
    """By how much the best unmeasured stack is predicted to beat the best measured one; None without a model."""
    if isinstance(so_far.model, str):
        return None
    forecast = forecast_by(so_far.model.model, so_far.ground.declared)
    found = propose(so_far.space, so_far.times, [forecast], np.random.default_rng(0), replace(WANTED, least_gain=-inf))
    return found.gain if found.stacks else None
