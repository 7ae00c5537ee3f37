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

MANIFEST = "complete.json"


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
        _check_complete(folder)
        return folder
    _check_room(root, workload, size)
    partial = folder.with_name(f"{folder.name}.partial-{os.getpid()}")
    command = [sys.executable, "-m", "harness.run.prepare", workload.name, size, str(partial)]
    with subprocess.Popen(
        command + ([workload.path] if workload.path else []), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            for line in process.stdout or ():
                show(float(line))
            complaint = (process.stderr.read() if process.stderr else "").strip().splitlines()
        except BaseException:
            process.kill()
            shutil.rmtree(partial, ignore_errors=True)
            raise
    if process.returncode:
        shutil.rmtree(partial, ignore_errors=True)
        last = complaint[-1] if complaint else f"status {process.returncode}"
        raise Mistake(f"The data of {workload.name} could not be written to {root}: {last}.")
    _finish(partial, folder)
    return folder


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
            f"{workload.name} at size {size} needs {needed / 1e9:.1f} GB in {root} and {free / 1e9:.1f} GB are free; "
            "make room or choose another folder with --data."
        )


def _check_complete(folder: Path) -> None:
    """Compares the files with the sizes noted when they were written; raises Mistake with the remedy."""
    remedy = f"delete {folder} and run again to write it anew."
    try:
        expected = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        found = {name: (folder / name).stat().st_size for name in dict(expected)}
    except (OSError, ValueError, TypeError) as error:
        raise Mistake(f"The data in {folder} cannot be read ({error}); {remedy}") from error
    wrong = [name for name, size in expected.items() if found[name] != size]
    if wrong:
        raise Mistake(f"The data file {folder / wrong[0]} has changed since it was written; {remedy}")
    unreadable = [name for name in expected if not os.access(folder / name, os.R_OK)]
    if unreadable:
        raise Mistake(f"The data file {folder / unreadable[0]} is not readable; {remedy}")


def _finish(partial: Path, folder: Path) -> None:
    files = sorted(path for path in partial.rglob("*") if path.is_file())
    sizes = {str(path.relative_to(partial)): path.stat().st_size for path in files}
    (partial / MANIFEST).write_text(json.dumps(sizes), encoding="utf-8")
    partial.rename(folder)


def _write(workload_name: str, size: str, folder: Path, path: Path | None) -> None:
    workload = read_catalogue(path).workload(workload_name)
    folder.mkdir(parents=True)
    for share in workload.parts().prepare(folder, workload.sizes[size]):
        sys.stdout.write(f"{share}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _write(sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]) if len(sys.argv) > 4 else None)
