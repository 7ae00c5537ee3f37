"""`doctor`: is this machine fit to measure?"""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from harness.core.parallel import cgroup_cpu_quota, usable_cores
from harness.measure.gpu import GpuSettings, driver_of, multi_process_service, read_settings
from harness.measure.surroundings import (
    PACKAGES,
    cpu_name,
    governor,
    memory_limit_bytes,
    package_version,
    processes_on_gpu,
    read_gpu,
    read_variables,
    unused_gpu,
)
from harness.measure.unwritten import reads_unwritten
from harness.run.data import data_root

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
    yield from _memory()
    yield from _gpu()
    yield _disk("room for data", data_root(data), 2 * GIB)
    yield _disk("room for results", results, GIB // 10)
    yield _shared_memory()
    yield from _software()
    yield _variables()


def _processor() -> Iterator[Finding]:
    cores, quota = usable_cores(), cgroup_cpu_quota()
    yield Finding("good" if cores > 1 else "note", "processor", f"{cpu_name()}, {cores} usable cores",
                  "" if cores > 1 else "loader workers will share the trainer's core")  # fmt: skip
    yield Finding("good", "cgroup limit", f"{quota:g} cores" if quota else "none")
    speed = governor()
    fixed = speed in (None, "performance")
    yield Finding("good" if fixed else "note", "frequency governor", speed or "not shown by the kernel",
                  "" if fixed else "set it to performance: clocks that follow the load widen intervals")  # fmt: skip
    load = os.getloadavg()[0] / cores
    busy = load > 0.5
    yield Finding("note" if busy else "good", "load", f"{load:.2f} a core over the last minute",
                  "stop other work: it widens every interval" if busy else "")  # fmt: skip


def _memory() -> Iterator[Finding]:
    limit, free = memory_limit_bytes(), psutil.virtual_memory().available
    tight = free < 4 * GIB
    yield Finding("note" if tight else "good", "memory", f"{limit / GIB:.1f} GiB, {free / GIB:.1f} GiB free",
                  "choose --size smoke, or free some" if tight else "")  # fmt: skip


def _gpu() -> Iterator[Finding]:
    gpu = read_gpu()
    if not gpu:
        unused = unused_gpu()
        yield Finding("note", "GPU", "one that is not used" if unused else "none answers",
                      unused or "the CPU is measured; configurations that need CUDA say so")  # fmt: skip
        yield from _convolutions()
        return
    others = processes_on_gpu()
    yield Finding("good", "GPU", f"{gpu['name']}, driver {gpu['driver']}")
    yield Finding("note" if others else "good", "processes on the GPU", _NOT_TOLD if others is None else str(others),
                  "end them: two programs on one GPU measure each other" if others else "")  # fmt: skip
    yield from _gpu_settings(read_settings(driver_of()))
    service = multi_process_service()
    yield Finding("note" if service else "good", "Multi-Process Service", service or "absent",
                  "stop it (echo quit | nvidia-cuda-mps-control): suspended arms were never tried under it"
                  if service else "")  # fmt: skip


def _convolutions() -> Iterator[Finding]:
    spoiled = reads_unwritten()
    if spoiled is not None:
        yield Finding("note" if spoiled else "good", "convolutions in bfloat16",
                      "some read memory that nobody wrote" if spoiled else "read what was written",
                      "their losses may be no numbers; ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 cures it and is slower"
                      if spoiled else "")  # fmt: skip


def _gpu_settings(found: GpuSettings) -> Iterator[Finding]:
    clock, most, memory = map(_megahertz, (found.clock_mhz, found.most_clock_mhz, found.memory_clock_mhz))
    yield Finding("good", "GPU clocks", f"{clock} now, {most} at most, memory {memory}")
    limit = found.power_limit_w
    yield Finding("good", "GPU power limit", _NOT_TOLD if limit is None else f"{limit:,.0f} W")
    kept = {None: _NOT_TOLD, True: "on", False: "off"}[found.persistent]
    yield Finding("note" if found.persistent is False else "good", "GPU persistence mode", kept,
                  "starts take longer: the driver is loaded anew for the first program"
                  if found.persistent is False else "")  # fmt: skip
    errors = found.memory_errors
    yield Finding("bad" if errors else "good", "GPU memory errors", _NOT_TOLD if errors is None else f"{errors:,}",
                  "take another GPU: what this one computes cannot be trusted" if errors else "")  # fmt: skip


def _megahertz(clock: float | None) -> str:
    return _NOT_TOLD if clock is None else f"{clock:,.0f} MHz"


def _disk(what: str, folder: Path, least: int) -> Finding:
    existing = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not os.access(existing, os.W_OK):
        return Finding("bad", what, f"{existing} is not writable", "choose another folder")
    free = shutil.disk_usage(existing).free
    enough = free > least
    return Finding("good" if enough else "bad", what, f"{free / GIB:.1f} GiB free",
                   "" if enough else f"needs {least / GIB:.1f} GiB")  # fmt: skip


def _shared_memory() -> Finding:
    path = Path("/dev/shm")  # noqa: S108  where loader workers hand over their batches
    if not path.is_dir():
        return Finding("note", "shared memory", f"{path} does not exist", "loader workers may not start")
    free = shutil.disk_usage(path).free
    enough = free > GIB // 4
    return Finding("good" if enough else "bad", "shared memory", f"{free / GIB:.1f} GiB free",
                   "" if enough else "loader workers need it: in a container, start it with --shm-size=2g")  # fmt: skip


def _software() -> Iterator[Finding]:
    for name in PACKAGES:
        version = package_version(name)
        yield Finding("good" if version else "note", name, version or "not installed",
                      "" if version else "workloads that need it are skipped with words")  # fmt: skip
    compiler = shutil.which("g++")
    yield Finding("good" if compiler else "note", "C++ compiler", "g++" if compiler else "none",
                  "" if compiler else "torch.compile needs one on a CPU")  # fmt: skip


def _variables() -> Finding:
    found = " ".join(f"{name}={value}" for name, value in read_variables(os.environ))
    return Finding("note" if found else "good", "variables", found or "none by which libraries compute otherwise",
                   "unset what is not meant to be measured: a run names them as part of its environment"
                   if found else "")  # fmt: skip
