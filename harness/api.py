"""The Python interface: measures, plans, loads and compares; `import speedmatrix` gives what stands in `__all__`.

    import speedmatrix

    matrix = speedmatrix.run(workloads="leak", size="smoke", only=["batched_fetch"], budget="2m")
    for row in matrix:
        print(row.label, row.ratio, row.low, row.high, row.verdict or row.reason)

Whatever cannot be done raises `Mistake` with one sentence that says what to do instead. The command line, asv and
pytest call what stands here.
"""

import html
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any

from harness import __version__
from harness.analyze import matrix as analysis
from harness.analyze.advice import advise as advised
from harness.analyze.comparison import MachineComparison, of_runs
from harness.analyze.comparison import compare as side_by_side
from harness.analyze.composition import precisions
from harness.analyze.evidence import gather
from harness.analyze.soundness import bounds_seen, data_cache_seen
from harness.analyze.verdict import Thresholds
from harness.catalogue import read_catalogue
from harness.core.mistake import Mistake
from harness.core.optimization import Timing
from harness.core.own_file import look_anew
from harness.core.plan import Block, Plan, Request
from harness.core.records import Bounds, Lost, Record
from harness.report.advice import advice_parts, chapters
from harness.report.document import to_terminal
from harness.report.matrix import COMPOSED
from harness.report.overview import overview
from harness.results import known_limits, matrix_of, read_kept, thresholds_of
from harness.run.arm import Hosts, Job, ProcessArm, read_libraries
from harness.run.data import answers, read_once
from harness.run.execution import Campaign
from harness.run.fork_server import end_servers
from harness.run.preparation import (
    REPORT_S,
    Data,
    Place,
    Prepared,
    are_data_missing,
    check_budget,
    data_of,
    forecast_of,
    job_of,
    known_elsewhere,
    loads_from,
    measuring_alone,
    own_data,
    prepared,
    run_of,
    seconds_of,
    served_in,
    started,
    stopping_on_terminate,
)
from harness.run.sentinel import Sentinel
from harness.run.watching import Watcher
from harness.store import (
    Journal,
    clock_note,
    create,
    finish,
    finished,
    hold_to_data,
    read_records,
    read_run,
    resumable,
)

__all__ = ["Matrix", "Mistake", "Place", "Request", "Row", "compare", "load", "plan", "run"]

WIDTH = 100  # characters of a matrix that is printed
IN_FLIGHT_S = 3.0  # beyond its end, for a window that has begun; whatever takes longer is cut off
NOTHING_TIMED = (
    "Nothing was timed: what is left takes longer to start and to warm up than there was time. Give it more (--budget, "
    "or --minutes and --slice of a campaign); the same command continues."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One comparison; the four numbers are None where there is no result, and then `reason` says why."""

    workload: str
    size: str
    batch: int  # samples per optimizer step, in both arms
    label: str  # of the options: `workers=4`, `all`
    reference: str  # `baseline`, `original`, or options
    timing: str  # what was timed: `step`, `loader`, `compute`, `epoch` or `evaluation`
    ratio: float | None = None  # time of the reference over that of the configuration: above 1 is faster
    low: float | None = None  # of the 95 % confidence interval
    high: float | None = None  # infinite where replicates disagree beyond all bounds
    replicates: int = 0
    verdict: str | None = None  # `faster`, `slower`, `no effect`, `undecided` or `disturbed`
    composed_from: str | None = None  # `loader` or `compute`: timed alone, and the ratio of steps worked out from that
    part_ratio: float | None = None  # of that part alone
    reason: str | None = None  # why there is no ratio
    notes: tuple[str, ...] = ()  # what a reader must know before trusting the ratio


class Matrix:
    """What a run says, finished or not: a sequence of rows. `folder` holds its records, `analysis` all the rest."""

    def __init__(self, folder: Path) -> None:
        """Reads a run's folder; raises Mistake when it is none, or damaged."""
        self.folder = Path(folder)
        self.analysis = matrix_of(self.folder)
        batches = (row for table in self.analysis.batch_tables for row in table.rows)
        self.rows = tuple(map(_row, (*self.analysis.answers, *batches)))

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, label: str) -> Row:
        """The row of that label, as `workers=4` or `leak:workers=4`; raises Mistake where there is none, or several."""
        found = [one for one in self.rows if label in {one.label, f"{one.workload}:{one.label}"}]
        if len(found) != 1:
            there = ", ".join(f"{one.workload}:{one.label}" for one in found or self.rows)
            raise Mistake(f"{len(found) or 'No'} rows are called '{label}'; choose one of {there}.")
        return found[0]

    @property
    def no_results(self) -> dict[str, str]:
        """Why comparisons were not made at all, by `WORKLOAD:LABEL`."""
        return {f"{one.workload}:{one.label}": one.reason for one in self.analysis.no_results}

    def to_dicts(self) -> list[dict[str, Any]]:
        """A dictionary for each row, with the fields of `Row`."""
        return [asdict(row) for row in self.rows]

    def to_frame(self) -> Any:
        """A data frame, a row for each comparison: of polars, else of pandas; raises Mistake where neither is there."""
        for name in ("polars", "pandas"):
            try:
                library = __import__(name)
            except ModuleNotFoundError:
                continue
            return library.DataFrame(self.to_dicts())
        raise Mistake("to_frame needs polars or pandas; install one of them, or use to_dicts().")

    def best(self) -> Row | None:
        """The row that is surely faster by most, or None where none is."""
        gains = [row for row in self.rows if row.verdict == "faster" and row.ratio is not None]
        return max(gains, key=lambda row: row.ratio or 0.0, default=None)

    def advise(self) -> str:
        """What to switch on, leave off and measure further, with the code to write, as the terminal shows it."""
        found, known = read_run(self.folder), read_catalogue(ledger=False)
        evidence = tuple(gather(found.plan, read_records(self.folder)))
        advice = advised(read_kept(self.folder), evidence, known.optimizations, known.workloads)
        return to_terminal(tuple(advice_parts(chapters(advice, known.optimizations), {})), width=WIDTH)

    def __str__(self) -> str:
        """One screen, as the terminal shows it after `run`; `./speedmatrix report --verbose` has the rest."""
        return to_terminal(overview(self.analysis, __version__), width=WIDTH)

    def __repr__(self) -> str:
        ratios = sum(row.ratio is not None for row in self.rows)
        return f"<speedmatrix.Matrix of {len(self.rows)} comparisons, {ratios} with a ratio, in {self.folder}>"

    def _repr_html_(self) -> str:
        """A table for a notebook."""
        shown = ("workload", "label", "reference", "speedup [95 % CI]", "verdict")
        head = "".join(f"<th>{one}</th>" for one in shown)
        body = "".join(f"<tr>{_cells(row)}</tr>" for row in self.rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def run(
    request: Request | None = None,
    *,
    budget: str = "10m",
    results: Path | str = "results",
    data: Path | str | None = None,
    fresh: bool = False,
    **wanted: Any,
) -> Matrix:
    """Measures and gives the matrix, as `./speedmatrix run` does; what was begun with the same words is continued.

    What is measured is a `Request`, or its fields by name: `workloads`, `size`, `design`, `only`, `stack`, `reference`,
    `replicates`, `rounds` and so on; several names may be a list. `budget` is a time (`90s`, `5m`, `2h`) or `none`;
    `results` and `data` are folders. Nothing is printed. KeyboardInterrupt leaves what was measured in the folder.

        speedmatrix.run(workloads="leak", stack="batched_fetch+workers=2", reference="original", budget="5m")

    Raises Mistake for what cannot be measured here, for too short a budget, and while another process measures.
    """
    place = Place(results=Path(results), data=None if data is None else Path(data), budget=budget, fresh=fresh)
    if fresh:
        look_anew()
    return Matrix(measured(requested(request, wanted), place))


def plan(request: Request | None = None, **wanted: Any) -> Plan:
    """What a run would measure: `blocks` of comparisons in order, and `no_results` with reasons; raises Mistake.

    speedmatrix.plan(workloads=["leak"], design="levels").comparisons
    """
    return prepared(requested(request, wanted)).plan


def load(folder: Path | str) -> Matrix:
    """The matrix of a run that was measured before; raises Mistake when the folder is no run, or damaged."""
    return Matrix(Path(folder))


def compare(*runs: Matrix | Path | str) -> MachineComparison:
    """What two runs or more say of the same comparisons, as `./speedmatrix compare` does; raises Mistake.

    `configs` holds what they share, each with its `label`, a row for each run in `found`, and the `difference`.
    """
    folders = [one.folder if isinstance(one, Matrix) else Path(one) for one in runs]
    return side_by_side(of_runs([read_kept(folder) for folder in folders]), known_limits(), analysis.NO_PRICES)


def requested(request: Request | None, wanted: Mapping[str, Any]) -> Request:
    """A request with some fields by name, a single name standing for a list of one; raises Mistake for others."""
    known = {one.name for one in fields(Request)}
    if unknown := sorted(wanted.keys() - known):
        raise Mistake(f"There is no '{unknown[0]}' to ask for; choose among {', '.join(sorted(known))}.")
    return replace(request or Request(), **{name: _plain(name, value) for name, value in wanted.items()})


def _plain(name: str, value: Any) -> Any:
    if name in {"workloads", "only", "data_roots"}:
        return (str(value),) if isinstance(value, str | Path) else tuple(map(str, value))
    return Path(value) if name == "own" and value is not None else value


def _row(row: analysis.Row) -> Row:
    config, found, timing = row.comparison.treatment, row.shown, str(row.comparison.timing)
    numbers: dict[str, Any] = {"timing": timing}
    if found is not None and row.estimate is not None:
        numbers |= {"ratio": found.ratio, "low": found.low, "high": found.high, "verdict": str(found.verdict)}
        numbers |= {"replicates": row.estimate.processes, "notes": row.notes}
        if row.on_steps is not None:
            numbers |= {"timing": str(Timing.STEP), "composed_from": timing, "part_ratio": row.estimate.ratio}
    return Row(
        workload=config.workload,
        size=config.size,
        batch=config.batch,
        label=row.label,
        reference=row.reference_name,
        reason=row.absence.words if row.absence else None,
        **numbers,
    )


def _cells(row: Row) -> str:
    told = (
        ""
        if row.ratio is None
        else f"{COMPOSED * bool(row.composed_from)}{row.ratio:.2f}x [{row.low:.2f}, {row.high:.2f}]"
    )
    words = (row.workload, row.label, row.reference, told, row.verdict or f"no result: {row.reason}")
    return "".join(f"<td>{html.escape(one)}</td>" for one in words)


# What the command line calls: a measurement that somebody watches, as often as there is a plan and a folder.


class Watch:
    """Is told how a measurement goes; this one shows nothing."""

    def say(self, sentence: str) -> None:
        """A line by itself."""

    def writing(self, _names: Sequence[str]) -> AbstractContextManager[Callable[[int, float], None]]:
        """Files are written; what it gives is told a place among the workloads and the share that is done."""
        return nullcontext(lambda _place, _share: None)

    def measuring(
        self, _plan: Plan, _records: Sequence[Record], _left_s: Callable[[], float], _thresholds: Thresholds
    ) -> AbstractContextManager[Watcher]:
        """A plan is measured, for so many seconds more as `left_s` tells."""
        return nullcontext(Watcher())


SILENT = Watch()


def measured(
    request: Request, place: Place, watch: Watch = SILENT, *, command: str | None = None, spent_s: float = 0.0
) -> Path:
    """Measures what is left of a request's plan; gives the run's folder.

    `command` is what the run says that it was asked by; `spent_s` was spent of the budget before.
    """
    budget_s, began_s = seconds_of(place.budget), monotonic() - spent_s
    ready = prepared(request, command or shlex.join(("speedmatrix", *request.words, "--budget", place.budget)))
    if request.shard and not place.fresh and (done := finished(place.results, run_of(ready))):
        watch.say(f"This shard was measured before, in {done}")  # an engine asks again where it missed the end
        return done
    with measuring_alone(), stopping_on_terminate():
        check_budget(place.budget, monotonic() - began_s, forecast_of(ready, place))
        before_s = monotonic()
        read_libraries(ready.environment.device)  # from the disk once, which the budget does not pay for either
        began_s += monotonic() - before_s
        missing, before_s = are_data_missing(ready, place.data), monotonic()
        data = written(ready, place.data, watch)
        if missing:  # written once; a budget that paid for them would buy no measurement on the first day
            began_s += monotonic() - before_s
        folder = _folder(ready, place, watch)
        measure_into(ready, folder, data, Until(None if budget_s is None else began_s + budget_s - REPORT_S), watch)
    return folder


def written(ready: Prepared, data: Path | None, watch: Watch = SILENT) -> Data:
    """The folders of a plan's data, which are written first if need be; a GPU's libraries are read, too."""
    read_libraries(ready.environment.device)
    with watch.writing([name for name, _ in own_data(ready)]) as show:
        found = data_of(ready, data, show)
    for folder in dict.fromkeys(ready.real_data.values()):
        watch.say(f"Reading the files in {folder} once, so that every arm finds them in memory")
        if not read_once(folder) and loads_from(ready, folder):
            raise Mistake(
                f"The files in {folder} take more than half of the free memory, so that the reference would read them "
                "from storage and the other arms from memory; give a folder with a part of them, or time the step "
                "alone (--probe compute)."
            )
    return found


def _folder(ready: Prepared, place: Place, watch: Watch) -> Path:
    run_now = run_of(ready)
    found = None if place.fresh else resumable(place.results, run_now)
    if found is None and (note := clock_note(place.results, run_now)):
        watch.say(note)
    folder = found or create(place.results, run_now)
    watch.say(f"{'Continuing the run in' if found else 'Measuring into'} {folder}")
    return folder


@dataclass(frozen=True, slots=True)
class Until:
    """For how long a plan is measured, on the monotonic clock."""

    deadline_s: float | None = None
    plan_ends_s: float | None = None  # until when others may go on with it: a ratio may then be left half done


def _appending(journal: Journal, services: Mapping[str, str]) -> Callable[[Record], None]:
    """Keeps records, but no loss to a service that has ended: no arm is at fault, and all others would follow."""

    def append(record: Record) -> None:
        if isinstance(record, Lost) and (gone := [name for name, one in services.items() if not answers(one)]):
            raise Mistake(f"The service of {gone[0]} ended; what was measured is kept: give the same command again.")
        journal.append(record)

    return append


def _informed(job: Job, ready: Prepared, records: Sequence[Record], place: tuple[Block, int, int]) -> Job:
    """The job of an arm at a position of a block's replicate, with what records tell: it need not look for that."""
    block, replicate, position = place
    if position == 0 and known_elsewhere(ready, records, block, replicate):
        job = replace(job, observed=True)
    # References are probed in every replicate, by whose bounds bottlenecks are named, unless windows tell them.
    by_windows = job.device == "cpu" and not job.recipe.workers
    if by_windows and job.workload_path is None and ready.catalogue.workload(job.config.workload).service is None:
        job = replace(job, bounds=Bounds(loader_rate=None, compute_rate=None))  # nothing outside it prepares batches
    elif position or by_windows:
        job = replace(job, bounds=bounds_seen(records, *place))
    return replace(job, data_cache=data_cache_seen(records, *place))


def refuse_changes(ready: Prepared, code: str) -> None:
    """Raises Mistake where the code that arms run is no longer that of this digest."""
    if ready.code(jobs=True) != code:
        raise Mistake(
            "The code was changed while it was measured, or a file that it reads; restore it to continue, or give "
            "--fresh."
        )


def measure_into(
    ready: Prepared,
    folder: Path,
    data: Data,
    until: Until,
    watch: Watch = SILENT,
    arm_s: dict[str, float] | None = None,
) -> None:
    """Measures what is left of a plan into its run's folder, until a deadline if there is one.

    `arm_s` holds what an arm of each workload was seen to take, as far as anybody knows, and is kept up to date.
    """
    journal, sentinel, closing = Journal(folder), Sentinel(), ExitStack()
    try:
        records, code = read_records(folder), ready.code(jobs=True)
        hold_to_data(folder, {f"{name} {size}": place.resolve() for (name, size), place in data.items()})
        if complaint := read_libraries(ready.environment.device):
            watch.say(f"The GPU failed when it was first used:\n{complaint}")
        ends_s = inf if until.deadline_s is None else until.deadline_s + IN_FLIGHT_S
        services = {name: closing.enter_context(one) for name, one in served_in(ready, data, sentinel, ends_s)}
        hosts = Hosts(sentinel=sentinel, deadline_s=ends_s)
        closing.callback(hosts.end)

        def start(block: Block, replicate: int, position: int) -> ProcessArm:
            if position == 0:
                refuse_changes(ready, code)
            place = block, replicate, position
            job = _informed(job_of(ready, data, *place), ready, records, place)
            return started(replace(job, service=services.get(job.config.workload)), sentinel, ends_s, hosts)

        thresholds = thresholds_of(folder)
        watcher = closing.enter_context(watch.measuring(ready.plan, records, lambda: campaign.left_s, thresholds))
        campaign = Campaign(
            plan=ready.plan, records=records, start=start, append=_appending(journal, services), watcher=watcher,
            clock=monotonic, deadline_s=until.deadline_s, plan_ends_s=until.plan_ends_s, paces=ready.paces,
            arm_s={} if arm_s is None else arm_s,
            precisions=partial(precisions, thresholds=thresholds), free=ready.free_bytes,
            cores=ready.environment.cores, run_name=folder.name,
        )  # fmt: skip
        if campaign.run():
            finish(folder)
        elif not campaign.windows:
            watch.say(NOTHING_TIMED)
    finally:
        closing.close()
        sentinel.close()
        end_servers()
        journal.close()
