"""Precisions: how widely each comparison of a run is known so far, for whoever decides how to go on."""

from collections.abc import Iterable

from harness.analyze.estimate import Estimate
from harness.analyze.evidence import gather
from harness.analyze.pool import results
from harness.analyze.terms import UNCALIBRATED, Terms
from harness.core.measurement import Record
from harness.core.plan import Plan
from harness.core.precision import Place, Precision


def precisions(plan: Plan, records: Iterable[Record], terms: Terms = UNCALIBRATED) -> dict[Place, Precision]:
    """The precision of every comparison that has an estimate; raises Mistake where a switch has no promise.

    `terms` are those under which the machine's matrix will be reported: decisions and report then know the same width.
    """
    places = [(block.identity, position) for block in plan.blocks for position, _ in enumerate(block.comparisons, 1)]
    found = results(list(gather(plan, records)), plan.protocol, terms)
    return {place: precision(one) for place, one in zip(places, found, strict=True) if isinstance(one, Estimate)}


def precision(estimate: Estimate) -> Precision:
    """All of an estimate but what it came to."""
    return Precision(half_width=estimate.half_width, outlying=estimate.outlying)
