"""Calibrating: the records of a run of the design `calibration` become what they say of the machine.

Every cell is judged on the terms that the cells of other blocks would set, so that none helps to find itself right.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from harness.analyze.calibration import Calibration, Known, Level, least_of
from harness.analyze.estimate import Estimate
from harness.analyze.evidence import Evidence, gather
from harness.analyze.moderation import prior_of
from harness.analyze.noise import cost_of_a_burst, lag_one
from harness.analyze.order import in_the_order_of_start, in_their_round
from harness.analyze.pairing import Pairs, log_totals, pair
from harness.analyze.pool import results
from harness.analyze.terms import Terms
from harness.analyze.verdict import MARGIN
from harness.core.cell import Comparison
from harness.core.control import DELAY_S, planted
from harness.core.measurement import Arm, Burst, Record
from harness.core.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class _Copy:
    """A cell against itself that has an estimate."""

    block: str
    evidence: Evidence
    pairs: Pairs


def calibrate(plan: Plan, records: Iterable[Record]) -> Calibration:
    """What a run says of its machine, finished or not; raises Mistake where a switch has no promise in the plan."""
    kept = tuple(records)
    gathered = tuple(gather(plan, kept))
    copies = tuple(_copies(plan, gathered))
    known = tuple(_known(plan, gathered, copies))
    levels = tuple(_levels(known))
    evidence = [one.evidence for one in copies]
    return Calibration(
        copies=tuple(one for one in known if _is_copy(one.comparison) and one.estimate),
        levels=levels,
        order_of_start=in_the_order_of_start(evidence, kept),
        order_in_round=in_their_round(evidence),
        correlation=lag_one(restart for one in copies for restart in one.pairs.log_ratios),
        burst_s=cost_of_a_burst(_arms(kept)),
        terms=_terms(copies, _margin(levels)),
    )


def _is_copy(comparison: Comparison) -> bool:
    return comparison.treatment == comparison.reference


def _blocks(plan: Plan) -> Iterator[str]:
    """The block of every comparison, in the plan's order."""
    return (block.identity for block in plan.blocks for _ in block.comparisons)


def _copies(plan: Plan, gathered: Sequence[Evidence]) -> Iterator[_Copy]:
    for block, one, result in zip(_blocks(plan), gathered, results(gathered, plan.protocol), strict=True):
        if _is_copy(one.comparison) and isinstance(result, Estimate):
            yield _Copy(block=block, evidence=one, pairs=pair(one.bursts, one.position))


def _known(plan: Plan, gathered: Sequence[Evidence], copies: Sequence[_Copy]) -> Iterator[Known]:
    """Every comparison, judged on the terms of the copies in other blocks."""
    by_block = {
        name: results(gathered, plan.protocol, _terms([one for one in copies if one.block != name], MARGIN))
        for name in dict.fromkeys(_blocks(plan))
    }
    for index, (block, one) in enumerate(zip(_blocks(plan), gathered, strict=True)):
        truth = 1.0 if _is_copy(one.comparison) else _truth(one)
        yield Known(comparison=one.comparison, result=by_block[block][index], truth=truth)


def _terms(copies: Sequence[_Copy], margin: float) -> Terms:
    """What copies set for all cells of a machine.

    Their truth is known, so how far restarts lie from it is the spread, whatever the restarts of one cell agree on.
    Copies that are alive together share the luck of their reference: they count as one.
    """
    if not copies:
        return Terms(margin=margin)
    means = [log_totals(one.pairs) for one in copies]
    lives = {
        one.block: max(len(other.pairs.log_ratios) for other in copies if other.block == one.block) for one in copies
    }
    variances = np.array([one.var(ddof=1) for one in means])
    return Terms(
        least_spread=float(np.sqrt(np.mean(np.concatenate(means) ** 2))),
        least_freedom=float(sum(lives.values())),
        margin=margin,
        prior=prior_of(variances, np.array([len(one) - 1.0 for one in means])),
    )


def _margin(levels: Sequence[Level]) -> float:
    """The usual margin where the smallest delay was recovered, else the smallest that was; endless without any."""
    least = least_of(levels)
    if least is None:
        return math.inf
    return MARGIN if least == levels[0].percent else least / 100


def _levels(known: Sequence[Known]) -> Iterator[Level]:
    found: dict[int, list[Known]] = defaultdict(list)
    for one in known:
        if percent := planted(one.comparison):
            found[percent].append(one)
    yield from (Level(percent=percent, controls=tuple(found[percent])) for percent in sorted(found))


def _truth(one: Evidence) -> float | None:
    """The ratio that the delays put in, from their lengths as they were seen and the reference's own steps."""
    steps = _step_s(one.reference.bursts)
    by_restart: dict[int, list[float]] = defaultdict(list)
    for ready in one.treatment.readies:
        delay_s, step_s = ready.effective.get(DELAY_S), steps.get((ready.arm.restart, ready.arm.life))
        if isinstance(delay_s, float) and step_s:
            by_restart[ready.arm.restart].append(math.log(step_s / (step_s + delay_s)))
    return math.exp(fmean(map(fmean, by_restart.values()))) if by_restart else None


def _step_s(bursts: Iterable[Burst]) -> dict[tuple[int, int], float]:
    """Seconds of a step in each life, over its total time, as ratios are."""
    found: dict[tuple[int, int], list[Burst]] = defaultdict(list)
    for burst in bursts:
        found[burst.arm.restart, burst.arm.life].append(burst)
    return {life: sum(one.wall_s for one in own) / sum(one.steps for one in own) for life, own in found.items()}


def _arms(records: Iterable[Record]) -> Iterable[list[tuple[int, float]]]:
    """Steps and seconds of every arm's bursts."""
    found: dict[Arm, list[tuple[int, float]]] = defaultdict(list)
    for record in records:
        if isinstance(record, Burst):
            found[record.arm].append((record.steps, record.wall_s))
    return found.values()
