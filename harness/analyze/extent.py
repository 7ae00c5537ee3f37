"""Extent: which comparisons of a machine could be measured, which are, and how narrowly."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.analyze.collection import StoredRun, answered
from harness.analyze.grouping import together
from harness.core.optimization import Timing
from harness.core.plan import Plan, is_or_was_baseline

NARROW = 0.05  # half-width of a log ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """One workload on one machine: single options against the baseline, each on what it acts on."""

    machine: str
    workload: str
    possible: tuple[str, ...]
    # Option -> half the width of its interval, of training steps where known; infinite where the machine was disturbed.
    measured: Mapping[str, float]
    reasons: Mapping[str, tuple[str, ...]]  # why others cannot be measured there -> which

    @property
    def missing(self) -> tuple[str, ...]:
        """What could be measured there and is not."""
        return tuple(one for one in self.possible if one not in self.measured)

    @property
    def narrow(self) -> int:
        """How many are known to 5 % or better."""
        return sum(self.measured[one] <= NARROW for one in self.possible if one in self.measured)


def extent_of(machine: str, workload: str, plan: Plan, runs: Iterable[StoredRun]) -> Extent:
    """What some runs of a machine have of the comparisons of a plan that its newest environment allows.

    Each at the plan's size, batch and timing; what a part of a step comes to on whole steps tells of those.
    """
    asked = {one.label: one for one in plan.comparisons if one.treatment.workload == workload}
    measured: dict[str, float] = {}
    for one in answered(runs):
        row, comparison = one.row, one.row.comparison
        if comparison.treatment.workload != workload or comparison.label not in asked:
            continue
        wanted, against = asked[comparison.label], comparison.reference
        timing = Timing.STEP if row.on_steps else comparison.timing
        alike = (against.size, against.batch, timing) == (wanted.reference.size, wanted.reference.batch, wanted.timing)
        usual = against.options == wanted.reference.options or is_or_was_baseline(against)
        if alike and usual and row.estimate and row.shown:
            width = math.inf if row.estimate.disturbed else row.shown.half_width
            measured[comparison.label] = min(width, measured.get(comparison.label, width))
    reasons = together((one.reason, one.label) for one in plan.no_results if one.workload == workload)
    return Extent(
        machine=machine,
        workload=workload,
        possible=tuple(asked),
        measured={name: measured[name] for name in asked if name in measured},
        reasons={reason: tuple(names) for reason, names in reasons.items()},
    )
