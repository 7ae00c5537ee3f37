"""`doctor`, `data`, `rehearse`, `verify`: checks of the machine, the workloads' files, the analysis, the options."""

import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from time import monotonic, perf_counter

import psutil
from rich import box
from rich import progress as bars
from rich.console import Console
from rich.table import Table

from harness import __version__
from harness.analyze.evidence import numerics
from harness.analyze.quality import SKIPPED, Verified, verified
from harness.api import written
from harness.catalogue import read_catalogue
from harness.cli.measuring import Terminal, preparing_all
from harness.core.codec import Malformed, decode, encode
from harness.core.configuration import (
    Comparison,
    Configuration,
)
from harness.core.environment import Environment
from harness.core.mistake import Mistake
from harness.core.optimization import Timing
from harness.core.parallel import cgroup_cpu_quota, usable_cores
from harness.core.plan import Block, Request
from harness.core.records import Lost, Ready
from harness.core.workload import Workload, Yardstick
from harness.measure.gpu import GpuSettings, driver_of, multi_process_service, read_settings
from harness.measure.surroundings import (
    PACKAGES,
    compiler_for,
    cpu_name,
    governor,
    memory_limit_bytes,
    package_version,
    processes_on_gpu,
    read_gpu,
    read_variables,
    unread,
    unusable_by_torch,
    unused_gpu,
)
from harness.measure.unwritten import reads_unwritten
from harness.run.arm import Job
from harness.run.data import ONE_THREAD, Files, data_root, ensure_all, noted_bytes
from harness.run.preparation import (
    Place,
    Prepared,
    job_of,
    measuring_alone,
    prepared,
    served_in,
    stopping_on_terminate,
)
from harness.run.replicate import examined, untimed
from harness.run.sentinel import Sentinel
from harness.store import replace_file

# `doctor`: whether this machine is fit to measure.


GIB = 1 << 30
_NOT_TOLD = "not told by the driver"


@dataclass(frozen=True, slots=True)
class Finding:
    """One fact about the machine: `good`, `note` or `bad`, and what to do about it."""

    grade: str
    what: str
    found: str
    advice: str = ""


def show_health(results: Path, data: Path | None) -> int:
    """Prints the findings; gives 1 when one of them forbids measuring, else 0."""
    findings = list(examine(results, data))
    table = Table(title="Is this machine fit to measure?", title_justify="left")
    for heading in ("", "what", "found", "what to do"):
        table.add_column(heading, overflow="fold")  # a variable that is to be typed must be there whole
    for finding in findings:
        table.add_row(finding.grade, finding.what, finding.found, finding.advice)
    Console(highlight=False).print(table)
    return int(any(finding.grade == "bad" for finding in findings))


def examine(results: Path, data: Path | None) -> Iterator[Finding]:
    """All findings, hardware first."""
    yield from _processor()
    yield _memory()
    yield from _gpu()
    yield _disk("room for data", data_root(data), 2 * GIB)
    yield _disk("room for results", results, GIB // 10)
    yield _shared_memory()
    yield from _software()
    yield _variables()


def _judged_by(what: str, found: str, advice: str, *, bad: bool, grade: str = "note") -> Finding:
    """A finding of the grade `good`; if `bad` holds, of the other grade given and with the advice."""
    return Finding(grade, what, found, advice) if bad else Finding("good", what, found)


def _processor() -> Iterator[Finding]:
    cores, quota, speed = usable_cores(), cgroup_cpu_quota(), governor()
    words = "loader workers will share the trainer's core"
    yield _judged_by("processor", f"{cpu_name()}, {cores} usable cores", words, bad=cores < 2)
    yield Finding("good", "cgroup limit", f"{quota:g} cores" if quota else "none")
    words = "set it to performance: clocks that follow the load widen intervals"
    is_fixed = speed in (None, "performance")
    yield _judged_by("frequency governor", speed or "not shown by the kernel", words, bad=not is_fixed)
    load = os.getloadavg()[0] / cores
    words = "stop other work: it widens every interval"
    yield _judged_by("load", f"{load:.2f} a core over the last minute", words, bad=load > 0.5)


def _memory() -> Finding:
    limit, free = memory_limit_bytes(), psutil.virtual_memory().available
    found = f"{limit / GIB:.1f} GiB, {free / GIB:.1f} GiB free"
    return _judged_by("memory", found, "choose --size smoke, or free some", bad=free < 4 * GIB)


def _gpu() -> Iterator[Finding]:
    gpu = read_gpu()
    if not gpu:
        unused = unused_gpu()
        yield Finding("note", "GPU", "one that is not used" if unused else "none answers",
                      unused or "the CPU is measured; configurations that need CUDA say so")  # fmt: skip
        yield from _convolutions()
        return
    others = processes_on_gpu()
    unusable = unusable_by_torch(gpu)
    yield _judged_by("GPU", f"{gpu['name']}, driver {gpu['driver']}", unusable or "", bad=bool(unusable), grade="bad")
    words = "end them: two programs on one GPU measure each other"
    found = _NOT_TOLD if others is None else str(others)
    yield _judged_by("processes on the GPU", found, words, bad=bool(others))
    yield from _gpu_settings(read_settings(driver_of()))
    service = multi_process_service()
    words = "stop it (echo quit | nvidia-cuda-mps-control): suspended arms were never tried under it"
    yield _judged_by("Multi-Process Service", service or "absent", words, bad=bool(service))


def _convolutions() -> Iterator[Finding]:
    spoiled = reads_unwritten()
    if spoiled is not None:
        found = "some read memory that nobody wrote" if spoiled else "read what was written"
        words = "their losses may be no numbers; ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 cures it and is slower"
        yield _judged_by("convolutions in bfloat16", found, words, bad=bool(spoiled))


def _gpu_settings(found: GpuSettings) -> Iterator[Finding]:
    clocks = (found.clock_mhz, found.most_clock_mhz, found.memory_clock_mhz)
    clock, most, memory = (_NOT_TOLD if one is None else f"{one:,.0f} MHz" for one in clocks)
    yield Finding("good", "GPU clocks", f"{clock} now, {most} at most, memory {memory}")
    limit = found.power_limit_w
    yield Finding("good", "GPU power limit", _NOT_TOLD if limit is None else f"{limit:,.0f} W")
    kept = {None: _NOT_TOLD, True: "on", False: "off"}[found.persistent]
    words = "starts take longer: the driver is loaded anew for the first program"
    yield _judged_by("GPU persistence mode", kept, words, bad=found.persistent is False)
    errors = found.memory_errors
    told, words = (
        _NOT_TOLD if errors is None else f"{errors:,}",
        "take another GPU: what this one computes cannot be trusted",
    )
    yield _judged_by("GPU memory errors", told, words, bad=bool(errors), grade="bad")


def _disk(what: str, folder: Path, least: int) -> Finding:
    existing = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not os.access(existing, os.W_OK):
        return Finding("bad", what, f"{existing} is not writable", "choose another folder")
    free = shutil.disk_usage(existing).free
    words = f"needs {least / GIB:.1f} GiB"
    return _judged_by(what, f"{free / GIB:.1f} GiB free", words, bad=free <= least, grade="bad")


def _shared_memory() -> Finding:
    path = Path("/dev/shm")  # noqa: S108  where loader workers hand over their batches
    if not path.is_dir():
        return Finding("note", "shared memory", f"{path} does not exist", "loader workers may not start")
    free = shutil.disk_usage(path).free
    words = "loader workers need it: in a container, start it with --shm-size=2g"
    return _judged_by("shared memory", f"{free / GIB:.1f} GiB free", words, bad=free <= GIB // 4, grade="bad")


def _software() -> Iterator[Finding]:
    for name in PACKAGES:
        version = package_version(name)
        words = "workloads that need it are skipped with words"
        yield _judged_by(name, version or "not installed", words, bad=not version)
    compiler = compiler_for("cuda" if read_gpu() else "cpu")
    words = "torch.compile needs one: g++, on a GPU gcc or clang with Python's headers"
    yield _judged_by("compiler", compiler or "none", words, bad=not compiler)


def _variables() -> Finding:
    found = " ".join(f"{name}={value}" for name, value in read_variables(os.environ))
    words = "unset what is not meant to be measured: a run names them as part of its environment"
    return _judged_by("variables", found or "none by which libraries compute otherwise", words, bad=bool(found))


# `data write` writes the workloads' files; `data check` tells whether they weigh and cost what real ones do.

TOLERANCE = 0.2  # of bytes and of costs, either way
TURNS, LONG_ENOUGH_S, TOO_LONG_S = 5, 1.0, 25.0  # work and its like take turns so often and so long, or too long


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """A yardstick held against our files."""

    yardstick: Yardstick
    work_s: float  # for one whole real unit
    like_s: float | None

    @property
    def bytes_ratio(self) -> float:
        """Ours over the real system's, or over the share of them that a smaller size stands for."""
        return self.yardstick.mean_bytes / (self.yardstick.scale * self.yardstick.target_bytes)

    @property
    def cost_ratio(self) -> float | None:
        """Ours over a neutral file's of the real type and size."""
        return self.work_s / self.like_s if self.like_s else None

    @property
    def fits(self) -> bool:
        """Whether bytes and cost lie within the tolerance."""
        return all(abs(one - 1) <= TOLERANCE for one in (self.bytes_ratio, self.cost_ratio) if one is not None)


def write(names: tuple[str, ...], size: str, data: Path | None) -> int:
    """Writes what is missing and verifies the rest, then tells bytes and seconds; 130 when it was stopped."""
    chosen, console = _chosen(names, size), Console(highlight=False)
    began_s = monotonic()
    try:
        with measuring_alone(), stopping_on_terminate():
            found = _files(chosen, size, data, console)
    except KeyboardInterrupt:
        sys.stderr.write("Stopped; what was complete is kept, and the same command writes the rest.\n")
        return 130
    lengths = [noted_bytes(one.folder) for one in found]
    table = Table("workload", "MB", "seconds", title=f"Files at size {size}", title_justify="left")
    for workload, files, length in zip(chosen, found, lengths, strict=True):
        taken = "was there" if files.written_s is None else f"{files.written_s:.0f}"
        table.add_row(workload.name, f"{length / 1e6:,.0f}", taken)
    table.add_section()
    table.add_row("all", f"{sum(lengths) / 1e6:,.0f}", f"{monotonic() - began_s:.0f}")
    console.print(table)
    return 0


def check(names: tuple[str, ...], size: str, data: Path | None) -> int:
    """Writes what is missing, verifies the rest, weighs all; gives 1 when something does not fit, else 0."""
    os.environ |= ONE_THREAD
    chosen, console = _chosen(names, size), Console(highlight=False)
    found = []
    with measuring_alone(), stopping_on_terminate():
        for workload, files in zip(chosen, _files(chosen, size, data, console), strict=True):
            weighed = list(weigh(workload, files.folder, size))
            found += weighed
            _print_weights(workload, size, weighed, console)
    if not all(one.fits for one in found):
        console.print(f"Not everything lies within {TOLERANCE:.0%}; on a busy machine, try again.")
        return 1
    return 0


def _chosen(names: tuple[str, ...], size: str) -> list[Workload]:
    catalogue = read_catalogue()
    chosen = [catalogue.workload(name) for name in dict.fromkeys(names) or sorted(catalogue.workloads)]
    for workload in chosen:
        if size not in workload.sizes:
            raise Mistake(f"{workload.name} has no size '{size}'; choose one of {', '.join(workload.sizes)}.")
    lacking = {one.name: reason for one in chosen if (reason := unread(one))}
    for name, reason in lacking.items():
        if name in names:
            raise Mistake(f"The data of {name} can be neither written nor read: {reason}.")
        sys.stderr.write(f"{name} is left out: {reason}.\n")
    return [one for one in chosen if one.name not in lacking]


def _files(chosen: list[Workload], size: str, data: Path | None, console: Console) -> list[Files]:
    with preparing_all([f"{one.name}: writing its files" for one in chosen], console) as show:
        return ensure_all(data_root(data), [(one, size) for one in chosen], show)


def weigh(workload: Workload, folder: Path, size: str) -> Iterator[Weighed]:
    """Every yardstick of a workload, its work and its like in turns so that both see the same machine."""
    for yardstick in workload.parts().yardsticks(folder, workload.sizes[size]):
        work: list[float] = []
        like: list[float] = []
        _seconds(yardstick.work)  # brings code and files into memory
        began = perf_counter()
        while (spent_s := perf_counter() - began) < LONG_ENOUGH_S or (len(work) < TURNS and spent_s < TOO_LONG_S):
            work.append(_seconds(yardstick.work))
            if yardstick.like:
                like.append(_seconds(yardstick.like))
        units = yardstick.units
        work_s = median(work) / units / yardstick.scale
        yield Weighed(yardstick=yardstick, work_s=work_s, like_s=median(like) / units if like else None)


def _seconds(call: Callable[[], object]) -> float:
    began = perf_counter()
    call()
    return perf_counter() - began


def _print_weights(workload: Workload, size: str, weighed: list[Weighed], console: Console) -> None:
    if not weighed:
        console.print(f"{workload.name}@{size}: whole; no real files are known to hold it against.")
        return
    table = Table(
        *("what", "bytes", "real", "ratio", "ms", "neutral file, ms", "ratio", "published, ms", "fits"),
        title=f"{workload.name}@{size} against the real system's files",
        title_justify="left",
    )
    for one in weighed:
        cost = (_ms(one.work_s), _ms(one.like_s), _times(one.cost_ratio))
        published = one.yardstick.published_ms
        table.add_row(
            one.yardstick.what,
            f"{one.yardstick.mean_bytes:,.0f}",
            f"{one.yardstick.scale * one.yardstick.target_bytes:,.0f}",
            _times(one.bytes_ratio),
            *cost,
            "—" if published is None else f"{published:,.4g}",
            "yes" if one.fits else "[red]no[/red]",
        )
    console.print(table)


def _ms(seconds: float | None) -> str:
    return "—" if seconds is None else f"{1000 * seconds:,.3g}"


def _times(ratio: float | None) -> str:
    return "—" if ratio is None else f"{ratio:.2f}"


FOLDER = "verified"  # under the machine's results


def verify(request: Request, place: Place, steps: int) -> int:
    """Verifies and prints; gives 0 when every promise was kept, else 1."""
    ready, console = prepared(request), Console(highlight=False)
    folder, is_part = place.results / ready.environment.machine / FOLDER, bool(request.only or request.stack)
    for workload in dict.fromkeys(one.reference.workload for one in ready.plan.blocks) if is_part else ():
        _known(folder / f"{workload}.json", _facts(workload, ready, steps))  # or refused, before anything is tried
    with measuring_alone():
        arms = _arms(ready, place.data, steps, console)
    found = [_judged(one, block, arms, ready) for block in ready.plan.blocks for one in block.comparisons]
    found += [
        Verified(workload=one.workload, label=one.label, promised=None, status=SKIPPED, sentence=one.reason)
        for one in ready.plan.no_results
    ]
    for workload in dict.fromkeys(one.workload for one in found):
        mine = sorted((one for one in found if one.workload == workload), key=lambda one: one.label)
        console.print(_table(workload, mine))
        _keep(mine, folder / f"{workload}.json", _facts(workload, ready, steps), is_part=is_part)
    counts = Counter(one.status for one in found)
    console.print(f"{len(found)} in all: " + ", ".join(f"{count} {status}" for status, count in counts.most_common()))
    return int(any(one.broken for one in found))


Key = tuple[Configuration, Timing, bool]  # the bool: it is a reference, and so tells how far seeds lie apart


def _arms(ready: Prepared, place: Path | None, steps: int, console: Console) -> Mapping[Key, Ready | Lost]:
    """Every arm of the plan once, however many blocks it stands in."""
    data, sentinel = written(ready, place, Terminal(console)), Sentinel()
    jobs: dict[Key, Job] = {}
    told: dict[Key, Ready | Lost] = {}
    for key, block, position in _wanted(ready):
        job = job_of(ready, data, block, replicate=0, position=position)
        jobs.setdefault(key, replace(job, protocol=untimed(steps)))
    columns = (bars.TextColumn("verifying"), bars.BarColumn(), bars.MofNCompleteColumn(), bars.TimeElapsedColumn())
    with ExitStack() as closing:
        closing.callback(sentinel.close)
        served = {name: closing.enter_context(one) for name, one in served_in(ready, data, sentinel)}
        bar = closing.enter_context(bars.Progress(*columns, bars.TextColumn("{task.description}"), console=console))
        task = bar.add_task("", total=len(jobs))
        for key, job in jobs.items():
            told[key] = examined(replace(job, service=served.get(job.config.workload)), sentinel)
            bar.update(task, advance=1, description=str(job.config))
    return told


def _wanted(ready: Prepared) -> Iterator[tuple[Key, Block, int]]:
    for block in ready.plan.blocks:
        yield (block.reference, block.timing, True), block, 0
        for position, one in enumerate(block.comparisons, 1):
            yield (one.treatment, block.timing, False), block, position


def _judged(one: Comparison, block: Block, arms: Mapping[Key, Ready | Lost], ready: Prepared) -> Verified:
    promised = numerics(one, ready.plan.promises)
    treatment, reference = arms[one.treatment, block.timing, False], arms[block.reference, block.timing, True]
    status, sentence = verified(treatment, reference, promised, block.timing)
    return Verified(
        workload=one.reference.workload, label=one.label, promised=promised, status=status, sentence=sentence
    )


def _table(workload: str, found: list[Verified]) -> Table:
    table = Table("optimization", "promised", "found", "", box=box.SIMPLE_HEAD, title=workload, title_justify="left")
    for one in found:
        status = f"[bold red]{one.status}[/]" if one.broken else str(one.status)
        table.add_row(one.label, str(one.promised or ""), status, one.sentence)
    return table


def _facts(workload: str, ready: Prepared, steps: int) -> dict[str, object]:
    size = next((one.reference.size for one in ready.plan.blocks if one.reference.workload == workload), None)
    return {"version": __version__, "size": size, "steps": steps, "environment": encode(ready.environment)}


ELSEWHERE = "choose another folder with --results"


def _keep(found: list[Verified], path: Path, facts: Mapping[str, object], *, is_part: bool) -> None:
    """Writes what was found beside the machine's runs, in place of what an earlier look at the same gave."""
    rows = encode(found)
    if is_part:
        fresh = {row["subject"] for row in rows}
        kept = (row for row in _known(path, facts) if row["subject"] not in fresh)
        rows = sorted([*rows, *kept], key=lambda row: str(row["subject"]))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Mistake(f"Cannot write {path} ({error.strerror}); {ELSEWHERE}.") from error
    replace_file(path, (json.dumps({**facts, "found": rows}, indent=1) + "\n").encode(), ELSEWHERE)


def _known(path: Path, facts: Mapping[str, object]) -> list[dict[str, object]]:
    """What earlier looks gave; raises Mistake where it is of other circumstances, beside which a part cannot stand."""
    try:
        known = json.loads(path.read_text(encoding="utf-8") if path.exists() else json.dumps({**facts, "found": []}))
        before, rows = _circumstances(known), [{**row, "subject": row["subject"]} for row in known["found"]]
    except (OSError, ValueError, LookupError, TypeError, Malformed) as error:
        raise Mistake(f"{path} cannot be read ({error}); remove it, or {ELSEWHERE}.") from error
    if before != _circumstances(facts):
        raise Mistake(
            f"{path} holds what another version, size, number of steps or environment gave; "
            f"leave --only and --stack out to verify all anew, or {ELSEWHERE}."
        )
    return rows


def _circumstances(facts: Mapping[str, object]) -> tuple[object, ...]:
    environment = decode(Environment, json.loads(json.dumps(facts["environment"])))
    return facts["version"], facts["size"], facts["steps"], environment.digest
