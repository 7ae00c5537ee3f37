"""Preparation: a request on this machine becomes a plan, with the files, services and jobs that its arms need."""

import fcntl
import os
import re
import shlex
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import ceil, gcd, inf, lcm
from pathlib import Path
from time import CLOCK_BOOTTIME, clock_gettime, monotonic
from types import FrameType

from harness import __version__
from harness.catalogue import code_digest, read_catalogue
from harness.core.catalogue import Catalogue
from harness.core.configuration import Configuration, compose, expected
from harness.core.emulation import emulation_of, is_emulated
from harness.core.environment import Environment
from harness.core.mistake import Mistake
from harness.core.optimization import Optimization, Timing
from harness.core.own_file import installed_in
from harness.core.plan import Block, Plan, Request
from harness.core.recipe import Recipe, Value
from harness.core.records import Ready, Record
from harness.core.workload import Size
from harness.measure.surroundings import file_system, free_bytes, read_environment, unread
from harness.plan.cost import Forecast, Pace
from harness.plan.planning import USUAL_SIZE, chosen_workloads, first_what_is_claimed, paces_of, planned
from harness.plan.schedule import by_replicate
from harness.run.arm import Hosts, Job, ProcessArm
from harness.run.data import START_LIMIT_S, data_folder, data_root, ensure_all, serving
from harness.run.sentinel import Sentinel
from harness.store import Run, read_records, resumable

# One measurement at a time, and how it is stopped.


LONGEST_COMMAND = 200  # characters of it that another campaign is told


@contextmanager
def measuring_alone(path: Path | None = None) -> Iterator[None]:
    """Holds the machine for one campaign; raises Mistake with the owner when another one has it.

    The kernel frees the lock when its owner ends, however it ends.
    """
    descriptor = _opened(path or _usual_place())
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Mistake(_taken(os.pread(descriptor, 1000, 0).decode(errors="replace"))) from None
        _sign(descriptor)
        _measuring.append(threading.get_ident())
        try:
            yield
        finally:
            _measuring.remove(threading.get_ident())
    finally:
        os.close(descriptor)


_measuring: list[int] = []  # threads of this process that hold the machine


def is_measuring() -> bool:
    """Whether this thread holds the machine, within `measuring_alone`."""
    return threading.get_ident() in _measuring


def _usual_place() -> Path:
    try:
        return Path(tempfile.gettempdir()) / "speedmatrix-measuring.lock"
    except FileNotFoundError:
        raise Mistake("No folder for temporary files can be written; set TMPDIR to one that can.") from None


def _opened(path: Path) -> int:
    """The lock's file; another user's may be read alone, which suffices to lock it."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as first:
        try:
            return os.open(path, os.O_RDONLY)
        except OSError:
            raise Mistake(
                f"Cannot lock {path} ({first.strerror}), which keeps two measurements apart; "
                "set TMPDIR to a folder that can be written."
            ) from first


def _sign(descriptor: int) -> None:
    """Writes who holds the lock, for whoever meets it: a number, the hour, the command."""
    command = shlex.join(["speedmatrix", *sys.argv[1:]])[:LONGEST_COMMAND]
    owner = f"{os.getpid()}\n{datetime.now(UTC).strftime('%H:%M:%S UTC on %d %B %Y')}\n{command}\n"
    if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        return
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, owner.encode(), 0)


def _taken(signature: str) -> str:
    """The sentence for whoever came second; a file that tells nothing is somebody's whom we may not name."""
    process, since, command, *_ = [*signature.splitlines(), "", "", ""]
    if not process.isdigit() or not Path(f"/proc/{process}").exists():
        return "Another user's process is measuring on this machine; wait for it to end."
    return (
        f"Process {process} is measuring on this machine (since {since}: {command}); "
        f"wait for it, or stop it with: kill {process}"
    )


@contextmanager
def stopping_on_terminate() -> Iterator[None]:
    """Treats SIGTERM, as a scheduler sends it, like Ctrl-C; a thread beside the first leaves signals alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


# Preparation: a request on this machine becomes a plan, with the files, services and jobs that its arms need.


Data = dict[tuple[str, str], Path]  # folders by workload and size


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where results and data go, and how long it may take."""

    results: Path = Path("results")
    data: Path | None = None  # None: the usual cache
    budget: str = "10m"
    fresh: bool = False  # a new run in place of an unfinished one


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A request understood: the plan and what it was made from."""

    catalogue: Catalogue
    environment: Environment
    plan: Plan
    real_data: Mapping[str, Path] = field(default_factory=dict)  # by workload
    command: str = ""  # that asked for it, as others can give it
    _recipes: dict[Configuration, Recipe] = field(default_factory=dict, init=False, repr=False, compare=False)

    def recipe(self, config: Configuration) -> Recipe:
        """The recipe of a configuration, composed when it is first asked for."""
        if config not in self._recipes:
            workload = self.catalogue.workload(config.workload)
            self._recipes[config] = compose(workload, config.options, self.catalogue.known)
        return self._recipes[config]

    @property
    def paces(self) -> dict[str, Pace]:
        """How fast the baseline steps of the plan's workloads are, about."""
        return paces_of(self.plan, self.catalogue, self.environment)

    def code(self, *, jobs: bool = False) -> str:
        """Digest of all code that the plan's arms run, that of the user's own jobs with it or without."""
        names = dict.fromkeys(block.reference.workload for block in self.plan.blocks)
        return code_digest(map(self.catalogue.workload, names), jobs=jobs)

    def free_bytes(self) -> tuple[int, ...]:
        """Memory that could be had now, of the host and of the device; raises Mistake when the device is gone."""
        return free_bytes(self.environment.device)


def environment_of(request: Request) -> Environment:
    """The environment that is planned for; raises Mistake where the device is not there."""
    return request.environment or read_environment(request.device)


def prepared(request: Request, command: str = "") -> Prepared:
    """The plan of a request on this machine; raises Mistake for whatever cannot be."""
    catalogue = read_catalogue(request.own)
    environment = environment_of(request)
    chosen = chosen_workloads(request, catalogue)
    catalogue = with_readers(catalogue, environment, chosen)
    size = request.size or USUAL_SIZE
    real_data = roots(request.data_roots, catalogue, chosen)
    catalogue = adopted(catalogue, real_data, size)
    plan = planned(request, catalogue, environment)
    data = {name: described(catalogue.workload(name).sizes[size], folder) for name, folder in real_data.items()}
    named = (catalogue.workload(name) for name in chosen)
    data |= {one.name: one.source for one in named if one.source}
    plan = replace(plan, data=data, blocks=tuple(first_what_is_claimed(plan.blocks, catalogue, environment)))
    return Prepared(catalogue=catalogue, environment=environment, plan=plan, real_data=real_data, command=command)


def with_readers(catalogue: Catalogue, environment: Environment, chosen: Collection[str]) -> Catalogue:
    """The catalogue, whose chosen workloads say so where their files can be neither written nor read."""
    ours = (one for one in catalogue.workloads.values() if one.path is None and one.name in chosen)
    told = {one.name: replace(one, unread=reason) for one in ours if (reason := unread(one, environment.packages))}
    return replace(catalogue, workloads={**catalogue.workloads, **told})


def run_of(ready: Prepared) -> Run:
    """A run of a plan that begins now."""
    return Run(
        began=datetime.now(UTC).isoformat(timespec="seconds"),
        version=__version__,
        command=ready.command,
        rehearsed=False,
        environment=ready.environment,
        plan=ready.plan,
        code=ready.code(),
    )


def forecast_of(ready: Prepared, place: Place) -> Forecast:
    """How long the plan is going to take, the run that is continued considered."""
    folder = None if place.fresh else resumable(place.results, run_of(ready))
    kept = by_replicate(read_records(folder) if folder else ())
    return Forecast(plan=ready.plan, kept=kept, paces=ready.paces, arm_s={})


# Real data in place of the suite's own: `--data-root [WORKLOAD=]PATH` into checked folders.


def roots(texts: Iterable[str], catalogue: Catalogue, chosen: tuple[str, ...]) -> dict[str, Path]:
    """The folder of each workload that real data are given for; raises Mistake for what cannot be meant."""
    found: dict[str, Path] = {}
    for text in texts:
        name, separator, path = text.partition("=")
        if not separator or name not in catalogue.workloads:
            if len(chosen) != 1:
                raise Mistake(f"Whose data lie in {text}? Name one workload, or write --data-root WORKLOAD={text}.")
            name, path = chosen[0], text
        if name not in chosen:
            raise Mistake(f"{name} has data but is not measured; name it, or leave out --data-root {text}.")
        if not Path(path).is_dir():
            raise Mistake(f"There is no folder {path}; --data-root takes the folder that holds the data of {name}.")
        found[name] = Path(path).absolute()
    return found


def adopted(catalogue: Catalogue, found: Mapping[str, Path], size: str | None) -> Catalogue:
    """The catalogue with the facts of real data; raises Mistake that says what is wrong with them."""
    workloads = dict(catalogue.workloads)
    for name, folder in found.items():
        workload = catalogue.workload(name)
        if workload.unread:
            raise Mistake(f"The data of {name} cannot be read: {workload.unread}.")
        if workload.adopt is None:
            raise Mistake(f"{name} takes no data from elsewhere; leave out --data-root.")
        adopt, wanted = workload.adopt, [one for one in workload.sizes if size in (None, one)]
        workloads[name] = replace(
            workload, sizes={**workload.sizes, **{one: adopt(folder, workload.sizes[one]) for one in wanted}}
        )
    return replace(catalogue, workloads=workloads)


def described(size: Size, folder: Path) -> str:
    """What real data hold and on what kind of file system, in words, without saying where they lie."""
    facts = ", ".join(f"{value:,} {name.replace('_', ' ')}" for name, value in size.shape.items()) or "no facts given"
    return f"real data on {file_system(folder)}; {facts}; {size.evaluation_items:,} evaluation items"


# The files of a plan's workloads, and the arms that read them.


def own_data(ready: Prepared) -> list[tuple[str, str]]:
    """The workloads and sizes of a plan whose files the suite writes."""
    return [key for key in _keys(ready.plan) if key[0] not in ready.real_data]


def loads_from(ready: Prepared, folder: Path) -> bool:
    """Whether any comparison of a plan times how a workload's real data in a folder are loaded."""
    names = {name for name, place in ready.real_data.items() if place == folder}
    timed = (one.timing for one in ready.plan.comparisons if one.reference.workload in names)
    return any(one is not Timing.COMPUTE for one in timed)


def data_of(ready: Prepared, data: Path | None, show: Callable[[int, float], None]) -> Data:
    """The folders of a plan's data, written now if need be; `show` is told a place in `own_data` and a share."""
    own = own_data(ready)
    wanted = [(ready.catalogue.workload(name), size) for name, size in own]
    written = zip(own, ensure_all(data_root(data), wanted, show), strict=True)
    real = {key: ready.real_data[key[0]] for key in _keys(ready.plan) if key not in own}
    return real | {key: files.folder for key, files in written}


def are_data_missing(ready: Prepared, data: Path | None) -> bool:
    """Whether files of the plan's workloads have still to be written."""
    root = data_root(data)
    return not all(data_folder(root, ready.catalogue.workload(name), size).exists() for name, size in own_data(ready))


def _keys(plan: Plan) -> Iterable[tuple[str, str]]:
    return dict.fromkeys((block.reference.workload, block.reference.size) for block in plan.blocks)


def served_in(
    ready: Prepared, data: Data, sentinel: Sentinel, ends_s: float = inf
) -> Iterator[tuple[str, AbstractContextManager[str]]]:
    """The services that the plan's configurations talk to, by workload, each started before the time is over."""
    for (name, size), folder in data.items():
        workload = ready.catalogue.workload(name)
        configs = {config for one in ready.plan.comparisons for config in (one.treatment, one.reference)}
        recipes = [ready.recipe(config) for config in configs if (config.workload, config.size) == (name, size)]
        if workload.service and any(workload.service.wanted(recipe) for recipe in recipes):
            yield name, serving(workload.service, folder, sentinel, min(START_LIMIT_S, max(1.0, ends_s - monotonic())))


def job_of(ready: Prepared, data: Data, block: Block, replicate: int, position: int) -> Job:
    """The job of one arm of a block."""
    config = block.reference if position == 0 else block.comparisons[position - 1].treatment
    workload, known = ready.catalogue.workload(config.workload), ready.catalogue.known
    size, device = epoch_of(ready, block, config), ready.environment.device
    recipe = ready.recipe(config)
    proof: dict[str, Value] = {}
    for option in config.options:
        # What changes the evaluation alone can be seen only where an evaluation is timed.
        if block.timing is Timing.EVALUATION or known[option.name].timed_on is not Timing.EVALUATION:
            proof |= expected(known[option.name], option.level)
    if config.batch != block.reference.batch:
        proof["update_samples"] = config.batch
    path = workload.path_for(recipe)
    # Where workers load, each arm has to have begun its own to show them.
    alike = block.shared and not recipe.workers and _loads_alike(config, block, known)
    return Job(
        config=config,
        size=size,
        recipe=recipe,
        proof=proof,
        timing=block.timing,
        protocol=ready.plan.protocol,
        data=str(data[config.workload, config.size]),
        device=device,
        emulation=emulation_of(device, workload, config.size, size, recipe) if is_emulated(device) else None,
        seed=ready.plan.seed + replicate,
        other_seeds=position == 0,
        observed=replicate > 0,
        shared=block.shared,
        batches=f"{block.reference} in epochs of {size.epoch_steps} steps" if alike else None,
        workload_path=path,
        installed=installed_in(Path(path)) if path else (),
        service=None,
    )


KEPT = 7 / 8  # of an epoch, at least, where it is shortened


def epoch_of(ready: Prepared, block: Block, config: Configuration) -> Size:
    """The facts of a configuration's size, its epoch so short that every loader worker comes to load all batches of it.

    The order of samples stays the same from epoch to epoch, and batches go to workers in turn: where both numbers share
    a divisor, each worker would load the same batches for ever, and all would wait for the one with the dearest. An
    epoch that would lose too many of its samples stays as it is; so does one that is timed by itself, as workers begin
    anew in it.
    """
    size = ready.catalogue.workload(config.workload).at(config.size, config.batch)
    recipes = [ready.recipe(one) for one in block.arms]
    if block.timing is Timing.EPOCH or size.passes > 1:
        return size
    if any(one.batch != config.batch for one in block.arms) or any(one.keep_last_batch for one in recipes):
        return size  # a shorter epoch would hold other samples in each arm, or no batch before the last
    workers, steps = lcm(*(max(1, one.workers) for one in recipes)), size.epoch_steps
    shorter = next(one for one in range(steps, 0, -1) if gcd(one, workers) == 1)
    if shorter == steps or shorter < KEPT * steps:
        return size
    return replace(size, epoch_steps=shorter, all_items=False)


def _loads_alike(config: Configuration, block: Block, known: Mapping[str, Optimization]) -> bool:
    """Whether an arm that steps on batches of the device gets those of the reference: it differs in its step alone."""
    differing = set(config.options) ^ set(block.reference.options)
    alike = block.timing is Timing.COMPUTE and config.batch == block.reference.batch
    return alike and all(known[one.name].alone_on is Timing.COMPUTE for one in differing)


def known_elsewhere(ready: Prepared, records: Iterable[Record], block: Block, replicate: int) -> bool:
    """Whether an arm before this one had the first losses of a block's reference from the same seed, and their spread.

    A reference without options has no settings to show either, so that it need not begin as it did there. On a CPU
    arms that share a process have the bits of isolated ones; on another device nobody has seen that yet. Epochs of
    another length hold the samples in another order.
    """
    plan, size = ready.plan, epoch_of(ready, block, block.reference)
    same = (one for one in plan.blocks if one.reference == block.reference)
    alike = {one.identity for one in same if epoch_of(ready, one, one.reference) == size}
    return not (plan.protocol.judged_again or block.reference.options) and any(
        isinstance(one, Ready) and one.arm.block in alike and (one.arm.replicate, one.arm.position) == (replicate, 0)
        and (one.arm.shared is block.shared or ready.environment.device == "cpu")
        and one.seed_spread is not None for one in records
    )  # fmt: skip


def started(job: Job, sentinel: Sentinel, deadline_s: float, hosts: Hosts) -> ProcessArm:
    """An arm that has started; raises Mistake where the system starts no more processes."""
    try:
        return ProcessArm(job, sentinel, deadline_s, hosts.of(job) if job.shared else None)
    except OSError as error:
        raise Mistake(
            f"Cannot start another process ({error.strerror}); what was measured is kept: see ulimit -a, make room, "
            "and give the same command again."
        ) from error


# The budget: how long a run may take, and whether it can come to anything.


REPORT_S = 5.0  # kept back from the budget for the report
BEGIN_S = 3.0  # between the check of a budget and the first arm
LONG_S = 300.0  # beyond which a time is told in minutes
STARTED = 19  # place of the start among the fields of /proc/self/stat that stand behind the name


def seconds_of(text: str) -> float | None:
    """Seconds from `90s`, `4m40s` or `2h`; None for `none`; raises Mistake for anything else."""
    if text == "none":
        return None
    match = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", text)
    if not text or not match:
        raise Mistake(f"'{text}' is not a time; write 90s, 4m40s, 2h or none.")
    hours, minutes, seconds = (int(group or 0) for group in match.groups())
    return 3600.0 * hours + 60.0 * minutes + seconds


IMPORTED_S = clock_gettime(CLOCK_BOOTTIME)
MOST_BEFORE_S = 60.0  # that a budget pays for before the harness begins: a slow network must not leave it nothing


def age_s() -> float:
    """Seconds since this process began, imports and installation included, which the budget pays for up to a minute.

    By the clock that counts from the start of the machine: the time of day may be set meanwhile.
    """
    ticks = int(Path("/proc/self/stat").read_text(errors="replace").rpartition(")")[2].split()[STARTED])
    began_s = max(ticks / os.sysconf("SC_CLK_TCK"), IMPORTED_S - MOST_BEFORE_S)
    return max(0.0, clock_gettime(CLOCK_BOOTTIME) - began_s)


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
