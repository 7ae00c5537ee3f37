"""Isolation: comparisons that one run measured both ways, with arms that share a process and with isolated ones."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from harness.analyze.estimate import ALIKE, Contrast, Estimate, contrast, results
from harness.analyze.evidence import gather
from harness.analyze.verdict import UNCALIBRATED, Thresholds
from harness.core.catalogue import Apart
from harness.core.configuration import Comparison, Configuration
from harness.core.environment import Environment
from harness.core.optimization import Timing
from harness.core.plan import Plan
from harness.core.records import Record


class Agreement(StrEnum):
    """One word for what two ways to measure a ratio say of each other."""

    AGREE = "agree"  # the interval of their quotient holds 1 and lies within 2.5 % of it
    DISAGREE = "disagree"  # it does not hold 1
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class BothWays:
    """A comparison with the ratio of arms that share a process and that of isolated ones."""

    environment: Environment
    comparison: Comparison
    shared: Estimate
    isolated: Estimate

    @property
    def quotient(self) -> Contrast:
        """The shared ratio over the isolated one."""
        return contrast(self.shared, self.isolated)

    @property
    def agreement(self) -> Agreement:
        """Whether the quotient's interval holds 1, and how near to it that lies."""
        found = self.quotient
        if not found.low <= 1 <= found.high:
            return Agreement.DISAGREE
        near = found.low >= 1 / ALIKE and found.high <= ALIKE
        return Agreement.AGREE if near else Agreement.UNDECIDED


Asked = tuple[Configuration, Configuration, Timing]  # treatment, reference, and what is timed


def both_ways(
    plan: Plan, records: Iterable[Record], environment: Environment, thresholds: Thresholds = UNCALIBRATED
) -> Iterator[BothWays]:
    """Every comparison of a run that has a ratio in both ways, in the order of the plan."""
    gathered = tuple(gather(plan, records))
    known: dict[Asked, dict[bool, Estimate]] = {}
    first: dict[Asked, Comparison] = {}
    for evidence, found in zip(gathered, results(gathered, plan.protocol, thresholds), strict=True):
        one = evidence.comparison
        question = one.treatment, one.reference, one.timing
        if isinstance(found, Estimate):
            known.setdefault(question, {})[evidence.shared] = found
            first.setdefault(question, one)
    for question, ways in known.items():
        if len(ways) == 2:
            yield BothWays(environment=environment, comparison=first[question], shared=ways[True], isolated=ways[False])


def apart_of(found: Iterable[BothWays]) -> tuple[Apart, ...]:
    """The options that need processes of their own by what was measured; each once, with where it showed first."""
    named: dict[tuple[str, tuple[str, ...]], Apart] = {}
    for one in found:
        if one.agreement is Agreement.DISAGREE and one.comparison.differing:
            where = f"{one.comparison.reference.workload}@{one.comparison.reference.size}, {one.environment.machine}"
            reason = f"measured {one.shared.ratio:.2f}x in a shared process and {one.isolated.ratio:.2f}x isolated"
            key = one.environment.device, one.comparison.differing
            named.setdefault(key, Apart(device=key[0], names=key[1], reason=f"{reason} ({where})"))
    return tuple(named[key] for key in sorted(named))
