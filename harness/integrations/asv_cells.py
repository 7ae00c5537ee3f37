"""Configurations for asv: each workload is measured once in one call of asv, and all its values are taken from that.

asv starts a process for every single value. The first that asks for a workload has it measured; what came out is kept
below .asv/measured, with the run it was read from, and answers all others. Another `asv run` measures anew.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from harness.catalogue import read_catalogue
from harness.core.codec import Malformed, decode, encode
from harness.core.mistake import Mistake
from harness.core.workload import Workload

if TYPE_CHECKING:
    from harness.analyze.matrix import Row

ROOT = Path(__file__).resolve().parents[2]
RUN = "SPEEDMATRIX_ASV_RUN"  # names one call of asv; the plugin sets it
SIZE, BUDGET = "SPEEDMATRIX_ASV_SIZE", "SPEEDMATRIX_ASV_BUDGET"
REPLICATES, ROUNDS = 2, 2  # of every comparison: a value of each in one call, and no more of any
SPARE = 1.6  # times what they take by the cost model, which knows neither this machine nor how long its imports take
BESIDE_S = 20.0  # of a budget, for what is no measurement: imports, planning, the report
MOST_S = 6600.0  # of a budget: asv ends a value after `default_benchmark_timeout`
DIGITS = 4  # of a relative time; a hundredth of a percent is below every noise floor
TOGETHER = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The values of one comparison; the last two of the optimized side, one for each replicate."""

    relative: tuple[float, ...]  # its time over the reference's: the ratio of totals between the ends of its interval
    peak_bytes: tuple[int, ...]  # of the device where that is a GPU, else of the host
    start_s: tuple[float, ...]  # from the start of building to the end of the first step


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one call of asv knows of a workload."""

    run: str  # folder of the run, below .asv/measured
    values: Mapping[str, Shown]
    no_results: Mapping[str, str]  # the words for what has no values
    failed: str = ""  # why there is no run at all


def workloads() -> list[Workload]:
    """All of them: asv forgets a benchmark that it does not find, so a choice among them is left to its --bench."""
    return [workload for _, workload in sorted(read_catalogue(ledger=False).workloads.items())]


def labels(workload: Workload) -> list[str]:
    """The comparisons that asv follows: all optimizations together, and what the workload wants seen first."""
    return [TOGETHER, *workload.first_look]


def shown(workload: str, label: str) -> Shown:
    """The values of a comparison; NotImplementedError tells why there are none, Mistake that it failed."""
    measured = _measured_once(workload)
    if measured.failed:
        raise Mistake(measured.failed)
    if label in measured.values:
        return measured.values[label]
    words = measured.no_results.get(label, "the run says nothing of it")
    raise NotImplementedError(f"{workload}, {label}: {words}")


def as_samples(values: Sequence[float], digits: int | None = None) -> dict[str, Any]:
    """Values as asv takes them, so that it knows their spread; rounded where asv would print sixteen digits.

    asv shows the median, for an even count the mean of two. Those two are replaced by their rounded mean.
    """
    found = sorted(values if digits is None else (round(value, digits) for value in values))
    if digits is not None and len(found) % 2 == 0:
        half = len(found) // 2
        found[half - 1 : half + 1] = [round(median(found), digits)] * 2
    return {"samples": found, "number": 1}


def series(workload: Workload) -> str:
    """What its values depend on beside commit, machine and the name of its size: when that changes, asv begins anew."""
    import hashlib

    from harness.core.protocol import BRIEF

    sizes = {name: (one.batch, one.epoch_steps, dict(one.shape)) for name, one in workload.sizes.items()}
    facts = json.dumps([encode(BRIEF.fixed()), REPLICATES, ROUNDS, DIGITS, "ratio of totals", sizes], sort_keys=True)
    return f"brief-{hashlib.sha256(facts.encode()).hexdigest()[:8]}"


def _measured_once(workload: str) -> Measured:
    folder = _folder(workload)
    path = folder / "values.json"
    if not path.is_file():
        measured = _measure(workload, folder)
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(encode(measured), indent=1) + "\n", encoding="utf-8")
        return measured
    try:
        return decode(Measured, json.loads(path.read_text(encoding="utf-8")), "values.json")
    except (ValueError, Malformed) as error:
        raise Mistake(f"{path} is damaged ({error}); remove it and `asv run` again.") from error


def _folder(workload: str) -> Path:
    run = os.environ.get(RUN)
    if not run:
        raise Mistake("These benchmarks belong to `asv run`, whose plugin says which call of it they are part of.")
    return ROOT / ".asv" / "measured" / run / workload


def expected_s(workload: Workload) -> float:
    """What its comparisons take at most, and never less than `run` accepts; they are done sooner where they can be."""
    from harness.core.configuration import Configuration
    from harness.core.optimization import Timing
    from harness.core.plan import Block
    from harness.core.protocol import BRIEF
    from harness.measure.surroundings import read_environment
    from harness.plan.cost import UNSEEN, USUAL, arm_s, replicate_s
    from harness.plan.planning import USUAL_SIZE, pace_of

    environment = read_environment("auto")
    size = os.environ.get(SIZE) or USUAL_SIZE
    pace = pace_of(workload, size, environment.device, environment.cores) if size in workload.sizes else USUAL
    config = Configuration(workload=workload.name, size=size, batch=1)
    block = Block(identity="", reference=config, timing=Timing.STEP, comparisons=(), rounds=ROUNDS)
    all_s = REPLICATES * replicate_s(block, BRIEF, pace, (1.0,) * len(labels(workload)))
    return max(SPARE * all_s, REPLICATES * 2 * UNSEEN * arm_s(BRIEF, pace)) + BESIDE_S


def _measure(name: str, folder: Path) -> Measured:
    from harness.api import Place, measured
    from harness.core.plan import Request
    from harness.integrations.configurations import no_results
    from harness.run.preparation import seconds_of

    workload = read_catalogue(ledger=False).workload(name)
    size, budget = os.environ.get(SIZE), os.environ.get(BUDGET) or f"{ceil(expected_s(workload))}s"
    asked_s = seconds_of(budget)
    if asked_s is None or asked_s > MOST_S:
        return Measured(
            run="",
            values={},
            no_results={},
            failed=f"asv waits for two hours: give {BUDGET} less than {budget}, 110m at most.",
        )
    request = Request(
        workloads=(name,), only=workload.first_look, stack=TOGETHER, size=size, replicates=REPLICATES, rounds=ROUNDS
    )
    try:
        run = measured(request, Place(results=folder, budget=budget, fresh=True))
    except Mistake as mistake:
        return Measured(run="", values={}, no_results={}, failed=str(mistake))
    return Measured(
        run=str(run.relative_to(ROOT / ".asv" / "measured")) if run.is_relative_to(ROOT) else run.name,
        values=dict(_values(run)),
        no_results={_bare(label): words for label, words in no_results(run).items()} | dict(_withheld(run, budget)),
    )


def _withheld(run: Path, budget: str) -> Iterator[tuple[str, str]]:
    """What has no value though the run tells of it, and the remedy that asv's user has: the run itself is asv's own."""
    from harness.analyze.soundness import Outcome
    from harness.integrations.configurations import samples

    for row in (one.row for one in samples(run)):
        if words := _disturbed(row):
            yield _bare(row.label), words
        elif row.absence and row.absence.outcome in {Outcome.NOT_MEASURED, Outcome.ONE_REPLICATE}:
            yield _bare(row.label), f"{budget} did not suffice; give each workload twice as much in {BUDGET}"


def _disturbed(row: "Row") -> str:
    """By what, in words: asv would draw its number as if it were any other."""
    estimate = row.estimate
    return f"the machine was too disturbed: {estimate.disturbance}" if estimate and estimate.disturbed else ""


def _values(run: Path) -> Iterator[tuple[str, Shown]]:
    from harness.analyze.evidence import gather
    from harness.integrations.configurations import samples
    from harness.store import read_records, read_run

    sides = {one.comparison: one.treatment for one in gather(read_run(run).plan, read_records(run))}
    for found in samples(run):
        side = sides[found.row.comparison]
        if found.relative and not _disturbed(found.row):
            yield (
                _bare(found.row.label),
                Shown(
                    relative=found.relative,
                    peak_bytes=_peaks(side.windows),
                    start_s=tuple(ready.build_s + ready.first_step_s for ready in side.readies),
                ),
            )


def _peaks(windows: Sequence[Any]) -> tuple[int, ...]:
    """The highest of each replicate; where the kernel tells of no peak, what was resident after a window."""
    found: dict[int, int] = {}
    for window in windows:
        host_bytes = window.host_bytes if window.host_peak_bytes is None else window.host_peak_bytes
        count = host_bytes if window.device_bytes is None else window.device_bytes
        if count is not None:  # nobody knows what is whose in a process that was shared
            found[window.arm.replicate] = max(count, found.get(window.arm.replicate, 0))
    return tuple(found.values())


def _bare(label: str) -> str:
    """The name without its level, which differs between machines where asv's parameters may not."""
    return label.partition("=")[0]
