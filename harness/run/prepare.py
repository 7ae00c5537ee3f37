"""Preparation: a workload's files, written once into a cache folder by a process of their own.

python -m harness.run.prepare WORKLOAD SIZE FOLDER [WORKLOAD_FILE]
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from harness.catalogue import read_catalogue
from harness.core.mistake import Mistake
from harness.core.plain import encode
from harness.core.workload import Workload
from harness.run.manifest import check_manifest, write_manifest
from harness.run.sentinel import Sentinel


def data_root(chosen: Path | None) -> Path:
    """Where data is kept: the folder given, else $SPEEDMATRIX_DATA, else the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    named = chosen or os.environ.get("SPEEDMATRIX_DATA") or cache / "speedmatrix" / "data"
    return Path(named).absolute()  # arms run in a folder of their own choice


def folder_of(root: Path, workload: Workload, size: str) -> Path:
    """The folder of a workload's data at a size; other facts of the size make another folder."""
    facts = [encode(dict(workload.sizes[size].shape)), workload.sizes[size].evaluation_items, workload.data_version]
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:8]
    return root / f"{workload.name}-{size}-{digest}"


def ensure_data(root: Path, workload: Workload, size: str, show: Callable[[float], None]) -> Path:
    """The folder with complete data, written now if need be; raises Mistake when it cannot be had."""
    folder = folder_of(root, workload, size)
    if folder.exists():
        check_manifest(folder)
        return folder
    _check_room(root, workload, size)
    partial = folder.with_name(f"{folder.name}.partial-{os.getpid()}")
    command = [sys.executable, "-m", "harness.run.prepare", workload.name, size, str(partial)]
    try:
        complaint = _follow(command + ([workload.path] if workload.path else []), show)
        if complaint is not None:
            raise Mistake(f"The data of {workload.name} could not be written to {root}: {complaint}.")
        write_manifest(partial)
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def _follow(command: list[str], show: Callable[[float], None]) -> str | None:
    """Runs the writing process with its helpers to the end; gives its last words if it failed."""
    sentinel = Sentinel()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        sentinel.add(process.pid)
        try:
            for line in process.stdout or ():
                show(float(line))
            complaint = (process.stderr.read() if process.stderr else "").strip().splitlines()
            process.wait()
        finally:
            sentinel.close()  # ends the whole group, which by now is empty or must not go on
    if not process.returncode:
        return None
    return complaint[-1] if complaint else f"status {process.returncode}"


def _check_room(root: Path, workload: Workload, size: str) -> None:
    needed = workload.sizes[size].data_bytes
    try:
        root.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(root).free
    except OSError as error:
        raise Mistake(f"Cannot use {root} for data ({error.strerror}); choose another folder with --data.") from error
    if not os.access(root, os.W_OK | os.X_OK):
        raise Mistake(f"Cannot write data to {root}; make it writable or choose another folder with --data.")
    if free < 1.1 * needed:
        raise Mistake(
            f"{workload.name} at size {size} needs {_shown(needed)} in {root} and {_shown(free)} are free; "
            "make room or choose another folder with --data."
        )


def _shown(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


def _write(workload_name: str, size: str, folder: Path, path: Path | None) -> None:
    workload = read_catalogue(path, ledger=False).workload(workload_name)
    folder.mkdir(parents=True)
    for share in workload.parts().prepare(folder, workload.sizes[size]):
        sys.stdout.write(f"{share}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _write(sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]) if len(sys.argv) > 4 else None)
