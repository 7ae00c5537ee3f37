"""The comparison: configurations that several environments share, side by side, and why others are not compared."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from harness.analyze.collection import Question, StoredRow, StoredRun, answered, rows_of
from harness.analyze.estimate import Contrast, Difference, contrast
from harness.analyze.grouping import together
from harness.analyze.matrix import Prices
from harness.analyze.profile import Bottleneck, Profile
from harness.analyze.quality import LEARNS_ALIKE
from harness.core.codec import document, entries
from harness.core.configuration import Configuration
from harness.core.environment import LATER, Environment
from harness.core.mistake import Mistake
from harness.core.optimization import TRAINS, Timing
from harness.core.protocol import Protocol
from harness.core.recipe import Value

# Places: where things were measured, each one environment; what differs between them.

NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a comparison: a run, or the answers of one environment."""

    letter: str  # A, B and so on: short enough to stand in every row
    runs: tuple[StoredRun, ...]  # the newest first, all of one environment
    entries: tuple[StoredRow, ...]

    @property
    def environment(self) -> Environment:
        """The machine and its software."""
        return self.runs[0].environment

    @property
    def contributed(self) -> bool:
        """Whether any of it was measured by somebody else."""
        return any(run.contributed for run in self.runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlike:
    """A fact in which columns differ, as text for each letter."""

    fact: str
    values: Mapping[str, str]


def of_runs(runs: Sequence[StoredRun]) -> tuple[Column, ...]:
    """A column for each run, in the order given; raises Mistake where there are fewer than two, or one twice."""
    if len(runs) < 2:
        raise Mistake("A comparison needs two runs; name a second, or compare --machines for all below --results.")
    for index, run in enumerate(runs):
        if any(run.name == other.name or run.matrix == other.matrix for other in runs[:index]):
            raise Mistake(f"{run.name} is named twice, or is a copy of a run that is; name two different runs.")
    # With small sizes too: somebody has asked for these runs by their names.
    return tuple(
        Column(letter=letter(index), runs=(run,), entries=tuple(rows_of(run))) for index, run in enumerate(runs)
    )


def of_machines(runs: Iterable[StoredRun]) -> tuple[Column, ...]:
    """A column for each environment, with its answers; the one with most ratios comes first.

    What somebody else measured there has a column of its own. What was emulated is compared with nothing, unless its
    run is named. Raises Mistake where all was measured in one environment. Runs are named where they gave an answer
    that is shown.
    """
    real = ((run.environment.digest, run.contributed, run) for run in runs if not run.environment.emulated)
    owned = together(((digest, contributed), run) for digest, contributed, run in real)
    found = [answers for group in owned.values() if (answers := answered(group))]
    if len(found) < 2:
        where = "in one environment alone" if found else "nowhere, or at sizes that prove nothing"
        raise Mistake(
            f"It was measured {where}; run the same workloads on another machine, or import somebody's run, to compare."
        )
    groups = sorted(found, key=_rank)
    return tuple(
        Column(letter=letter(index), runs=_runs(group), entries=tuple(group)) for index, group in enumerate(groups)
    )


def letter(index: int) -> str:
    """A to Z, then AA and so on, as spreadsheets count."""
    before, last = divmod(index, 26)
    return (letter(before - 1) if before else "") + chr(ord("A") + last)


def _rank(group: Sequence[StoredRow]) -> tuple[int, str, str, bool]:
    run, ratios = group[0].run, sum(entry.row.estimate is not None for entry in group)
    return -ratios, run.machine, run.environment.digest, run.contributed


def _runs(group: Iterable[StoredRow]) -> tuple[StoredRun, ...]:
    every = (one for entry in group for one in entry.repeats or (entry,))
    by_identity = {id(one.run): one.run for one in every}  # runs hold mappings, so they have no hash
    return tuple(sorted(by_identity.values(), key=lambda run: (run.began, run.name), reverse=True))


def unlike_environments(columns: Sequence[Column]) -> tuple[Unlike, ...]:
    """Every fact of machine and software in which any two columns differ; the digest follows from them."""
    found = {
        column.letter: {name: NONE if value is None else str(value) for name, value in column.environment.facts.items()}
        | {one.replace("_", " "): "not recorded" for one in LATER if getattr(column.environment, one) is None}
        for column in columns
    }
    return _unlike(found)


def unlike_protocols(columns: Sequence[Column]) -> tuple[Unlike, ...]:
    """Every number of the measurement in which columns differ, and the harness's version; of several runs, all."""
    found: dict[str, dict[str, str]] = {}
    for column in columns:
        values = together(
            pair
            for run in column.runs
            for pair in (("version of speedmatrix", run.version), *_numbers(run.matrix.protocol))
        )
        found[column.letter] = {name: " or ".join(dict.fromkeys(several)) for name, several in values.items()}
    return _unlike(found)


def _unlike(found: Mapping[str, Mapping[str, str]]) -> tuple[Unlike, ...]:
    names = dict.fromkeys(name for facts in found.values() for name in facts)
    table = {name: {one: facts.get(name, NONE) for one, facts in found.items()} for name in names}
    return tuple(Unlike(fact=name, values=values) for name, values in table.items() if len(set(values.values())) > 1)


def _numbers(protocol: Protocol) -> Iterator[tuple[str, str]]:
    for field in fields(protocol):
        value = getattr(protocol, field.name)
        several = value if isinstance(value, tuple) else (value,)
        yield field.name, ", ".join("none" if one is None else f"{one:g}" for one in several) or "none"


def exactly(entry: StoredRow) -> Question:
    """What an entry answers, wherever it was measured: same configurations, same timing, same data."""
    return replace(entry.question, environment="", contributed=False)


# What keeps configurations apart: other sizes, batches or data, other stacks under one name, and what one column lacks.


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How big a workload was measured in one column."""

    letter: str
    size: str
    batch: int
    data: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lonely:
    """A configuration that one column alone has, with a ratio, and what the others say of it."""

    letter: str
    label: str
    words: tuple[str, ...]  # of other columns: another stack under that name, or why it was not made there


def scales_of(columns: Sequence[Column]) -> dict[str, tuple[Scale, ...]]:
    """The sizes, batches and data of every workload that was not measured alike wherever it was measured."""
    found: dict[str, dict[Scale, None]] = defaultdict(dict)
    for column in columns:
        for question in map(exactly, column.entries):
            config = question.treatment
            scale = Scale(letter=column.letter, size=config.size, batch=config.batch, data=question.data)
            found[config.workload][scale] = None
    return {name: tuple(scales) for name, scales in found.items() if not _alike(scales)}


def _alike(scales: Iterable[Scale]) -> bool:
    first, *others = map(set, together((one.letter, replace(one, letter="")) for one in scales).values())
    return all(one == first for one in others)


def lonely_of(columns: Sequence[Column], questions: Collection[Question]) -> dict[str, tuple[Lonely, ...]]:
    """The configurations that answer those questions, which one column alone has, by workload."""
    found: dict[str, list[Lonely]] = defaultdict(list)
    for column in columns:
        for entry in column.entries:
            question = exactly(entry)
            if question in questions and entry.row.estimate:
                words = tuple(_elsewhere(entry, question, [one for one in columns if one is not column]))
                lonely = Lonely(letter=column.letter, label=entry.row.comparison.label, words=words)
                found[question.treatment.workload].append(lonely)
    return {name: tuple(several) for name, several in found.items()}


def _elsewhere(entry: StoredRow, question: Question, others: Sequence[Column]) -> Iterator[str]:
    """What other columns have in its stead: another stack under the same name, or the words of a missing result."""
    for other in others:
        for its in other.entries:
            theirs = exactly(its)
            alike = replace(theirs, treatment=question.treatment) == question
            if alike and its.row.label == entry.row.label:
                yield f"{other.letter} has {_less(theirs.treatment, question.treatment)} under that name"
        workload, labels = entry.table.config.workload, {entry.row.label, entry.row.comparison.label.partition("=")[0]}
        missing = (one for run in other.runs for one in run.matrix.no_results)
        reasons = (one.reason for one in missing if one.workload == workload and one.label in labels)
        yield from (f"{other.letter}: {reason}" for reason in dict.fromkeys(reasons))


def _less(theirs: Configuration, ours: Configuration) -> str:
    added = [str(one) for one in theirs.options if one not in ours.options]
    lacking = [f"no {one}" for one in ours.options if one not in theirs.options]
    return ", ".join((*added, *lacking))


def nothing_shared(columns: Sequence[Column], scales: Mapping[str, tuple[Scale, ...]]) -> str:
    """Why columns that share no configuration cannot be compared, and what would help."""
    workloads = [{entry.table.config.workload for entry in column.entries} for column in columns]
    common = sorted(set.intersection(*workloads)) if workloads else []
    if not common:
        said = ", ".join(
            f"{column.letter}: {' '.join(sorted(one)) or 'nothing'}"
            for column, one in zip(columns, workloads, strict=True)
        )
        return f"These runs have no workload in common ({said}); run one workload on both."
    apart = next((name for name in common if name in scales), None)
    if apart is None:
        return (
            f"These runs have no comparison in common; run {common[0]} on both with the same --design, --reference and "
            "--isolation."
        )
    where = ((one, f"{one.letter} ({one.data})" if one.data else one.letter) for one in scales[apart])
    said = ", ".join(f"{one.size} with batch {one.batch} on {on}" for one, on in where)
    return (
        f"These runs have no configuration in common: {apart} has {said}; give both the same --size, --batch and data."
    )


# Limits: what a device can do at most, as its maker says, and the share of it that a training uses.
#
# The share is the "model FLOPs utilization" of Chowdhery et al. (2022), PaLM, appendix B: the arithmetic that the
# baseline asks for, over what the device could have done in the same time. Work that a stack repeats counts nothing,
# and work that it saves counts as done.

Work = Mapping[tuple[str, str], int]  # workload and size -> operations for one sample, forward and backward


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The most operations a second of some devices: dense products of 16-bit numbers."""

    devices: tuple[str, ...]  # as their driver calls them, to the letter
    operations_per_s: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """All limits that are published, and all work that was counted."""

    limits: tuple[Limit, ...] = ()
    work: Work

    def share(self, rate: float, config: Configuration, environment: Environment) -> float | str:
        """The share of the limit at so many samples a second, or why there is none to tell."""
        if environment.accelerator is None:
            return "no limit is published of a CPU"
        limit = next((one for one in self.limits if environment.accelerator in one.devices), None)
        if limit is None:
            return f"no limit of {environment.accelerator} is known; harness/limits.toml holds those that are"
        work = self.work.get((config.workload, config.size))
        if work is None:
            return f"the work of a sample of {config.workload} at size {config.size} was not counted"
        return rate * work / limit.operations_per_s


def parse_limits(text: str, file: str) -> tuple[Limit, ...]:
    """The limits of a TOML text, tables `[[limit]]`; raises Mistake."""
    found = entries(document(text, file, {"limit"}), "limit", Limit, file)
    seen: set[str] = set()
    for limit in found:
        if not (math.isfinite(limit.operations_per_s) and limit.operations_per_s > 0 and limit.source.strip()):
            raise Mistake(f"{file} needs a limit above 0 and a source for {', '.join(limit.devices)}.")
        if twice := seen & set(limit.devices):
            raise Mistake(f"{file} names {min(twice)} twice; keep one.")
        seen |= set(limit.devices)
    return found


# Throughputs: samples a second in several columns, as shares of what their devices can do and as what they cost.
#
# Machines cannot take turns, so a quotient of two throughputs is unpaired: it has a range and never a verdict.


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotient:
    """A throughput over another column's, with the least and the most that single replicates give."""

    letter: str  # of the other column
    name: str  # of its stack
    ratio: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Samples a second of one stack in one column; the range is that of its replicates."""

    name: str
    rate: float
    low: float
    high: float
    share: float | str  # of the device's limit, or why none can be told
    cost: float | None  # of a million samples
    against: Quotient | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """What one column gives: with the reference, and with the fastest stack that surely pays and learns alike."""

    letter: str
    reference: Speed
    best: Speed | None

    @property
    def fastest(self) -> Speed:
        """The best stack, or the reference where none surely pays."""
        return self.best or self.reference


def throughputs(columns: Sequence[Column], question: Question, known: Known, prices: Prices) -> tuple[Throughput, ...]:
    """One for each column that has timed the reference of a question; the first is what the others are compared to."""
    found = [one for column in columns if (one := _throughput(column, question, known, prices)) is not None]
    return tuple(_beside(one, found[0]) for one in found)


def _throughput(column: Column, question: Question, known: Known, prices: Prices) -> Throughput | None:
    """Of the run with the best stack, else the newest that has the question's reference; None where it gave no window.

    The reference's rate is of the same run: those of two days differ by what the machine did.
    """
    entries = [one for one in column.entries if _has_reference(one, question)]
    best = _best(entries) if question.timing in TRAINS else None
    told = best or max(entries, key=lambda one: one.run.began, default=None)
    if told is None or told.table.profile is None:
        return None

    def speed(stack: str, profile: Profile) -> Speed:
        return Speed(
            name=stack,
            rate=profile.rate,
            low=min(profile.replicate_rates),
            high=max(profile.replicate_rates),
            share=_share_of_limit(profile.rate, question, told.table.name, known, column.environment),
            cost=prices.cost(profile.rate, column.environment.machine),
        )

    return Throughput(
        letter=column.letter,
        reference=speed(told.table.name, told.table.profile),
        best=speed(best.row.label, best.row.treatment) if best and best.row.treatment else None,
    )


def _share_of_limit(
    rate: float, question: Question, reference: str, known: Known, environment: Environment
) -> float | str:
    if question.timing not in TRAINS:
        return "a share of the limit is told of training alone"
    if question.reference.options and reference != "original":  # another model may be among them
        return f"the work of a sample was counted for the baseline training, not for {reference}"
    if question.data:  # of other classes, or of another shape
        return "the work of a sample was counted on the suite's own data"
    return known.share(rate, question.reference, environment)


def _beside(one: Throughput, first: Throughput) -> Throughput:
    if one is first:
        return one
    best = replace(one.best, against=_quotient(one.best, first.fastest, first.letter)) if one.best else None
    reference = replace(one.reference, against=_quotient(one.reference, first.reference, first.letter))
    return replace(one, reference=reference, best=best)


def _quotient(ours: Speed, theirs: Speed, letter: str) -> Quotient:
    return Quotient(
        letter=letter,
        name=theirs.name,
        ratio=ours.rate / theirs.rate,
        low=ours.low / theirs.high,
        high=ours.high / theirs.low,
    )


def _has_reference(entry: StoredRow, question: Question) -> bool:
    theirs = exactly(entry)
    return (theirs.reference, theirs.timing, theirs.data) == (question.reference, question.timing, question.data)


def _best(entries: Sequence[StoredRow]) -> StoredRow | None:
    """By the lower bound, so that of many stacks not the luckiest wins."""
    alike = ((one, one.row.estimate) for one in entries if one.row.quality and one.row.quality.status in LEARNS_ALIKE)
    sure = [(estimate.low, one) for one, estimate in alike if estimate and estimate.verdict.gains]
    return max(sure, key=lambda one: one[0], default=(0.0, None))[1]


Setting = tuple[Value, Value]  # there and here


@dataclass(frozen=True, slots=True, kw_only=True)
class Against:
    """What one column says of a configuration beside another: the contrast, and what else differs between the two."""

    letter: str  # of the other column
    contrast: Contrast
    bottlenecks: tuple[Bottleneck | None, ...]  # of the reference, there and here
    settings: Mapping[str, Setting]  # seen in the treatment on both, and not alike

    @property
    def moved(self) -> bool:
        """Whether clearly another stage holds the reference back."""
        there, here = self.bottlenecks
        return there is not None and here is not None and not {*there.stages} & {*here.stages}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A configuration in one column."""

    letter: str
    entry: StoredRow
    against: Against | None  # None in the first column that has a ratio, and where there is none

    @property
    def word(self) -> str:
        """Its verdict, or why there is none."""
        return str(self.entry.row.estimate.verdict) if self.entry.row.estimate else "no ratio"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """A configuration that two columns have, at least."""

    question: Question
    label: str
    found: tuple[Found, ...]  # in the order of the columns

    @property
    def contrasts(self) -> tuple[Contrast, ...]:
        """All that is said of it beside the first column."""
        return tuple(one.against.contrast for one in self.found if one.against)

    @property
    def differs(self) -> bool:
        """Whether it surely pays more or less somewhere."""
        return any(one.differs for one in self.contrasts)

    @property
    def disagrees(self) -> bool:
        """Whether columns that decide it decide differently: faster here, slower or without effect there."""
        known = (one.entry.row.estimate.verdict for one in self.found if one.entry.row.estimate)
        return len({one for one in known if not one.is_open}) > 1

    @property
    def difference(self) -> Difference | None:
        """The most that can be said of it in one word; None where fewer than two columns have a ratio."""
        order = (Difference.MORE, Difference.LESS, Difference.UNDECIDED, Difference.ALIKE)
        return min((one.difference for one in self.contrasts), key=order.index, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Configurations with one reference and one timing on the same data, those that differ most first."""

    config: Configuration  # the reference
    name: str
    timing: Timing
    data: str
    configs: tuple[Shared, ...]
    throughputs: tuple[Throughput, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineComparison:
    """Places, what differs between them, the configurations that they share and those that they do not."""

    columns: tuple[Column, ...]
    environments: tuple[Unlike, ...]
    protocols: tuple[Unlike, ...]
    groups: tuple[Group, ...]
    scales: Mapping[str, tuple[Scale, ...]]  # of workloads that were not measured alike
    lonely: Mapping[str, tuple[Lonely, ...]]  # by workload
    currency: str

    @property
    def measured(self) -> Mapping[str, frozenset[str]]:
        """The workloads of each column, by its letter."""
        return {
            column.letter: frozenset(entry.table.config.workload for entry in column.entries) for column in self.columns
        }

    @property
    def configs(self) -> tuple[Shared, ...]:
        """All configurations that are shared."""
        return tuple(config for group in self.groups for config in group.configs)


def compare(columns: Sequence[Column], known: Known, prices: Prices) -> MachineComparison:
    """Everything that can be said of columns beside each other; raises Mistake where they share no configuration."""
    by_question = together((exactly(entry), (column, entry)) for column in columns for entry in column.entries)
    shared = [_shared(question, found) for question, found in by_question.items() if len(found) > 1]
    scales = scales_of(columns)
    if not shared:
        raise Mistake(nothing_shared(columns, scales))
    return MachineComparison(
        columns=tuple(columns),
        environments=unlike_environments(columns),
        protocols=unlike_protocols(columns),
        groups=tuple(_groups(columns, shared, known, prices)),
        scales=scales,
        lonely=lonely_of(columns, {question for question, found in by_question.items() if len(found) == 1}),
        currency=prices.currency,
    )


def _shared(question: Question, found: Sequence[tuple[Column, StoredRow]]) -> Shared:
    first = next(((column, entry) for column, entry in found if entry.row.estimate), None)
    return Shared(
        question=question,
        label=found[0][1].row.label,
        found=tuple(
            Found(letter=column.letter, entry=entry, against=_against(entry, *first) if first else None)
            for column, entry in found
        ),
    )


def _against(entry: StoredRow, column: Column, first: StoredRow) -> Against | None:
    here, there = entry.row.estimate, first.row.estimate
    if entry is first or here is None or there is None:
        return None
    both = first, entry
    theirs, ours = (one.row.treatment.facts if one.row.treatment else {} for one in both)
    return Against(
        letter=column.letter,
        contrast=contrast(here, there),
        bottlenecks=tuple(one.table.profile.bottleneck if one.table.profile else None for one in both),
        settings={
            name: (theirs[name], ours[name])
            for name in sorted(theirs.keys() & ours.keys())
            if theirs[name] != ours[name]
        },
    )


def _groups(columns: Sequence[Column], shared: Sequence[Shared], known: Known, prices: Prices) -> Iterator[Group]:
    asked = ((config.question, config) for config in shared)
    by_reference = together(((its.reference, its.timing, its.data), config) for its, config in asked)
    for (reference, timing, data), configs in by_reference.items():
        yield Group(
            config=reference,
            name=configs[0].found[0].entry.table.name,
            timing=timing,
            data=data,
            configs=tuple(sorted(configs, key=_weight)),
            throughputs=throughputs(columns, configs[0].question, known, prices),
        )


def _weight(config: Shared) -> tuple[bool, bool, float]:
    """What surely differs comes first, before all where verdicts disagree, and then the largest difference."""
    # How far from 1 a ratio is for certain: the bound that is nearer to 1, as a factor.
    certain = (max(one.low, 1 / one.high if one.high else 0.0) for one in config.contrasts)
    return not config.differs, not config.disagrees, -max(certain, default=-1.0)
