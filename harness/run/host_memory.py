"""Host memory of an arm: what its processes hold when they stand still, and the most that they held before that.

The kernel keeps a high-water mark of every process, in which a shared page counts once for each process that maps it.
The arm's peak is what lies there now, shared pages counted once, and what each process had beyond that at its own peak.
It is an upper bound: processes need not peak in the same moment (docs/decisions/peak-of-host-memory.md).
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from harness.run.ending import OURS, PROCESSES, SHARED, is_alive, members_of

HIGH_WATER_MARK = "5"  # what to write into `clear_refs` so that the mark falls to what is resident now; see proc(5)


def begin_peaks(group: int) -> bool:
    """Lets the high-water marks of a group that stands still begin anew; False where the kernel refuses that."""
    refused = [one for one in members_of(frozenset({group})) if not _begin_peak(one)]
    return not refused


def read_memory(group: int, *, begun: bool) -> dict[str, Any]:
    """The fields of a Burst that tell of the memory of a group that stands still."""
    members = members_of(frozenset({group}))
    resident, beyond = sum(map(_proportional_bytes, members)), [_beyond(one) for one in members]
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


def _proportional_bytes(process: int) -> int:
    """Of one process, shared pages by their share; its resident set where the kernel does not tell, 0 if it is gone."""
    try:
        lines = (PROCESSES / str(process) / "smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    except (OSError, StopIteration):
        with suppress(psutil.Error):
            return int(psutil.Process(process).memory_info().rss)
        return 0


def _unmapped_bytes(members: Iterable[int]) -> int:
    """Torch's shared memory that no process maps: batches that wait on their way from a worker to the trainer."""
    names = {str(one) for one in members}
    mapped = {segment for one in members for segment in _mapped(one)}
    named = [path for path in SHARED.glob("torch_*") if (name := OURS.fullmatch(path.name)) and name[1] in names]
    found: dict[int, int] = {}
    for path in [*named, *(link for one in members for link in _open_segments(one))]:
        with suppress(OSError):
            status = path.stat()
            found[status.st_ino] = 512 * status.st_blocks
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
