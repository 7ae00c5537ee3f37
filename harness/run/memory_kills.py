"""Memory kills: how many processes the kernel has ended for want of memory, as it counts them itself."""

from pathlib import Path

# Our own control group's count where there is one, else that of the whole host.
CONTROL_GROUP, HOST = Path("/sys/fs/cgroup/memory.events"), Path("/proc/vmstat")


def memory_kills(places: tuple[Path, ...] = (CONTROL_GROUP, HOST)) -> int:
    """Processes ended so far; only the difference of two readings tells something. 0 where nothing is counted."""
    for path in places:
        lines = path.read_text().splitlines() if path.is_file() else []
        counts = [int(count) for name, _, count in (line.partition(" ") for line in lines) if name == "oom_kill"]
        if counts:
            return counts[0]
    return 0
