"""The Snakemake workflow of docs/fleet on this machine, whose engine and shards are killed on the way."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

import psutil
import pytest

ROOT = Path(__file__).parents[2]
ENGINE = os.environ.get("SNAKEMAKE") or shutil.which("snakemake")
WORDS = "leak spoof speaker --size smoke --design alone --only set_to_none --replicates 2 --rounds 1"
LIMIT_S = 600.0


def engine(folder: Path) -> "subprocess.Popen[bytes]":
    command = f"{sys.executable} -P -m harness"
    config = ("shards=3", f"words={WORDS}", f"results={folder}/results", f"command={command}", f"lock={folder}/lock")
    return subprocess.Popen(
        [str(ENGINE), "--snakefile", str(ROOT / "docs/fleet/Snakefile"), "--cores", "2", "--rerun-incomplete",
         "--nolock", "--config", *config],
        cwd=folder, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder), "SPEEDMATRIX_DATA": str(folder / "data")},
    )  # fmt: skip


def ratios(folder: Path) -> dict[str, int]:
    """Runs that are measured, by workload."""
    found: dict[str, int] = {}
    for run in folder.glob("results/*/*/run.json"):
        if not (run.parent / "in_progress").exists():
            for block in json.loads(run.read_text())["plan"]["blocks"]:
                name = block["reference"]["workload"]
                found[name] = found.get(name, 0) + 1
    return found


@pytest.mark.alone
@pytest.mark.thorough
@pytest.mark.skipif(ENGINE is None, reason="needs snakemake 9: pip install snakemake, or its place in SNAKEMAKE")
def test_what_was_killed_goes_on_and_nothing_is_measured_twice(tmp_path: Path) -> None:
    first = engine(tmp_path)
    until = monotonic() + LIMIT_S
    while not [*tmp_path.glob("results/*/*/measurements.jsonl")]:
        assert first.poll() is None, first.stdout and first.stdout.read().decode()
        assert monotonic() < until
        sleep(0.2)
    sleep(3.0)
    children = psutil.Process(first.pid).children(recursive=True)
    os.kill(first.pid, signal.SIGKILL)  # the engine first, then all that it had begun
    for one in children:
        if one.is_running():
            one.kill()
    first.communicate()
    second = engine(tmp_path)
    told, _ = second.communicate(timeout=LIMIT_S)
    assert second.returncode == 0, told.decode()
    assert ratios(tmp_path) == {"leak": 1, "spoof": 1, "speaker": 1}
    assert not [*tmp_path.glob("results/*/*/in_progress")]
    third = engine(tmp_path)
    told, _ = third.communicate(timeout=LIMIT_S)
    assert b"Nothing to be done" in told
