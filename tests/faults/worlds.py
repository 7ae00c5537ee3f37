"""Smaller worlds for a command: mounts that it alone sees, a control group, a clock that goes back."""

import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

GROUPS = (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup"))  # of the first version, of the second
LIMITS = ("memory.limit_in_bytes", "memory.max")

# The time of day as a process asks for it, a day earlier from the moment at which a file appears.
CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t which, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(which, now);
    const char *flag = getenv("CLOCK_GOES_BACK");
    if (which == CLOCK_REALTIME && flag && access(flag, F_OK) == 0) now->tv_sec -= 86400;
    return status;
}
"""


def among_mounts(*mounts: str) -> tuple[str, ...]:
    """The words before a command that runs it among mounts of its own."""
    script = " && ".join([*mounts, 'exec "$@"'])
    return "unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh"


def tmpfs(size: str, folder: Path) -> str:
    """A small file system in memory over a folder."""
    return f"mount -t tmpfs -o size={size} tmpfs {shlex.quote(str(folder))}"


def read_only(folder: Path) -> str:
    """The folder as it is, but for writing."""
    place = shlex.quote(str(folder))
    return f"mount --bind {place} {place} && mount -o remount,ro,bind {place}"


def with_small_shared_memory(size: str) -> tuple[str, ...]:
    """The words before a command that shares so little memory."""
    return among_mounts(tmpfs(size, Path("/dev/shm")))  # noqa: S108


@cache
def lacks_mounts() -> str | None:
    """Why nothing can be mounted here, or None where it can."""
    with tempfile.TemporaryDirectory() as folder:
        command = [*among_mounts(tmpfs("64k", Path(folder))), "true"]
        if shutil.which("unshare") is None or subprocess.run(command, capture_output=True, check=False).returncode:
            return "needs the right to mount (root with CAP_SYS_ADMIN)"
    return None


@cache
def lacks_control_group() -> str | None:
    """Why no control group can be made here, or None where one can."""
    try:
        with control_group(f"trial-{os.getpid()}", 1 << 30):
            return None
    except OSError as error:
        return f"needs the right to make a control group of memory ({error.strerror})"


@contextmanager
def control_group(name: str, limit_bytes: int) -> Iterator[Path]:
    """A control group that holds so much memory; raises OSError where none can be made."""
    first = (GROUPS[0] / LIMITS[0]).exists()
    group = GROUPS[not first] / f"speedmatrix-{name}"
    group.mkdir()
    try:
        (group / LIMITS[not first]).write_text(str(limit_bytes))
        yield group
    finally:
        _remove(group)


def _remove(group: Path) -> None:
    until = time.monotonic() + 10
    while True:
        try:
            group.rmdir()
        except OSError:  # whoever was in it is still being cleared away
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
        else:
            return


def lacks_compiler() -> str | None:
    """Why no library can be made here that turns the clock back, or None where one can."""
    return None if shutil.which("gcc") else "needs gcc"


def clock_that_goes_back(folder: Path) -> dict[str, str]:
    """The environment variables of a process for which the clock goes back a day once the file `back` appears."""
    source, library = folder / "clock.c", folder / "clock.so"
    source.write_text(CLOCK)
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
    return {"LD_PRELOAD": str(library), "CLOCK_GOES_BACK": str(folder / "back")}


@contextmanager
def mounted(folder: Path, size: str) -> Iterator[None]:
    """A small file system over a folder, for everybody."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
