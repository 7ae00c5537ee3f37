"""Subjects of pages: an optimization, what is claimed of it, and the rows of all runs that are about it."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from harness.analyze.absence import Outcome
from harness.analyze.claims import Account, Finding
from harness.analyze.estimate import Estimate
from harness.analyze.matrix import Row
from harness.analyze.verdict import Verdict
from harness.core.cell import parse_switch
from harness.core.claim import Claim
from harness.core.optimization import Optimization

MOST = 3  # rows for each machine, workload, level and timing: the newest


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One row of a run, and where the run is kept."""

    machine: str
    run: str  # the name of its folder, which begins with the day: 20261120T212407-478beb59
    link: str  # to that folder, relative to the pages
    data: str  # what the workload's real data are, in words; empty for the suite's own
    row: Row

    @property
    def level(self) -> str | None:
        """The level that was measured, where there are levels."""
        level = parse_switch(self.row.comparison.subject).level
        return None if level is None else str(level)

    @property
    def day(self) -> str:
        """The day of the run in UTC: `2026-11-20`."""
        return f"{self.run[:4]}-{self.run[4:6]}-{self.run[6:8]}"

    @property
    def tells(self) -> bool:
        """Whether there is a ratio, or words for more than that nobody has come to it."""
        absence = self.row.absence
        return absence is None or absence.outcome is not Outcome.NOT_MEASURED


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A claim, and what each machine's runs say of it."""

    claim: Claim
    findings: tuple[tuple[str, Finding], ...]  # machine and finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An optimization with all that is known of it; the newest run comes first."""

    optimization: Optimization
    claims: tuple[Judged, ...]
    measured: tuple[Measured, ...]

    @property
    def name(self) -> str:
        """The optimization's name."""
        return self.optimization.name

    @property
    def newest(self) -> tuple[Measured, ...]:
        """The first few rows of each machine, workload, level and timing."""
        seen: Counter[tuple[object, ...]] = Counter()
        shown = []
        for one in self.measured:
            comparison = one.row.comparison
            question = one.machine, comparison.reference.workload, one.level, comparison.timing
            seen[question] += 1
            if seen[question] <= MOST:
                shown.append(one)
        return tuple(shown)

    @property
    def decided(self) -> tuple[tuple[Measured, Estimate], ...]:
        """The newest ratio of each pair of cells on each machine, timed on what it acts on, where it has a verdict."""
        latest: dict[tuple[object, ...], tuple[Measured, Estimate]] = {}
        for one in self.measured:
            comparison, estimate = one.row.comparison, one.row.estimate
            if estimate and comparison.timing is self.optimization.timed_on:
                pair = one.machine, one.data, comparison.treatment, comparison.reference
                latest.setdefault(pair, (one, estimate))
        return tuple(found for found in latest.values() if found[1].verdict is not Verdict.UNDECIDED)


def judged(claims: Iterable[Claim], accounts: Iterable[Account]) -> tuple[Judged, ...]:
    """Every claim with its findings on all machines."""
    found: dict[str, list[tuple[str, Finding]]] = defaultdict(list)
    for account in accounts:
        for finding in account.findings:
            found[finding.claim.name].append((account.machine, finding))
    return tuple(Judged(claim=claim, findings=tuple(found[claim.name])) for claim in claims)


def subject(optimization: Optimization, claims: Iterable[Judged], measured: Iterable[Measured]) -> Subject:
    """What there is about one optimization among all claims and all rows."""
    name = optimization.name
    own = [one for one in measured if parse_switch(one.row.comparison.subject).name == name and one.tells]
    return Subject(
        optimization=optimization,
        claims=tuple(one for one in claims if name in one.claim.differing),
        measured=tuple(sorted(own, key=lambda one: one.run, reverse=True)),
    )
