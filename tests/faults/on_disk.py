"""Faults on the disk and in what surrounds a command: it must not measure, and says why within seconds."""

import json
import os
import shutil
import signal
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

from harness.store import LONGEST_LINE, MEASUREMENTS, RUN
from tests.faults.from_outside import ENDLESS, ONE
from tests.faults.injected import Injected
from tests.faults.own_doing import shared
from tests.faults.stage import ROOT, Seen, Stage, end
from tests.faults.worlds import among_mounts, lacks_mounts, read_only, tmpfs


@cache
def _begun(base: Path) -> Path:
    """The results of a run that was killed after a few windows."""
    stage = shared(base, "begun")
    with stage.running(f"{ONE} {ENDLESS}") as running:
        stage.wait_for(lambda: stage.windows >= 3, running)
        end(running, signal.SIGKILL)
        running.wait()
    stage.assert_nothing_is_left()
    return stage.results


def spoilt(spoil: Callable[[Path], None], stage: Stage) -> Seen:
    """A file of an unfinished run is damaged; the same command must leave it as it is."""
    shutil.copytree(_begun(stage.data.parent), stage.results)
    spoil(stage.run_folder)
    before = {path: path.read_bytes() for path in stage.results.rglob("*") if path.is_file()}
    running = stage.start(f"{ONE} {ENDLESS}")
    status = running.wait(timeout=60)
    assert {path: path.read_bytes() for path in stage.results.rglob("*") if path.is_file()} == before
    return Seen(status=status, said=stage.output.read_text(encoding="utf-8"))


def cut_run(folder: Path) -> None:
    content = (folder / RUN).read_bytes()
    (folder / RUN).write_bytes(content[: len(content) // 2])


def garbled_line(folder: Path) -> None:
    lines = (folder / MEASUREMENTS).read_bytes().splitlines(keepends=True)
    (folder / MEASUREMENTS).write_bytes(b"".join([lines[0], b"\x00\xff" + lines[1], *lines[2:]]))


def endless_line(folder: Path) -> None:
    with (folder / MEASUREMENTS).open("ab") as file:
        file.write(b"x" * (LONGEST_LINE + 1))


def later_schema(folder: Path) -> None:
    body = json.loads((folder / RUN).read_text(encoding="utf-8"))
    (folder / RUN).write_text(json.dumps(body | {"schema": 99}), encoding="utf-8")


def foreign_field(folder: Path) -> None:
    lines = (folder / MEASUREMENTS).read_text(encoding="utf-8").splitlines()
    lines[0] = json.dumps(json.loads(lines[0]) | {"script": "rm"})
    (folder / MEASUREMENTS).write_text("\n".join(lines) + "\n", encoding="utf-8")


def other_numpy(stage: Stage) -> Seen:
    """The same command beside another numpy than it was begun with."""
    shutil.copytree(_begun(stage.data.parent), stage.results)
    facts = stage.folder / "packages" / "numpy-99.0.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 99.0\n", encoding="utf-8")
    return stage.run(f"{ONE} {ENDLESS}", {"PYTHONPATH": f"{ROOT}{os.pathsep}{facts.parent}"})


def read_only_results(stage: Stage) -> Seen:
    """Results on a mount that may only be read."""
    stage.results.mkdir()
    return stage.run(f"{ONE} {ENDLESS}", within=among_mounts(read_only(stage.results)))


def small_data_disk(stage: Stage) -> Seen:
    """A disk that does not hold the workload's files."""
    own = Stage(folder=stage.folder, data=stage.folder / "data", mark=stage.mark)
    own.data.mkdir()
    return own.run(f"{ONE} {ENDLESS}", within=among_mounts(tmpfs("1m", own.data)))


def cut_data(stage: Stage) -> Seen:
    """A file of the workload's data is shorter than it was written."""
    _begun(stage.data.parent)
    own = Stage(folder=stage.folder, data=stage.folder / "data", mark=stage.mark)
    shutil.copytree(stage.data, own.data)
    (pictures,) = own.data.glob("*/pictures.npy")
    os.truncate(pictures, 1000)
    return own.run(f"{ONE} {ENDLESS}")


def no_lock(stage: Stage) -> Seen:
    """The lock's place leads nowhere."""
    (stage.folder / "speedmatrix-measuring.lock").symlink_to(stage.folder / "nowhere" / "lock")
    return stage.run(f"{ONE} {ENDLESS}", {"TMPDIR": str(stage.folder)})


ON_DISK = (
    Injected(
        name="`run.json` cut short",
        how="half of it is left, in an unfinished run",
        act=partial(spoilt, cut_run),
        says=r"run\.json cannot be read .*restore it or measure again",
        status=2,
    ),
    Injected(
        name="a garbled record",
        how="two bytes that are no text before a line",
        act=partial(spoilt, garbled_line),
        says=r"measurements\.jsonl, line 2 is damaged",
        status=2,
    ),
    Injected(
        name="an endless line",
        how="a line of more than a megabyte",
        act=partial(spoilt, endless_line),
        says=r"measurements\.jsonl, line \d+ is longer than any record",
        status=2,
    ),
    Injected(
        name="a later schema",
        how="`run.json` of schema 99",
        act=partial(spoilt, later_schema),
        says="has schema 99, newer than .*update speedmatrix",
        status=2,
    ),
    Injected(
        name="a field that nobody knows",
        how="a record with a field more",
        act=partial(spoilt, foreign_field),
        says=r"measurements\.jsonl, line 1 is damaged \(record\.script is unknown\)",
        status=2,
    ),
    Injected(
        name="the environment changed",
        how="the same command among packages of which numpy says that it is version 99.0",
        act=other_numpy,
        says=r"under other conditions: numpy was \S+, now is 99\.0\. Restore them .*begin anew with --fresh",
        status=2,
    ),
    Injected(
        name="results on a read-only mount",
        how="a bind mount that may only be read",
        act=read_only_results,
        says="Cannot write results to .*Read-only file system.*--results",
        status=2,
        lacks=lacks_mounts,
    ),
    Injected(
        name="no room for the data",
        how="a tmpfs of 1 MB for files of 2 MB",
        act=small_data_disk,
        says="make room or choose another folder with --data",
        status=2,
        lacks=lacks_mounts,
    ),
    Injected(
        name="a data file cut short",
        how="1000 bytes of it are left",
        act=cut_data,
        says="pictures.npy",
        status=2,
    ),
    Injected(
        name="no place for the lock",
        how="a lock that is a link into nowhere",
        act=no_lock,
        says="Cannot lock .*set TMPDIR",
        status=2,
    ),
)
