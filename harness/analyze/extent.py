"""Extent: which comparisons of a machine could be measured, which are, and how narrowly."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.analyze.collection import TOO_SMALL, StoredRun
from harness.analyze.grouping import together
from harness.core.plan import Plan

NARROW = 0.05  # half-width of a log ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """One workload on one machine: single options against the baseline, each on what it acts on."""

    machine: str
    workload: str
    possible: tuple[str, ...]
    measured: Mapping[str, float]  # option -> half the width of its narrowest interval, of training steps where known
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
    """What some runs of a machine have of the comparisons of a plan that its newest environment allows."""
    measured: dict[str, float] = {}
    for run in runs:
        for row in run.matrix.every_row:
            config = row.comparison.treatment
            if config.workload == workload and config.size != TOO_SMALL and row.estimate and row.shown:
                width = row.shown.half_width
                measured[row.comparison.label] = min(width, measured.get(row.comparison.label, width))
    labels = dict.fromkeys(one.label for one in plan.comparisons if one.treatment.workload == workload)
    reasons = together((one.reason, one.label) for one in plan.no_results if one.workload == workload)
    return Extent(
        machine=machine,
        workload=workload,
        possible=tuple(labels),
        measured={name: measured[name] for name in labels if name in measured},
        reasons={reason: tuple(names) for reason, names in reasons.items()},
    )
