"""Ending: a process group is killed as a whole, and what it left behind in shared memory is removed.

Standard library alone, and little of that: the sentinel imports it and has to be small.
"""

import os
import re
import signal
from collections.abc import Iterable
from pathlib import Path
from time import monotonic, sleep

PROCESSES, SHARED = Path("/proc"), Path("/dev/shm")  # noqa: S108  where torch leaves batches, not we
OURS = re.compile(r"torch_(\d+)_.*")  # torch names a segment after the process that made it
WAIT_S = 5.0  # a process that holds a device's memory takes a moment to let it go


def end_groups(groups: Iterable[int]) -> None:
    """Kills process groups, waits for their members to be gone and removes the shared memory that they had named."""
    groups = frozenset(groups)
    members = members_of(groups)
    for group in groups:
        kill_group(group)
    until = monotonic() + WAIT_S
    while any(map(is_alive, members)) and monotonic() < until:
        sleep(0.01)
    remove_segments(members)


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


def _group_of(process: int) -> int | None:
    try:
        return os.getpgid(process)
    except ProcessLookupError:
        return None
