"""Shards by an engine that is not ours: Snakemake, killed on the way, and a real Slurm, whose jobs are preempted."""

import json
import os
import runpy
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from time import monotonic, sleep

import psutil
import pytest

from tests.run.slurm import MISSING, Slurm, started

ROOT = Path(__file__).parents[2]
ENGINE = os.environ.get("SNAKEMAKE") or shutil.which("snakemake")
WORDS = "leak spoof --size smoke --design alone --only set_to_none --replicates 2 --rounds 1"
LIMIT_S = 600.0


HARNESS = f"{sys.executable} -P -m harness"


def surroundings(folder: Path) -> dict[str, str]:
    return {"PYTHONPATH": str(ROOT), "TMPDIR": str(folder), "SPEEDMATRIX_DATA": str(folder / "data")}


def engine(folder: Path) -> "subprocess.Popen[bytes]":
    (folder / "fleet.toml").write_text(
        f'[[machine]]\nname = "here"\ncount = 1\nmeasure = [{{ words = "{WORDS}", shards = 2 }}]\n'
    )
    fleet = (f"fleet={folder}/fleet.toml", "kind=here")
    config = (*fleet, f"results={folder}/results", f"command={HARNESS}", f"lock={folder}/lock")
    return subprocess.Popen(
        [str(ENGINE), "--snakefile", str(ROOT / "docs/fleet/Snakefile"), "--cores", "2", "--rerun-incomplete",
         "--nolock", "--config", *config],
        cwd=folder, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, **surroundings(folder)},
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


def test_a_kind_that_the_fleet_does_not_name_is_told(tmp_path: Path) -> None:
    plans, _, _ = (ROOT / "docs/fleet/Snakefile").read_text().partition("\nrule all:")
    (tmp_path / "plans.py").write_text(plans)
    config = {"fleet": str(ROOT / "docs/fleet/fleet.toml"), "kind": "tow cores"}
    with pytest.raises(AssertionError, match=r"fleet\.toml measures nothing on a kind 'tow cores'; name one"):
        runpy.run_path(str(tmp_path / "plans.py"), init_globals={"config": config})
    found = runpy.run_path(str(tmp_path / "plans.py"), init_globals={"config": config | {"kind": "two cores"}})
    assert found["PLANS"]


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
    assert ratios(tmp_path) == {"leak": 1, "spoof": 1}
    assert not [*tmp_path.glob("results/*/*/in_progress")]
    third = engine(tmp_path)
    told, _ = third.communicate(timeout=LIMIT_S)
    assert b"Nothing to be done" in told


def waited(slurm: Slurm, job: str) -> None:
    """Returns once no task of a job is left."""
    until = monotonic() + LIMIT_S
    while any(one.partition("_")[0] == job for one in slurm.states()):
        assert monotonic() < until, slurm.states()
        sleep(0.5)


@pytest.mark.thorough
@pytest.mark.timeout(900)  # beside other tests: three minutes where nobody else is at work
@pytest.mark.skipif(bool(MISSING), reason=f"needs Slurm: apt-get install slurmctld slurmd munge ({', '.join(MISSING)})")
@pytest.mark.skipif(os.geteuid() != 0, reason="a Slurm of one's own is started by root alone")
def test_an_array_whose_shard_is_preempted_is_measured_whole_and_nothing_twice(tmp_path: Path) -> None:
    with ExitStack() as stack:
        slurm = started(tmp_path / "slurm", stack)
        words = f"{HARNESS} run {WORDS} --shard $SLURM_ARRAY_TASK_ID/2 --budget none --results {tmp_path}/results"
        told = slurm.call(
            "sbatch", "--array=1-2", "--requeue", "--exclusive", "--open-mode=append", "--parsable", "--wrap", words,
            **surroundings(tmp_path),
        )  # fmt: skip
        until = monotonic() + LIMIT_S
        while not [*tmp_path.glob("results/*/*/measurements.jsonl")]:
            assert monotonic() < until, slurm.states()
            sleep(0.2)
        (running,) = [one for one, state in slurm.states().items() if state == "RUNNING"]
        urgent = slurm.call("sbatch", "--partition=urgent", "--exclusive", "--parsable", "--wrap", "sleep 3")
        waited(slurm, urgent)
        preempted = slurm.call("scontrol", "show", "job", running)
        assert "Restarts=1" in preempted, preempted
        waited(slurm, told)
    assert ratios(tmp_path) == {"leak": 1, "spoof": 1}
    assert not [*tmp_path.glob("results/*/*/in_progress")]
