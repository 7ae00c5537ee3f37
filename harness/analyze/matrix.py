"""The matrix: rows of estimates, each beside its causes and costs; what has no estimate has words."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

from harness.analyze.calibration import DESIGN, Calibration, calibrate
from harness.analyze.composition import Composed, Known, known_parts
from harness.analyze.estimate import OF_TABLE, Estimate, energies, looked_up, results
from harness.analyze.evidence import Evidence, gather, merged
from harness.analyze.grouping import together
from harness.analyze.profile import Profile, profile
from harness.analyze.quality import LEARNS_ALIKE, Quality
from harness.analyze.soundness import Absence, remarks
from harness.analyze.verdict import Thresholds
from harness.core.codec import document, entries
from harness.core.configuration import Comparison, Configuration, changes_batch
from harness.core.environment import Environment
from harness.core.mistake import Mistake
from harness.core.optimization import Timing
from harness.core.plan import STAGES, NoResult, Plan
from harness.core.protocol import Protocol
from harness.core.records import Record, Spent, Window

# Notes: what a reader must know beside an estimate before trusting it.

Arms = tuple[Profile | None, Profile | None]  # the treatment, the reference


def notes(estimate: Estimate, quality: Quality | None, arms: Arms, protocol: Protocol) -> Iterator[str]:
    """The sentences that belong to one estimate; none is good news."""
    yield from _of_the_machine(estimate)
    if estimate.runs > 1:
        apart = (
            f", which disagree: {estimate.scale:.1f} times as far apart as their intervals explain"
            if estimate.apart
            else ""
        )
        yield f"average of {estimate.runs} runs{apart}"
    if estimate.outlying:
        yield "its replicates disagree more than those of its neighbours: add replicates"
    yield from _of_the_windows(estimate)
    yield from _of_the_tails(estimate, arms)
    if estimate.in_turn:
        yield (
            f"replicates in turn: memory seemed too small for both arms at once, so in {estimate.in_turn} of them one "
            "was timed after the other, and what the machine did between them is in its ratio"
        )
    if estimate.shared:
        yield "shared process: no memory figure"
    if sentence := _still_wide(estimate, protocol):
        yield sentence
    if estimate.spoilt:
        yield f"replicates left out, since most of their windows were disturbed from outside: {estimate.spoilt}"
    if estimate.runs == 1 and estimate.processes + estimate.spoilt < protocol.replicates:
        yield f"{estimate.processes} of {protocol.replicates} replicates so far"
    if any(arm is not None and not arm.steady for arm in arms):
        yield "not settled when its warm-up ended"
    if quality is not None and quality.status not in LEARNS_ALIKE:
        yield f"quality {quality.status}: {quality.sentence}"


def _of_the_machine(estimate: Estimate) -> Iterator[str]:
    if estimate.disturbance:
        yield f"the machine was too disturbed: {estimate.disturbance}"
    if estimate.device is not None:
        yield from (one for one in estimate.device.remarks() if one != estimate.disturbance)
    if estimate.looked_up:
        yield f"no verdict: {OF_TABLE}"
    if estimate.withheld:
        yield _unproven(estimate)


def _of_the_windows(estimate: Estimate) -> Iterator[str]:
    if estimate.left_out:
        reasons = ", ".join(f"{reason} ({count})" for reason, count in estimate.left_out)
        count = sum(count for _, count in estimate.left_out)
        yield f"windows left out: {count} of {estimate.windows}, {reasons}"
    if estimate.sensitive:
        yield (
            f"a few windows carry much of the total time: a mean that leaves out the extreme ones would say "
            f"{estimate.trimmed_ratio:.2f}x"
        )


def _of_the_tails(estimate: Estimate, arms: Arms) -> Iterator[str]:
    """What the slowest steps of the reference take, then those of the treatment."""
    treatment, reference = arms
    for found, arm, whose in zip(estimate.tails, (reference, treatment), ("the reference's", "its"), strict=True):
        if found is not None and found.matters(_workers(arm)):
            yield found.sentence(whose)


def _workers(arm: Profile | None) -> int:
    """Loader workers that its options ask for."""
    levels = [one.level for one in arm.config.options if one.name == "workers"] if arm else []
    return max((one for one in levels if isinstance(one, int)), default=0)


def no_verdict(estimate: Estimate) -> str | None:
    """Why a ratio has no verdict whatever its interval is, the gravest reason first; None where nothing forbids one."""
    if estimate.disturbance:
        return f"the machine was too disturbed: {estimate.disturbance}"
    if estimate.looked_up:
        return f"no verdict: {OF_TABLE}"
    return _unproven(estimate) if estimate.withheld else None


def _unproven(estimate: Estimate) -> str:
    """What is said of an interval that would be a verdict on a machine which finds smaller effects."""
    if math.isinf(estimate.thresholds.margin):
        return "no verdict: calibrated, this machine found none of the delays that were put in"
    return f"no verdict: calibrated, this machine found no delay below {100 * estimate.thresholds.margin:.0f} %"


def _still_wide(estimate: Estimate, protocol: Protocol) -> str | None:
    """What is said of an interval that has not come down to the target."""
    half_width = estimate.half_width
    if protocol.target is None or half_width <= protocol.target:
        return None
    width = f"±{100 * math.expm1(half_width):.1f} %" if half_width < 1 else "no useful bounds"
    seen = f"{width}, target ±{100 * protocol.target:.3g} %"
    if estimate.runs > 1:
        return seen
    return f"{seen}: no more replicates are planned" if estimate.processes >= protocol.most_replicates else seen


# Costs: what a million samples cost where the price of an hour is known.

SECONDS_PER_HOUR, SAMPLES = 3_600, 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What an hour of a machine costs."""

    machine: str  # its neutral name, as its folder of results is called
    per_hour: float
    source: str  # where the price was read, and when


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Prices in one currency."""

    currency: str
    by_machine: Mapping[str, Price]

    def cost(self, rate: float, machine: str) -> float | None:
        """Of a million samples at so many a second; None where the machine has no price."""
        price = self.by_machine.get(machine)
        return price.per_hour / SECONDS_PER_HOUR * SAMPLES / rate if price else None


NO_PRICES = Prices(currency="", by_machine={})


def parse_prices(text: str, file: str) -> Prices:
    """The prices of a TOML text: `currency` and tables `[[price]]`; raises Mistake that names the file."""
    found = document(text, file, {"currency", "price"})
    prices, currency = entries(found, "price", Price, file), found.get("currency", "")
    if not isinstance(currency, str) or (prices and not currency.strip()):
        raise Mistake(f'{file} names no currency; add a line such as currency = "USD".')
    by_machine: dict[str, Price] = {}
    for price in prices:
        if not math.isfinite(price.per_hour) or price.per_hour <= 0:
            raise Mistake(f"{file} has no price above 0 for {price.machine}; put the price of an hour there.")
        if not price.source.strip():
            raise Mistake(f"{file} has a price of {price.machine} without a source; say where it was read, and when.")
        if price.machine in by_machine:
            raise Mistake(f"{file} has two prices of {price.machine}; keep one.")
        by_machine[price.machine] = price
    return Prices(currency=currency, by_machine=by_machine)


UNCALIBRATED = "Not calibrated on this machine: faster means that the interval is above 1.01 (./speedmatrix calibrate)"


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
    remarks: tuple[str, ...] = ()  # those of its notes that settings and windows give, whatever the ratio
    energy: Estimate | None = None  # samples a joule over the reference's, where the device counts what it takes
    on_steps: Composed | None = None  # what the ratio of a part comes to on whole steps, in a run of `stages`
    block: str = ""  # of the plan, whose comparisons share the luck of their reference; empty where nothing was timed

    @property
    def estimate(self) -> Estimate | None:
        """The estimate, where there is one."""
        return self.result if isinstance(self.result, Estimate) else None

    @property
    def shown(self) -> Estimate | Composed | None:
        """What a reader sees first: what a part comes to on whole steps where that is known, else what was timed."""
        return self.on_steps or self.estimate

    @property
    def absence(self) -> Absence | None:
        """The words in its place, where there is none."""
        return self.result if isinstance(self.result, Absence) else None

    @property
    def label(self) -> str:
        """What the matrix calls it; repetitions are numbered."""
        return self.comparison.label + (f" ({self.comparison.copy + 1})" if self.comparison.copy else "")

    @property
    def loader_ratio(self) -> float | None:
        """The treatment's loader upper bound over the reference's."""
        ours, theirs = (arm.loader_rate if arm else None for arm in (self.treatment, self.reference))
        return ours / theirs if ours and theirs else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows with one reference and one timing, the fastest first and those without an estimate last."""

    config: Configuration  # the reference
    name: str  # the reference's
    timing: Timing
    rows: tuple[Row, ...]
    profile: Profile | None  # the reference's, over all its blocks
    emulated: str = ""  # `emulated A100`; empty where the device was real


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """All tables of a run, the missing results beside them and the facts that every number depends on."""

    environment: Environment
    protocol: Protocol
    design: str
    seed: int
    noise: str
    data: Mapping[str, str]  # workload -> what its real data are
    tables: tuple[Table, ...]
    no_results: tuple[NoResult, ...]
    spent_s: Mapping[str, float] = field(default_factory=dict)  # by the fields of Spent; `kernels_s` of the windows'
    own_counts: tuple[int, int] | None = None  # replicates and rounds of whole steps, where they are not the protocol's
    batch_tables: tuple[Table, ...] = ()  # of comparisons of two batches, which are no answers about optimizations
    epochs: Mapping[str, int] = field(default_factory=dict)  # workload -> samples in an epoch of the real system
    trainings: Mapping[str, int] = field(default_factory=dict)  # and its epochs in all
    contributed: bool = False  # its run was measured by somebody else and taken in

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows of all tables but those of other batches."""
        return tuple(row for table in self.tables for row in table.rows)

    @property
    def every_row(self) -> tuple[Row, ...]:
        """All rows, those of other batches last."""
        return (*self.rows, *(row for table in self.batch_tables for row in table.rows))

    @property
    def answers(self) -> tuple[Row, ...]:
        """All rows but the parts of what was timed on whole steps too, which say how much of a part's gain arrives."""
        whole = {row.comparison.treatment for row in self.rows if row.comparison.timing is Timing.STEP and row.estimate}
        return tuple(row for row in self.rows if not (row.on_steps and row.comparison.treatment in whole))

    @property
    def copies(self) -> tuple[Estimate, ...]:
        """The ratios of the references against themselves, where they were measured."""
        same = (row for row in self.rows if row.comparison.is_copy)
        return tuple(row.estimate for row in same if row.estimate and not row.estimate.looked_up)

    @property
    def workloads(self) -> tuple[str, ...]:
        """All workloads in order, those that have nothing but missing results too."""
        tables = (*self.tables, *self.batch_tables)
        named = (*(one.config.workload for one in tables), *(one.workload for one in self.no_results))
        return tuple(dict.fromkeys(named))

    @property
    def looked_at(self) -> int:
        """How many configurations have an estimate: whoever looks at many finds some by luck."""
        return sum(row.estimate is not None for row in self.every_row)


def build_matrix(
    plan: Plan,
    records: Iterable[Record],
    environment: Environment,
    calibration: Calibration | None = None,
) -> Matrix:
    """The matrix of a run, finished or not; raises Mistake where an option has no promise in the plan.

    `calibration` is that of its machine. A run that calibrates is told by itself and judged by the usual thresholds:
    what it shows decides those of others.
    """
    records = tuple(records)
    gathered = list(gather(plan, records))
    thresholds = calibration.thresholds if calibration and plan.design != DESIGN else Thresholds()
    told = calibrate(plan, records) if plan.design == DESIGN else calibration
    references = {one.reference for one in plan.comparisons}
    names = {one: plan.names.get(str(one), one.stack or "baseline") for one in references}
    rates = results(gathered, plan.protocol, thresholds)
    if environment.emulated:
        rates = [looked_up(one, rate) for one, rate in zip(gathered, rates, strict=True)]
    savings = energies(gathered, plan.protocol, thresholds)
    protocols = [
        replace(plan.protocol, replicates=block.replicates_in(plan.protocol))
        for block in plan.blocks
        for _ in block.comparisons
    ]
    made = list(zip(gathered, rates, savings, protocols, strict=True))
    known = known_parts(list(zip(gathered, rates, strict=True)), environment) if plan.design == STAGES else {}

    def tables(found: Iterable[_Found]) -> tuple[Table, ...]:
        by_table = together(((one[0].comparison.reference, one[0].comparison.timing), one) for one in found)
        made = (_table(names, one, known) for one in by_table.values())
        return tuple(replace(one, emulated=environment.emulation) for one in made)

    return Matrix(
        environment=environment,
        protocol=plan.protocol,
        design=plan.design,
        seed=plan.seed,
        noise=told.sentence if told else UNCALIBRATED,
        data=plan.data,
        epochs=plan.epochs,
        trainings=plan.trainings,
        tables=tables(one for one in made if not changes_batch(one[0].comparison)),
        batch_tables=tables(one for one in made if changes_batch(one[0].comparison)),
        no_results=plan.no_results,
        spent_s=spent_by(records),
        own_counts=plan.own_counts,
    )


def spent_by(records: Iterable[Record]) -> dict[str, float]:
    """Seconds of all attempts by what they went to, and how many of them kernels took where a device told."""
    records = tuple(records)
    names = [one.name for one in fields(Spent) if one.name != "arm"]
    found = {name: sum(getattr(one, name) for one in records if isinstance(one, Spent)) for name in names}
    device_s = [one.device_s for one in records if isinstance(one, Window) and one.device_s is not None]
    if not any(found.values()):
        return {}
    return found | ({"kernels_s": sum(device_s)} if device_s else {})


# A comparison, its ratio, its ratio of energy, and the protocol with the replicates of its block.
_Found = tuple[Evidence, Estimate | Absence, Estimate | None, Protocol]


def _table(names: Mapping[Configuration, str], entries: Sequence[_Found], known: Known) -> Table:
    comparison = entries[0][0].comparison
    name = names[comparison.reference]
    part = known.get((comparison.reference, comparison.timing))
    rows = [
        replace(_row(evidence, result, name, protocol), energy=energy) for evidence, result, energy, protocol in entries
    ]
    if part:
        rows = [
            replace(
                row,
                on_steps=part.on_steps(row.estimate),
                notes=(*row.notes, *part.notes),
                remarks=(*row.remarks, *part.notes),  # an average has them too
            )
            if row.estimate
            else row
            for row in rows
        ]
    return Table(
        config=comparison.reference,
        name=name,
        timing=comparison.timing,
        rows=tuple(sorted(rows, key=lambda row: row.estimate.ratio if row.estimate else 0.0, reverse=True)),
        profile=profile(merged(evidence.reference for evidence, *_ in entries)),
    )


def _row(evidence: Evidence, result: Estimate | Absence, reference_name: str, protocol: Protocol) -> Row:
    quality, known = evidence.quality, isinstance(result, Estimate)
    treatment, reference = profile(evidence.treatment), profile(evidence.reference)
    pointless, seen = evidence.treatment.pointless, tuple(remarks(evidence)) if known else ()
    return Row(
        comparison=evidence.comparison,
        reference_name=reference_name,
        result=result,
        quality=quality,
        treatment=treatment,
        reference=reference,
        notes=(*pointless, *notes(result, quality, (treatment, reference), protocol), *seen)
        if isinstance(result, Estimate)
        else (),
        remarks=(*pointless, *seen) if known else (),
        block=next((one.arm.block for one in evidence.windows), ""),
    )
