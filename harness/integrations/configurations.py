"""Configurations for other tools: one run of the harness for each workload, read back as samples.

The tools have clocks of their own, which know no pairs, no replicates and no active settings; so they are given what
the harness measured, and never time anything again.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Protocol

from harness.analyze.collection import StoredRun
from harness.analyze.estimate import OF_TABLE, Estimate, contrast
from harness.analyze.evidence import Evidence, gather
from harness.analyze.grouping import together
from harness.analyze.matrix import Row
from harness.analyze.soundness import Absence, Outcome
from harness.core.codec import Malformed, decode, encode, stored
from harness.core.configuration import Comparison
from harness.core.environment import Environment
from harness.core.mistake import Mistake
from harness.core.optimization import Timing
from harness.core.plan import Block, Plan, Request
from harness.core.protocol import FEWEST_REPLICATES
from harness.core.records import Window
from harness.plan.cost import Pace, replicate_s
from harness.plan.planning import PROBES, SMALLEST_POOL
from harness.report.matrix import COMPOSED, TIMED
from harness.report.words import called, interval, one_line, ratio
from harness.results import read_kept
from harness.run.preparation import prepared, seconds_of
from harness.store import read_records, read_run


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """One comparison as other tools want it. Seconds for each optimizer step; relative times below 1 are gains."""

    row: Row
    reference_s: tuple[float, ...]  # of each window
    treatment_s: tuple[float, ...]
    # The treatment's time over the reference's: the interval's low end, the ratio of totals that reports show, and the
    # high end. Tools show the median of samples, and a median of pairs would not see a rare stall.
    relative: tuple[float, ...]


def samples(folder: Path) -> Iterator[Samples]:
    """Every comparison of a run that was made at all; samples are empty where there is no ratio."""
    kept: StoredRun = read_kept(folder)
    rows = {row.comparison: row for row in kept.matrix.every_row}
    for evidence in gather(read_run(folder).plan, read_records(folder)):
        yield _samples(rows[evidence.comparison], evidence)


def _samples(row: Row, evidence: Evidence) -> Samples:
    if row.estimate is None:
        return Samples(row=row, reference_s=(), treatment_s=(), relative=())
    return Samples(
        row=row,
        reference_s=_step_times(evidence.reference.windows),
        treatment_s=_step_times(evidence.treatment.windows),
        relative=_relative(row.estimate),
    )


def _relative(estimate: Estimate) -> tuple[float, ...]:
    """The ratio alone where its interval has no end."""
    if not estimate.low or math.isinf(estimate.high):
        return (1 / estimate.ratio,)
    return 1 / estimate.high, 1 / estimate.ratio, 1 / estimate.low


def _step_times(windows: Sequence[Window]) -> tuple[float, ...]:
    return tuple(window.wall_s / window.steps for window in windows)


def no_results(folder: Path) -> dict[str, str]:
    """The words for what could not be compared: of comparisons without a ratio, and of those never made."""
    kept = read_kept(folder)
    absent = {row.label: row.absence.words for row in kept.matrix.every_row if row.absence is not None}
    return {no_result.label: no_result.reason for no_result in kept.matrix.no_results} | absent


# Listing: the comparisons that a front end shows, known from the plan before anything is measured, and without torch.


STACKS = ("all", "original")  # subjects that stand for several options
ITS_COPY = "itself"  # of a reference that is hidden among its treatments


BUDGET = "5m20s"  # for all workloads of a device together


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One comparison that can be shown, or a missing result."""

    device: str
    workload: str
    label: str
    name: str  # of its configuration, short: leak@quick#512:all; says what is timed where that is not steps
    reference: str  # what the reference is called
    comparison: Comparison | None  # None for a missing result
    reason: str | None = None  # the words of a missing result


def listed(requests: Iterable[Request], budget: str = BUDGET) -> tuple[Listed, ...]:
    """All that is asked for, each device in a request of its own; raises Mistake where that cannot be."""
    return tuple(dict.fromkeys(one for request in requests for one in _planned(request, budget)))


def wanted(asked: Request, listing: Sequence[Listed], selected: Collection[Listed]) -> Request:
    """What is measured in one run for those that were selected of a device's listing.

    Where they are a part of what is listed of one workload, they come first, and of the rest only as many as give them
    a pool to share variances with. Where they are the same stack on many workloads, it is measured alone. Raises
    ValueError where no comparison is selected.
    """
    measurable = [one for one in listing if one.comparison is not None]
    chosen = [one for one in measurable if one in selected]
    first, *others = dict.fromkeys(one.workload for one in chosen)
    whole = replace(asked, workloads=(first, *others), device=chosen[0].device)
    if others:
        same = chosen[0].label if len({one.label for one in chosen}) == 1 else None
        return replace(whole, stack=same) if same in STACKS and len(chosen) >= SMALLEST_POOL else whole
    available = [one for one in measurable if one.workload == first]
    return whole if len(chosen) == len(available) else _narrowed(whole, available, chosen)


def _narrowed(whole: Request, available: Sequence[Listed], chosen: Sequence[Listed]) -> Request:
    """A request for those alone and what shares their variances; the whole design where no command names them."""
    probes = {_probe(one) for one in chosen}
    stacks = [one.label for one in chosen if one.label in STACKS]
    if len(probes) > 1 or len(stacks) > 1 or any(one.label == ITS_COPY for one in chosen):
        return whole
    (probe,) = probes
    alike = [one.label for one in available if _probe(one) == probe and one.label not in (*STACKS, ITS_COPY)]
    alone = [one.label for one in chosen if one.label not in STACKS]
    company = [one for one in alike if one not in alone]
    missing = max(0, SMALLEST_POOL - len(chosen))
    named = (*alone, *company[:missing])
    # Whoever names options has chosen what is compared, and needs no design.
    return replace(
        whole,
        stack=next(iter(stacks), None),
        only=named,
        probe=probe,
        design=Request().design if named else whole.design,
    )


def _probe(one: Listed) -> str | None:
    """What `--probe` is called where a part of a step is timed alone."""
    timing = one.comparison.timing if one.comparison else None
    return next((name for name, part in PROBES.items() if part is timing), None)


def _planned(request: Request, budget: str) -> Iterator[Listed]:
    ready = prepared(request)
    plan, budget_s = ready.plan, seconds_of(budget)
    by_workload = together((block.reference.workload, block) for block in plan.blocks)
    for name, blocks in by_workload.items():
        share_s = math.inf if budget_s is None else budget_s / len(by_workload)
        for comparison in _affordable(plan, blocks, share_s, ready.paces[name]):
            yield _comparable(comparison, plan, ready.environment.device)
    yield from _no_results(plan, ready.environment.device)


def _affordable(plan: Plan, blocks: Sequence[Block], share_s: float, pace: Pace) -> list[Comparison]:
    """Treatments of a workload that so much time is likely to buy a ratio each, by the cost model."""
    every, count = [one for block in blocks for one in block.comparisons], 0
    for block in blocks:
        # Loader workers of some comparisons say nothing of those that share no block with them.
        plain = replace(block, comparisons=())
        numbers = range(1, len(block.comparisons) + 1)
        costs_s = [FEWEST_REPLICATES * replicate_s(plain, plan.protocol, pace, (1.0,) * one) for one in numbers]
        fitting = sum(cost_s <= share_s for cost_s in costs_s)
        count, share_s = count + fitting, share_s - (costs_s[fitting - 1] if fitting else 0.0)
        if fitting < len(block.comparisons):
            break
    return every[: max(SMALLEST_POOL, count)]


def recorded(folder: Path) -> tuple[Listed, ...]:
    """What a run measured or tried, and its missing results; raises Mistake where it is no run or rehearsed."""
    return tuple(dict.fromkeys(_recorded(folder)))


def _recorded(folder: Path) -> Iterator[Listed]:
    read_kept(folder)
    run = read_run(folder)
    begun = {(record.arm.block, record.arm.position) for record in read_records(folder)}
    for block in run.plan.blocks:
        for position, comparison in enumerate(block.comparisons, 1):
            if (block.identity, position) in begun:
                yield _comparable(comparison, run.plan, run.environment.device)
    yield from _no_results(run.plan, run.environment.device)


def _comparable(comparison: Comparison, plan: Plan, device: str) -> Listed:
    reference = comparison.reference
    short = f"{reference.workload}@{reference.size}#{reference.batch}:{comparison.label}"
    copy = f" ({comparison.copy + 1})" if comparison.copy else ""
    timed = "" if comparison.timing is Timing.STEP else f" {comparison.timing}"
    return Listed(
        device=device,
        workload=reference.workload,
        label=comparison.label,
        name=one_line(f"{short}{copy}{timed}"),
        reference=one_line(plan.names.get(str(reference)) or reference.stack or "baseline"),
        comparison=comparison,
    )


def _no_results(plan: Plan, device: str) -> Iterator[Listed]:
    for no_result in plan.no_results:
        yield Listed(
            device=device,
            workload=no_result.workload,
            label=no_result.label,
            name=one_line(f"{no_result.workload}:{no_result.label}"),
            reference="baseline",
            comparison=None,
            reason=one_line(no_result.reason),
        )


# Replay: samples of a run as another tool takes them.


SECONDS, RELATIVE = "seconds", "relative"
ITSELF = (1.0,)  # a reference over itself: 1 by definition and measured never, so it is shown once


class Benchmark(Protocol):
    """What is used of pytest-benchmark's fixture."""

    group: str | None
    extra_info: dict[str, Any]

    def pedantic(
        self, target: Callable[[], None], *, setup: Callable[[], None], rounds: int, iterations: int
    ) -> object:
        """Times so many rounds of the target, each after a setup that is not timed."""


@dataclass(slots=True)
class Clock:
    """A timer that moves only when a sample is shown."""

    now: float = 0.0

    def replayed(self) -> float:
        """The time on it; pytest-benchmark stores this function's name."""
        return self.now

    def show(self, benchmark: Benchmark, found: Sequence[float]) -> None:
        """Shows each sample as one round of the benchmark, which must have `replayed` as its timer."""
        left = iter(found)

        def begin() -> None:
            self.now = 0.0

        def end() -> None:
            self.now = next(left, 0.0)  # a profiler that is switched on calls once more

        benchmark.pedantic(end, setup=begin, rounds=len(found), iterations=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A run with the samples of its comparisons."""

    run: str  # its folder, below the folder of results
    command: str
    environment: str  # digest
    samples: Mapping[Comparison, Samples]


def found_in(folder: Path) -> Found:
    """A run, read to its samples; raises Mistake where it is none or is damaged."""
    run = read_run(folder)
    return Found(
        run=f"{run.environment.machine}/{folder.resolve().name}",
        command=f"./{run.command}",
        environment=run.environment.digest,
        samples={one.row.comparison: one for one in samples(folder)},
    )


def shown(one: Samples, *, treatment: bool, relative: bool) -> Sequence[float]:
    """The samples of one arm, in seconds a step or as multiples of the reference's at the same moment."""
    if relative:
        return one.relative if treatment else ITSELF
    return one.treatment_s if treatment else one.reference_s


def facts(found: Found, row: Row, *, relative: bool) -> dict[str, Any]:
    """All that stands behind a ratio, as JSON without numbers that JSON does not know."""
    comparison = row.comparison
    told = {
        "words": sentence(row),
        "unit": RELATIVE if relative else SECONDS,
        "cell": str(comparison.treatment),
        "reference": str(comparison.reference),
        "timed": TIMED[comparison.timing],
        **encode(row.estimate),
        "seen": _seen(row.treatment.facts if row.treatment else {}),
        "seen_in_reference": _seen(row.reference.facts if row.reference else {}),
        "quality": row.quality,
        "notes": [one_line(note) for note in row.notes],
        "run": found.run,
        "command": one_line(found.command),
        "environment": found.environment,
    }
    encoded: dict[str, Any] = encode(told)
    return encoded


ESTIMATED = frozenset(stored(one.name) for one in fields(Estimate))  # what `facts` tells of an estimate
OTHER_MACHINE = (
    "The saved benchmarks were measured in environment {}, and these in {}: no ratio of two machines is a regression; "
    "record them here with --benchmark-autosave."
)
OTHER_FORM = "The saved benchmarks cannot be judged ({}); record them anew with --benchmark-autosave."


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What the gate says of a configuration that was measured twice."""

    words: str
    regressed: bool


def judged(now: Mapping[str, Any], before: Mapping[str, Any], share: float, among: int = 1) -> Judged:
    """Whether a configuration's time over its reference's has surely grown by more than a share, from `facts` of both.

    The whole interval of both ratios together must lie beyond it, as wide as judging one `among` so many asks for, and
    neither side may be disturbed or decided by a device's table. Raises Mistake where the two are no measurements of
    one environment.
    """
    if now["environment"] != before.get("environment"):
        raise Mistake(OTHER_MACHINE.format(one_line(str(before.get("environment", "unknown"))), now["environment"]))
    try:
        here, there = (
            decode(Estimate, {name: told[name] for name in ESTIMATED & told.keys()}) for told in (now, before)
        )
    except Malformed as malformed:
        raise Mistake(OTHER_FORM.format(one_line(str(malformed)))) from malformed
    both = contrast(here, there, among)
    quotient = interval(both.ratio, both.low, both.high)
    unlike = any(now[name] != before.get(name) for name in ("cell", "reference", "timed"))
    reasons = {
        "disturbed": here.disturbed or there.disturbed,
        OF_TABLE: here.looked_up or there.looked_up,
        "other options under that name": unlike,
    }
    why = next((words for words, holds in reasons.items() if holds), "")
    return Judged(
        words=f"{ratio(here)}, before {ratio(there)}; now over before {quotient}"
        + (f"; not judged: {why}" * bool(why)),
        regressed=not why and both.high * (1 + share) < 1,
    )


def _seen(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {one_line(name): one_line(value) if isinstance(value, str) else value for name, value in settings.items()}


def sentence(row: Row) -> str:
    """The ratio with its interval, what may be said of it and what it rests on; raises ValueError where it has none."""
    estimate = row.estimate
    if estimate is None:
        raise ValueError(f"{row.label} has no ratio")
    quality = f"; losses: {row.quality.status}" if row.quality else ""
    composed = f"; of training steps {COMPOSED}{ratio(row.on_steps)}, composed" if row.on_steps else ""
    return one_line(
        f"{ratio(estimate)} against {called(row.reference_name)}, {estimate.verdict}{composed}; "
        f"{estimate.pairs} pairs in {estimate.processes} replicates{quality}"
    )


def words(absence: Absence, budget: str | None) -> str:
    """Why there is no ratio; the remedy is the front end's own where a budget ran out."""
    if budget is not None and absence.outcome in {Outcome.NOT_MEASURED, Outcome.ONE_REPLICATE}:
        return f"{absence.outcome}: the budget of {budget} did not suffice; --speedmatrix-budget gives more"
    return one_line(absence.words)


def machine_facts(environment: Environment) -> dict[str, Any]:
    """The machine as facts that hold from run to run, without the name of a host, a person or a folder."""
    known: dict[str, Any] = encode(environment)
    return {
        "name": environment.machine,
        "environment": environment.digest,
        **known,
        "packages": dict(environment.packages),
        "variables": dict(environment.variables),
    }
