"""Ending: a process group is killed as a whole, and what it left behind in shared memory and in $TMPDIR is removed.

Standard library alone, and little of that: the sentinel imports it and has to be small.
"""

import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.process import current_process
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[2]
PROCESSES, SHARED = Path("/proc"), Path("/dev/shm")  # noqa: S108  where torch leaves batches, not we
OURS = re.compile(r"torch_(\d+)_.*")  # torch names a segment after the process that made it
SUSPENDED = "T"  # by SIGSTOP, in the letters of `state_of`
WAIT_S = 5.0  # a process that holds a device's memory takes a moment to let it go


def command_of(name: str, *words: str) -> list[str]:
    """The command that runs a module of the harness, whatever lies in the folder that it is started from."""
    return [sys.executable, "-P", "-m", name, *words]


def finding_modules(inherited: Mapping[str, str]) -> dict[str, str]:
    """The environment in which such a command finds it; what is installed is found anyhow, behind the user's path."""
    ours = [] if ROOT.name in {"site-packages", "dist-packages"} else [str(ROOT)]
    path = os.pathsep.join([*ours, *filter(None, [inherited.get("PYTHONPATH")])])
    return {**inherited, "PYTHONPATH": path}


def end_groups(groups: Iterable[int]) -> None:
    """Kills process groups, waits for their members to be gone, removes what they had in shared memory and $TMPDIR."""
    groups = frozenset(groups)
    members = members_of(groups)
    for group in groups:
        kill_group(group)
    until = monotonic() + WAIT_S
    while any(map(is_alive, members)) and monotonic() < until:
        sleep(0.01)
    remove_segments(members)
    for one in groups | members:
        shutil.rmtree(_folder_of(one), ignore_errors=True)


def kill_group(group: int) -> None:
    """Kills a process group; one that is gone already is no fault."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def members_of(groups: frozenset[int]) -> frozenset[int]:
    """The processes that belong to any of the groups now."""
    if not PROCESSES.is_dir():
        return groups
    everybody = (int(path.name) for path in PROCESSES.iterdir() if path.name.isdigit())
    return frozenset(one for one in everybody if _group_of(one) in groups)


def state_of(process: int) -> str:
    """The kernel's letter for what a process does (R, S, D, T, Z); empty where there is none of that number."""
    try:
        return (PROCESSES / str(process) / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def is_alive(process: int) -> bool:
    """Whether a process can still do something; one that nobody has waited for yet cannot."""
    return state_of(process) not in {"", "Z", "X"}


def remove_segments(processes: Iterable[int]) -> None:
    """Removes the segments of shared memory that processes of ours had named and did not live to remove."""
    gone = {str(one) for one in processes}
    for path in SHARED.glob("torch_*"):
        name = OURS.fullmatch(path.name)
        if name and name[1] in gone:
            path.unlink(missing_ok=True)


def share_folder() -> None:
    """Gives this process and what it starts one folder for the sockets through which workers hand over memory.

    Otherwise each makes one of its own (multiprocessing.util.get_temp_dir), which stays when it is killed.
    """
    folder = _folder_of(os.getpid())
    with suppress(OSError):
        folder.mkdir(mode=0o700)
        current_process()._config["tempdir"] = str(folder)  # type: ignore[attr-defined]  # noqa: SLF001


LONGEST = 107 - len("/listener-12345678")  # bytes of a folder in which a socket can have a name (unix(7))


def _folder_of(process: int) -> Path:
    """Where sockets would have too long a name, not in $TMPDIR: loader workers would wait for each other for ever."""
    name = f"speedmatrix-{process}"
    folder = Path(tempfile.gettempdir()) / name
    return folder if len(os.fsencode(folder)) <= LONGEST else Path("/tmp") / name  # noqa: S108  the shortest there is


def _group_of(process: int) -> int | None:
    try:
        return os.getpgid(process)
    except ProcessLookupError:
        return None


# Host memory of an arm: what its processes hold when they stand still, and the most that they held before that.
#
# The kernel keeps a high-water mark of every process, in which a shared page counts once for each process that maps it.
# The arm's peak is what lies there now, shared pages counted once, and what each process had beyond that at its own
# peak. It is an upper bound: processes need not peak in the same moment (docs/decisions/peak-of-host-memory.md). What
# an arm shares with others, its imports, counts whole, as it would if it were alone.

HIGH_WATER_MARK = "5"  # what to write into `clear_refs` so that the mark falls to what is resident now; see proc(5)


def begin_peaks(group: int) -> bool:
    """Lets the high-water marks of a group that stands still begin anew; False where the kernel refuses that."""
    refused = [one for one in members_of(frozenset({group})) if not _begin_peak(one)]
    return not refused


def read_memory(group: int, *, begun: bool) -> dict[str, Any]:
    """The fields of a Window that tell of the memory of a group that stands still."""
    members = members_of(frozenset({group}))
    resident, beyond = _resident_bytes(group, members), [_beyond(one) for one in members]
    known = [one for one in beyond if one is not None]
    peak = resident + _unmapped_bytes(members) + sum(known) if members and len(known) == len(beyond) else None
    return {"host_bytes": resident, "host_peak_bytes": peak, "host_peak_since_start": not begun}


def _begin_peak(process: int) -> bool:
    try:
        (PROCESSES / str(process) / "clear_refs").write_text(HIGH_WATER_MARK)
    except OSError:
        return not is_alive(process)
    return True


def _beyond(process: int) -> int | None:
    """What a process had at its peak beyond what is resident now; None where the kernel does not tell."""
    with suppress(OSError):
        lines = (PROCESSES / str(process) / "status").read_text(errors="replace").splitlines()
        told = dict(line.split()[:2] for line in lines if line.startswith(("VmHWM:", "VmRSS:")))
        if len(told) == 2:
            return max(0, int(told["VmHWM:"]) - int(told["VmRSS:"])) * 1024
    return None if is_alive(process) else 0


def _resident_bytes(trainer: int, members: Iterable[int]) -> int:
    """What a group holds, a page that several of it map counted once.

    That is all of the trainer's, what others have for themselves, and of what they share the part that the trainer
    cannot have: more than it shares itself. Of a trainer alone its resident size says as much, and the kernel need not
    walk all of its pages.
    """
    others = [_own_and_shared(one) for one in members if one != trainer]
    own, shared = _own_and_shared(trainer) if others else (_resident(trainer), 0)
    return own + max([shared, *(both for _, both in others)]) + sum(alone for alone, _ in others)


def _own_and_shared(process: int) -> tuple[int, int]:
    """Resident bytes that nobody else maps, and those that others map too; zeros if the process is gone.

    All are its own where the kernel does not tell them apart.
    """
    try:
        lines = (PROCESSES / str(process) / "smaps_rollup").read_text().splitlines()
        told = {line.split()[0]: int(line.split()[1]) * 1024 for line in lines if line.endswith("kB")}
        return told["Private_Clean:"] + told["Private_Dirty:"], told["Shared_Clean:"] + told["Shared_Dirty:"]
    except (OSError, KeyError):
        return _resident(process), 0


def _resident(process: int) -> int:
    with suppress(psutil.Error):
        return int(psutil.Process(process).memory_info().rss)
    return 0


def _unmapped_bytes(members: Iterable[int]) -> int:
    """Torch's shared memory that no process maps: batches that wait on their way from a worker to the trainer."""
    names = {str(one) for one in members}
    named = [path for path in SHARED.glob("torch_*") if (name := OURS.fullmatch(path.name)) and name[1] in names]
    found: dict[int, int] = {}
    for path in [*named, *(link for one in members for link in _open_segments(one))]:
        with suppress(OSError):
            status = path.stat()
            found[status.st_ino] = 512 * status.st_blocks
    mapped = {segment for one in members for segment in _mapped(one)} if found else set()
    return sum(size for segment, size in found.items() if segment not in mapped)


def _open_segments(process: int) -> Iterator[Path]:
    with suppress(OSError):
        for link in (PROCESSES / str(process) / "fd").iterdir():
            with suppress(OSError):
                if str(link.readlink()).startswith(f"{SHARED}/torch_"):
                    yield link


def _mapped(process: int) -> Iterator[int]:
    """Inodes of the segments that a process maps."""
    with suppress(OSError):
        lines = (PROCESSES / str(process) / "maps").read_text(errors="replace").splitlines()
        yield from (int(line.split()[4]) for line in lines if f" {SHARED}/torch_" in line)


# Contention: how much of the cores others take while an arm is timed.
#
# An arm on one core may keep its pace while a neighbour works on the next one; an arm on two does not. The reference's
# own rate then tells too little, so it is read from the kernel's accounts of all cores and of our own processes.

BUSY = ("user", "nice", "system", "irq", "softirq", "steal")  # stolen time is a neighbour on the same host


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """What the kernel has counted so far, in seconds."""

    moment_s: float
    busy_s: float  # all cores that we may use
    own_s: float  # our own processes, those that have ended among them
    cores: int


def read_accounts() -> Accounts:
    """The accounts of this moment: this process and all below it are our own."""
    each, ours = psutil.cpu_times(percpu=True), sorted(os.sched_getaffinity(0))
    cores = [each[core] for core in ours if core < len(each)]
    return Accounts(
        moment_s=monotonic(),
        busy_s=sum(getattr(core, name, 0.0) for core in cores for name in BUSY),
        own_s=sum(map(_spent_s, _family())),
        cores=len(cores),
    )


def share_of_others(before: Accounts, after: Accounts) -> float:
    """The share of all cores, 0 to 1, that others took between two moments beyond what was left idle.

    Whoever works beside idle cores takes nothing from us: on a host of many cores others may be busy all the time.
    """
    whole_s = (after.moment_s - before.moment_s) * after.cores
    busy_s = after.busy_s - before.busy_s
    others_s, idle_s = busy_s - (after.own_s - before.own_s), max(0.0, whole_s - busy_s)
    return min(1.0, max(0.0, (others_s - idle_s) / whole_s)) if whole_s > 0 else 0.0


def _family() -> list[psutil.Process]:
    this = psutil.Process()
    return [this, *this.children(recursive=True)]


def _spent_s(process: psutil.Process) -> float:
    """Seconds of a process and of its children that have ended; one that ends right now is its parent's."""
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return times.user + times.system + times.children_user + times.children_system
