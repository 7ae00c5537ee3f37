"""`run`: measures a plan, shows how it goes, and prints the matrix."""

import errno
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
from harness.analyze.calibration import calibrate
from harness.analyze.estimate import precisions
from harness.analyze.verdict import UNCALIBRATED, Thresholds
from harness.catalogue import Catalogue, read_catalogue
from harness.cli.planning import Prepared, Wish, prepared, protocol_named, tell_unused_gpu, usual_size
from harness.cli.progress import Progress, preparing_all
from harness.cli.reading import calibration_beside, console, decides, matrix_of, print_matrix
from harness.core.configuration import compose, expected
from harness.core.environment import differing
from harness.core.mistake import Mistake
from harness.core.optimization import Timing
from harness.core.plan import Block
from harness.core.recipe import Value
from harness.measure.surroundings import free_bytes, read_environment
from harness.plan.cost import Forecast
from harness.plan.schedule import by_replicate
from harness.report.calibration import calibration_parts
from harness.report.document import show as show_parts
from harness.run.arm import Job, ProcessArm
from harness.run.data import data_folder, data_root, ensure_all
from harness.run.execution import Campaign
from harness.run.lock import measuring_alone
from harness.run.sentinel import Sentinel
from harness.run.services import START_LIMIT_S, serving
from harness.store import (
    IN_PROGRESS,
    RUN,
    Journal,
    Run,
    create,
    finish,
    in_progress,
    read_records,
    read_run,
    stamp_of,
    unfinished,
)

# Resuming: which unfinished run a command goes on with, and when it must not.


def resumable(results: Path, run: Run) -> Path | None:
    """The folder of the run that the same command has begun, or None.

    Raises Mistake where it was begun under other conditions: windows of two of them are never one measurement.
    """
    found = in_progress(results, run.digest)
    # A damaged one is noticed before anything is written beside it; one of a former baseline is left alone.
    if found is not None and read_run(found).plan == run.plan:
        return found
    for folder, other in _begun_elsewise(results, run):
        raise Mistake(
            f"This command has begun the run in {folder} under other conditions: {'; '.join(changes(other, run))}. "
            "Restore them to continue it, or begin anew with --fresh."
        )
    return None


def changes(before: Run, now: Run) -> Iterator[str]:
    """What differs between the conditions of two runs, each as `name was, now is`."""
    if before.version != now.version:
        yield f"speedmatrix was {before.version}, now is {now.version}"
    for name, was, is_now in differing(before.environment, now.environment):
        yield f"{name} was {_shown(was)}, now is {_shown(is_now)}"


def clock_note(results: Path, run: Run) -> str | None:
    """Words where a run says that it began later than now, as after a clock that went back; else None."""
    folders = (path.parent.name for path in (results / run.environment.machine).glob(f"*/{RUN}"))
    newest = max(folders, default="")
    if newest.partition("-")[0] <= stamp_of(run):
        return None
    return (
        f"The clock says {run.began}, and the run {newest} says that it began later. Nothing is lost by that, but "
        "reports take the run with the later name for the newest."
    )


def _begun_elsewise(results: Path, run: Run) -> Iterator[tuple[Path, Run]]:
    """Unfinished runs of the same plan or command on this machine under other conditions, the newest first.

    One that is older than a run of today's conditions was left behind on purpose, by --fresh.
    """
    machine = results / run.environment.machine
    since = max((path.name for path in machine.glob(f"*-{run.digest}")), default="")
    for folder in reversed(unfinished(results)):
        other = _readable(folder) if folder.parent == machine and folder.name > since else None
        if other is None or other.rehearsed != run.rehearsed:
            continue
        same = other.plan == run.plan or other.command == run.command
        if same and any(changes(other, run)):
            yield folder, other


def _readable(folder: Path) -> Run | None:
    """What a run is; None of one that is damaged: nobody could continue it, and whoever reports it is told."""
    try:
        return read_run(folder)
    except Mistake:
        return None


def _shown(fact: str | int | None) -> str:
    return "missing" if fact is None else str(fact)


# Starting: arms and looks at free memory, with a sentence where the system or the device gives no more.


def started(job: Job, sentinel: Sentinel, deadline_s: float) -> ProcessArm:
    """An arm that has started; raises Mistake where the system starts no more processes."""
    try:
        return ProcessArm(job, sentinel, deadline_s)
    except OSError as error:
        raise Mistake(
            f"Cannot start another process ({error.strerror}); what was measured is kept: see ulimit -a, make room, "
            "and give the same command again."
        ) from error


def free_memory(device: str) -> tuple[int, ...]:
    """Memory that could be had now, of the host and of the device; raises Mistake when the device is gone."""
    if device != "cuda":
        return free_bytes(device)
    import pynvml

    try:
        return free_bytes(device)
    except pynvml.NVMLError as error:
        raise Mistake(
            f"The driver no longer answers for the GPU ({error}); what was measured is kept: see nvidia-smi and dmesg, "
            "reset the device or the machine, and give the same command again."
        ) from error


# Replacing: a file that is written beside itself and then renamed, so that nobody ever reads half of it.


def replace_file(path: Path, content: bytes, remedy: str) -> None:
    """Writes a file whole or not at all, down to the disk; raises Mistake with the remedy where that cannot be."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        _keep_name(path.parent)
    except OSError as error:
        raise Mistake(f"Cannot write {path} ({error.strerror}); {remedy}.") from error
    finally:
        if partial.is_file():
            partial.unlink()


def _keep_name(folder: Path) -> None:
    """The new name is safe only when the folder that holds it is."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:  # of a file system that keeps no folders
            raise
    finally:
        os.close(descriptor)


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
        return _measure(wish, place, shown or partial(show_matrix, wish.own))
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
    kept = by_replicate(read_records(folder) if folder else ())
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


def show_matrix(own: Path | None, folder: Path, *, verbose: bool = False) -> int:
    """Prints what a run says, on one screen or in full; gives 1 where it has no ratio, else 0."""
    matrix = matrix_of(folder)
    print_matrix(matrix, folder, read_catalogue(own), verbose=verbose)
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
    root, configs = data_root(place.data), (block.reference for block in ready.plan.blocks)
    own = (config for config in configs if config.workload not in ready.real_data)
    return not all(data_folder(root, ready.catalogue.workload(config.workload), config.size).exists() for config in own)


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

        def start(block: Block, replicate: int, position: int) -> ProcessArm:
            job = job_of(ready, data, block, replicate, position)
            job = replace(job, service=services.get(job.config.workload))
            return started(job, sentinel, ends_s)

        thresholds = _thresholds(folder)
        progress = Progress(ready.plan, Console(), records, lambda: campaign.left_s, thresholds)
        campaign = Campaign(
            plan=ready.plan, records=records, start=start, append=journal.append, watcher=progress,
            clock=monotonic, deadline_s=deadline_s, plan_ends_s=plan_ends_s, paces=ready.paces,
            arm_s={} if arm_s is None else arm_s,
            precisions=partial(precisions, thresholds=thresholds), free=partial(free_memory, ready.environment.device),
        )  # fmt: skip
        with progress:
            if campaign.run():
                finish(folder)
            elif not campaign.windows:
                sys.stderr.write(NOTHING_TIMED)
    finally:
        closing.close()
        sentinel.close()
        journal.close()


def _thresholds(folder: Path) -> Thresholds:
    """What the machine's calibration decides for every interval: looks and reports must know the same width."""
    calibration = calibration_beside(folder, read_run(folder))
    return calibration.thresholds if calibration else UNCALIBRATED


def served_in(
    ready: Prepared, data: dict[tuple[str, str], Path], sentinel: Sentinel, ends_s: float = inf
) -> Iterator[tuple[str, AbstractContextManager[str]]]:
    """The services that the plan's configurations talk to, by workload, each started before the time is over."""
    for (name, size), folder in data.items():
        workload = ready.catalogue.workload(name)
        configs = {config for one in ready.plan.comparisons for config in (one.treatment, one.reference)}
        recipes = [
            compose(workload, config.options, ready.catalogue.known)
            for config in configs
            if (config.workload, config.size) == (name, size)
        ]
        if workload.service and any(workload.service.wanted(recipe) for recipe in recipes):
            yield name, serving(workload.service, folder, sentinel, min(START_LIMIT_S, max(1.0, ends_s - monotonic())))


def job_of(ready: Prepared, data: dict[tuple[str, str], Path], block: Block, replicate: int, position: int) -> Job:
    """The job of one arm of a block."""
    config = block.reference if position == 0 else block.comparisons[position - 1].treatment
    workload, known = ready.catalogue.workload(config.workload), ready.catalogue.known
    proof: dict[str, Value] = {}
    for option in config.options:
        # What changes the evaluation alone can be seen only where an evaluation is timed.
        if block.timing is Timing.EVALUATION or known[option.name].timed_on is not Timing.EVALUATION:
            proof |= expected(known[option.name], option.level)
    return Job(
        config=config,
        size=workload.at(config.size, config.batch),
        recipe=compose(workload, config.options, known),
        proof=proof,
        timing=block.timing,
        protocol=ready.plan.protocol,
        data=str(data[config.workload, config.size]),
        device=ready.environment.device,
        seed=ready.plan.seed + replicate,
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


# `calibrate`: measures what this machine can tell, and prints what came of it.

TARGET = "2%"  # a delay of 3 % can be told from nothing by intervals of such a width, and not by much wider ones


def measure_and_show(wish: Wish, place: Place) -> int:
    """Calibrates this machine; gives 0, or 1 when it failed, or what `run` gives when it was stopped."""
    return measure(replace(wish, workloads=wish.workloads or _quick_ones(wish)), place, show)


def _quick_ones(wish: Wish) -> tuple[str, ...]:
    """Workloads whose steps are short beside a window: in the same time they show more pairs."""
    catalogue, protocol = read_catalogue(wish.own), protocol_named(wish.protocol)
    if catalogue.own:
        return (catalogue.own,)
    size = wish.size or usual_size(read_environment(wish.device))
    found = tuple(name for name, step_s in _step_s(catalogue, size) if not protocol.is_slow(step_s))
    if not found:
        raise Mistake(
            f"Every workload's step is slow at size {size}; name those that are to calibrate, or --size quick."
        )
    return found


def _step_s(catalogue: Catalogue, size: str) -> list[tuple[str, float]]:
    return [(name, one.sizes[size].step_s) for name, one in sorted(catalogue.workloads.items()) if size in one.sizes]


def show(folder: Path) -> int:
    """Prints what a run of the design `calibration` says of its machine; gives 1 where it failed."""
    run = read_run(folder)
    found, where = calibrate(run.plan, read_records(folder)), console()
    show_parts(calibration_parts(found), where)
    if (folder / IN_PROGRESS).exists():
        where.print(f"Not finished, so nothing rests on it yet: the same command continues {folder}.", highlight=False)
        return 0 if found.copies else 1
    rests = (
        "every report of this machine and environment rests on it" if decides(run) else "too small to decide anything"
    )
    where.print(f"Kept in {folder}; {rests}.", highlight=False)
    return 0 if found.passed else 1
