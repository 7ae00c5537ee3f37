"""`run`: measures a plan, shows how it goes, and prints the matrix."""

import os
import re
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from math import ceil, inf
from pathlib import Path
from time import CLOCK_BOOTTIME, clock_gettime, monotonic
from types import FrameType

from rich.console import Console

from harness import __version__
from harness.analyze.precision import precisions
from harness.analyze.terms import UNCALIBRATED, Terms
from harness.catalogue import read_catalogue
from harness.cli.planning import Prepared, Wish, prepared, tell_unused_gpu
from harness.cli.progress import Progress, preparing_all
from harness.cli.reporting import matrix_of, print_matrix
from harness.cli.resuming import clock_note, resumable
from harness.cli.shelf import calibration_beside
from harness.cli.starting import free_memory, started
from harness.core.compose import compose, expected
from harness.core.mistake import Mistake
from harness.core.optimization import Timing
from harness.core.plan import Block
from harness.core.recipe import Value
from harness.plan.cost import Forecast
from harness.plan.outstanding import by_restart
from harness.run.arm import ProcessArm
from harness.run.campaign import Campaign
from harness.run.job import Job
from harness.run.lock import measuring_alone
from harness.run.prepare import data_root, ensure_all, folder_of
from harness.run.sentinel import Sentinel
from harness.run.services import START_LIMIT_S, serving
from harness.store import Journal, Run, create, finish, read_records, read_run

REPORT_S = 5.0  # kept back from the budget for the report
BEGIN_S = 3.0  # between the check of a budget and the first arm
LONG_S = 300.0  # beyond which a time is told in minutes
IN_FLIGHT_S = 3.0  # beyond its end, for a window that has begun; whatever takes longer is cut off
STARTED = 19  # place of the start among the fields of /proc/self/stat that stand behind the name
NOTHING_TIMED = (
    "Nothing was timed: what is left takes longer to start and to warm up than there was time. Give it more (--budget, "
    "or --minutes and --slice of a campaign); the same command continues.\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where results and data go, and how long it may take."""

    results: Path
    data: Path | None
    budget: str
    fresh: bool


def measure(wish: Wish, place: Place, shown: Callable[[Path], int] | None = None) -> int:
    """Measures what is left of the wish's plan; gives the exit status.

    That is 0, or 1 when nothing could be measured, or 130 when it was stopped by Ctrl-C or SIGTERM. `shown` prints
    what a run's folder says in another way than as a matrix, and gives the status.
    """
    try:
        return _measure(wish, place, shown or partial(_show_matrix, wish.own))
    except KeyboardInterrupt:
        sys.stderr.write("Stopped; what was measured is kept, and the same command continues.\n")
        return 130


def _measure(wish: Wish, place: Place, shown: Callable[[Path], int]) -> int:
    budget_s, began_s = seconds_of(place.budget), monotonic() - age_s()
    ready = prepared(wish)
    tell_unused_gpu(wish.device, ready.environment)
    console = Console()
    with measuring_alone(), stopping_on_terminate():
        check_budget(place.budget, monotonic() - began_s, forecast_of(ready, place))
        missing, before_s = are_data_missing(ready, place), monotonic()
        data = prepare_data(ready, place, console)
        if missing:  # written once; a budget that paid for them would buy no measurement on the first day
            began_s += monotonic() - before_s
        folder = _folder(ready, place, console)
        campaign_into(ready, folder, data, None if budget_s is None else began_s + budget_s - REPORT_S)
    return shown(folder)


def forecast_of(ready: Prepared, place: Place) -> Forecast:
    """How long the plan is going to take, the run that is continued considered."""
    folder = None if place.fresh else resumable(place.results, run_of(ready))
    kept = by_restart(read_records(folder) if folder else ())
    return Forecast(plan=ready.plan, kept=kept, paces=ready.paces, arm_s={})


def check_budget(text: str, spent_s: float, forecast: Forecast) -> None:
    """Raises Mistake, with a time that would do, for a budget that ends before there is a single ratio."""
    budget_s, firsts_s = seconds_of(text), [forecast.first_ratio_s(*one) for one in forecast.first_ratios()]
    if budget_s is None or forecast.has_ratio or not firsts_s:
        return
    beside_s = spent_s + BEGIN_S + REPORT_S
    if budget_s < min(firsts_s) + beside_s:
        each = f" ({_time(sum(firsts_s) + beside_s)} for one of each workload)" if len(firsts_s) > 1 else ""
        raise Mistake(
            f"--budget {text} is too short for a ratio here; give {_time(min(firsts_s) + beside_s)} or more{each}, or "
            "take a smaller --size."
        )


def _time(seconds: float) -> str:
    """As `--budget` takes it, rounded up to five seconds, and to whole minutes where it is long."""
    rounded = 5 * ceil(seconds / 5) if seconds < LONG_S else 60 * ceil(seconds / 60)
    minutes, rest = divmod(rounded, 60)
    return f"{minutes}m" * (minutes > 0) + f"{rest}s" * (rest > 0)


def _show_matrix(own: Path | None, folder: Path) -> int:
    matrix = matrix_of(folder)
    print_matrix(matrix, folder, read_catalogue(own))
    return 0 if any(row.estimate for row in matrix.rows) else 1


def seconds_of(text: str) -> float | None:
    """Seconds from `90s`, `4m40s` or `2h`; None for `none`; raises Mistake for anything else."""
    if text == "none":
        return None
    match = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", text)
    if not text or not match:
        raise Mistake(f"'{text}' is not a time; write 90s, 4m40s, 2h or none.")
    hours, minutes, seconds = (int(group or 0) for group in match.groups())
    return 3600.0 * hours + 60.0 * minutes + seconds


def age_s() -> float:
    """Seconds since this process began, imports included, which the budget pays for.

    By the clock that counts from the start of the machine: the time of day may be set meanwhile.
    """
    ticks = int(Path("/proc/self/stat").read_text(errors="replace").rpartition(")")[2].split()[STARTED])
    return max(0.0, clock_gettime(CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))


def shown_command(words: list[str]) -> str:
    """The command line as others can use it: without the places on this machine, which are nobody's business."""
    kept, rest = ["speedmatrix"], iter(words)
    for word in rest:
        option, _, value = word.partition("=")
        if option in {"--results", "--data", "--archive", "--workload"}:
            place = value or next(rest, "")
            kept += ["--workload", Path(place).name] if option == "--workload" else []
        elif option == "--data-root":
            kept += ["--data-root", _placeless(value or next(rest, ""))]
        else:
            kept.append(word)
    return shlex.join(kept)


def _placeless(text: str) -> str:
    name, separator, _ = text.partition("=")
    return f"{name}=FOLDER" if separator and "/" not in name else "FOLDER"


def prepare_data(ready: Prepared, place: Place, console: Console) -> dict[tuple[str, str], Path]:
    """The folders of the plan's data by workload and size, written now if need be."""
    keys = dict.fromkeys((block.reference.workload, block.reference.size) for block in ready.plan.blocks)
    own = [key for key in keys if key[0] not in ready.real_data]
    wanted = [(ready.catalogue.workload(name), size) for name, size in own]
    with preparing_all([f"{name}: writing its files" for name, _ in own], console) as show:
        written = dict(zip(own, ensure_all(data_root(place.data), wanted, show), strict=True))
    return {key: written[key].folder if key in written else ready.real_data[key[0]] for key in keys}


def are_data_missing(ready: Prepared, place: Place) -> bool:
    """Whether files of the plan's workloads have still to be written."""
    root, cells = data_root(place.data), (block.reference for block in ready.plan.blocks)
    own = (cell for cell in cells if cell.workload not in ready.real_data)
    return not all(folder_of(root, ready.catalogue.workload(cell.workload), cell.size).exists() for cell in own)


def run_of(ready: Prepared) -> Run:
    """A run of a plan that begins now, by this command."""
    return Run(
        began=datetime.now(UTC).isoformat(timespec="seconds"),
        version=__version__,
        command=shown_command(sys.argv[1:]),
        rehearsed=False,
        environment=ready.environment,
        plan=ready.plan,
    )


def _folder(ready: Prepared, place: Place, console: Console) -> Path:
    run = run_of(ready)
    found = None if place.fresh else resumable(place.results, run)
    if found is None and (note := clock_note(place.results, run)):
        console.print(note, highlight=False, markup=False)
    folder = found or create(place.results, run)
    told = f"{'Continuing the run in' if found else 'Measuring into'} {folder}"
    console.print(told, highlight=False, markup=False)
    return folder


def campaign_into(
    ready: Prepared,
    folder: Path,
    data: dict[tuple[str, str], Path],
    deadline_s: float | None,
    arm_s: dict[str, float] | None = None,
    plan_ends_s: float | None = None,
) -> None:
    """Measures what is left of a plan into its run's folder, until a moment of the monotonic clock if one is given.

    `plan_ends_s` is a later moment until which others may go on with it: a ratio may then be left half done.
    `arm_s` holds what an arm of each workload was seen to take, as far as anybody knows, and is kept up to date.
    """
    records, sentinel, journal = read_records(folder), Sentinel(), Journal(folder)
    closing = ExitStack()
    try:
        ends_s = inf if deadline_s is None else deadline_s + IN_FLIGHT_S
        served = served_in(ready, data, sentinel, ends_s)
        services = {name: closing.enter_context(one) for name, one in served}

        def start(block: Block, restart: int, position: int) -> ProcessArm:
            job = job_of(ready, data, block, restart, position)
            job = replace(job, service=services.get(job.cell.workload))
            return started(job, sentinel, ends_s)

        terms = _terms(folder)
        progress = Progress(ready.plan, Console(), records, lambda: campaign.left_s, terms)
        campaign = Campaign(
            plan=ready.plan, records=records, start=start, append=journal.append, watcher=progress,
            clock=monotonic, deadline_s=deadline_s, plan_ends_s=plan_ends_s, paces=ready.paces,
            arm_s={} if arm_s is None else arm_s,
            precisions=partial(precisions, terms=terms), free=partial(free_memory, ready.environment.device),
        )  # fmt: skip
        with progress:
            if campaign.run():
                finish(folder)
            elif not campaign.bursts:
                sys.stderr.write(NOTHING_TIMED)
    finally:
        closing.close()
        sentinel.close()
        journal.close()


def _terms(folder: Path) -> Terms:
    """What the machine's calibration decides for every interval: looks and reports must know the same width."""
    calibration = calibration_beside(folder, read_run(folder))
    return calibration.terms if calibration else UNCALIBRATED


def served_in(
    ready: Prepared, data: dict[tuple[str, str], Path], sentinel: Sentinel, ends_s: float = inf
) -> Iterator[tuple[str, AbstractContextManager[str]]]:
    """The services that the plan's cells talk to, by workload, each of which starts before the time is over."""
    for (name, size), folder in data.items():
        workload = ready.catalogue.workload(name)
        cells = {cell for one in ready.plan.comparisons for cell in (one.treatment, one.reference)}
        recipes = [
            compose(workload, cell.switches, ready.catalogue.known)
            for cell in cells
            if (cell.workload, cell.size) == (name, size)
        ]
        if workload.service and any(workload.service.wanted(recipe) for recipe in recipes):
            yield name, serving(workload.service, folder, sentinel, min(START_LIMIT_S, max(1.0, ends_s - monotonic())))


def job_of(ready: Prepared, data: dict[tuple[str, str], Path], block: Block, restart: int, position: int) -> Job:
    """The job of one arm of a block."""
    cell = block.reference if position == 0 else block.comparisons[position - 1].treatment
    workload, known = ready.catalogue.workload(cell.workload), ready.catalogue.known
    proof: dict[str, Value] = {}
    for switch in cell.switches:
        # What changes the evaluation alone can be seen only where an evaluation is timed.
        if block.timing is Timing.EVALUATION or known[switch.name].timed_on is not Timing.EVALUATION:
            proof |= expected(known[switch.name], switch.level)
    return Job(
        cell=cell,
        size=workload.at(cell.size, cell.batch),
        recipe=compose(workload, cell.switches, known),
        proof=proof,
        timing=block.timing,
        protocol=ready.plan.protocol,
        data=str(data[cell.workload, cell.size]),
        device=ready.environment.device,
        seed=ready.plan.seed + restart,
        is_reference=position == 0,
        workload_path=workload.path,
        service=None,
    )


@contextmanager
def stopping_on_terminate() -> Iterator[None]:
    """Treats SIGTERM, as a scheduler sends it, like Ctrl-C."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
