"""The matrix: rows of estimates, each beside its causes and costs; what has no estimate has words."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.analyze.absence import Absence
from harness.analyze.calibrating import calibrate
from harness.analyze.calibration import DESIGN, Calibration
from harness.analyze.estimate import Estimate
from harness.analyze.evidence import Evidence, gather, merged
from harness.analyze.notes import notes
from harness.analyze.pool import energies, results
from harness.analyze.profile import Profile, profile
from harness.analyze.quality import Quality
from harness.analyze.soundness import remarks
from harness.analyze.terms import UNCALIBRATED as ON_NO_TERMS
from harness.core.cell import Cell, Comparison
from harness.core.environment import Environment
from harness.core.measurement import Record
from harness.core.optimization import Timing
from harness.core.plan import Hole, Plan
from harness.core.protocol import Protocol

UNCALIBRATED = "A/A noise floor not calibrated on this machine (./speedmatrix calibrate does it)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One comparison: an estimate, or the words in its place, and what both arms showed."""

    comparison: Comparison
    reference_name: str
    result: Estimate | Absence
    quality: Quality | None
    treatment: Profile | None
    reference: Profile | None
    notes: tuple[str, ...]
    energy: Estimate | None = None  # samples a joule over the reference's, where the device counts what it takes

    @property
    def estimate(self) -> Estimate | None:
        """The estimate, where there is one."""
        return self.result if isinstance(self.result, Estimate) else None

    @property
    def absence(self) -> Absence | None:
        """The words in its place, where there is none."""
        return self.result if isinstance(self.result, Absence) else None

    @property
    def subject(self) -> str:
        """What the matrix calls it; repetitions are numbered."""
        return self.comparison.subject + (f" ({self.comparison.copy + 1})" if self.comparison.copy else "")

    @property
    def loader_ratio(self) -> float | None:
        """The treatment's loader ceiling over the reference's."""
        ours, theirs = (arm.loader_rate if arm else None for arm in (self.treatment, self.reference))
        return ours / theirs if ours and theirs else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows with one reference and one timing, the fastest first and those without an estimate last."""

    cell: Cell  # the reference
    name: str  # the reference's
    timing: Timing
    rows: tuple[Row, ...]
    profile: Profile | None  # the reference's, over all its blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """All tables of a run, the holes beside them and the facts that every number depends on."""

    environment: Environment
    protocol: Protocol
    design: str
    seed: int
    noise: str
    data: Mapping[str, str]  # workload -> what its real data are
    tables: tuple[Table, ...]
    holes: tuple[Hole, ...]

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows of all tables."""
        return tuple(row for table in self.tables for row in table.rows)

    @property
    def looked_at(self) -> int:
        """How many cells have an estimate: whoever looks at many finds some by luck."""
        return sum(row.estimate is not None for row in self.rows)


def build_matrix(
    plan: Plan,
    records: Iterable[Record],
    environment: Environment,
    calibration: Calibration | None = None,
) -> Matrix:
    """The matrix of a run, finished or not; raises Mistake where a switch has no promise in the plan.

    `calibration` is that of its machine. A run that calibrates is told by itself and judged on nobody's terms: what it
    shows decides the terms of others.
    """
    records = tuple(records)
    gathered = list(gather(plan, records))
    terms = calibration.terms if calibration and plan.design != DESIGN else ON_NO_TERMS
    told = calibrate(plan, records) if plan.design == DESIGN else calibration
    names = {one.reference: plan.names.get(str(one.reference), _stack(one.reference)) for one in plan.comparisons}
    by_table: dict[tuple[Cell, Timing], list[_Found]] = defaultdict(list)
    rates = results(gathered, plan.protocol, terms)
    savings = energies(gathered, plan.protocol, terms)
    for evidence, result, energy in zip(gathered, rates, savings, strict=True):
        by_table[evidence.comparison.reference, evidence.comparison.timing].append((evidence, result, energy))
    return Matrix(
        environment=environment,
        protocol=plan.protocol,
        design=plan.design,
        seed=plan.seed,
        noise=told.sentence if told else UNCALIBRATED,
        data=plan.data,
        tables=tuple(_table(names, entries, plan.protocol) for entries in by_table.values()),
        holes=plan.holes,
    )


_Found = tuple[Evidence, Estimate | Absence, Estimate | None]  # the last of energy


def _stack(cell: Cell) -> str:
    return "+".join(str(switch) for switch in cell.switches) or "plain"


def _table(names: Mapping[Cell, str], entries: Sequence[_Found], protocol: Protocol) -> Table:
    comparison = entries[0][0].comparison
    name = names[comparison.reference]
    rows = (replace(_row(evidence, result, name, protocol), energy=energy) for evidence, result, energy in entries)
    return Table(
        cell=comparison.reference,
        name=name,
        timing=comparison.timing,
        rows=tuple(sorted(rows, key=lambda row: row.estimate.ratio if row.estimate else 0.0, reverse=True)),
        profile=profile(merged(evidence.reference for evidence, _, _ in entries)),
    )


def _row(evidence: Evidence, result: Estimate | Absence, reference_name: str, protocol: Protocol) -> Row:
    quality = evidence.quality
    treatment, reference = profile(evidence.treatment), profile(evidence.reference)
    return Row(
        comparison=evidence.comparison,
        reference_name=reference_name,
        result=result,
        quality=quality,
        treatment=treatment,
        reference=reference,
        notes=(
            *evidence.treatment.pointless,
            *notes(result, quality, (treatment, reference), protocol),
            *remarks(evidence),
        )
        if isinstance(result, Estimate)
        else (),
    )
