"""Shards by an engine that is not ours: Snakemake, killed on the way, and a real Slurm, whose jobs are preempted."""

import json
import os
import runpy
import shutil
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from tests.run.slurm import MISSING, Slurm, started

ROOT = Path(__file__).parents[2]
ENGINE = os.environ.get("SNAKEMAKE") or shutil.which("snakemake")
WORDS = "leak spoof --size smoke --design alone --only set_to_none --replicates 2 --rounds 1"
# Each of these is timed on something else or against another reference, so that their blocks fill twelve shards.
MANY = "leak spoof --size smoke --design alone --replicates 2 --rounds 1 " + " ".join(
    f"--only {one}"
    for one in (
        "deferred_metrics", "batched_evaluation", "cold_page_cache", "start_method=spawn", "prefetch_factor=4",
        "evaluation_persistent_workers", "batch_scale=2",
    )
)  # fmt: skip
LIMIT_S = 600.0


HARNESS = f"{sys.executable} -P -m harness"


def surroundings(folder: Path) -> dict[str, str]:
    return {"PYTHONPATH": str(ROOT), "TMPDIR": str(folder), "SPEEDMATRIX_DATA": str(folder / "data")}


def engine(folder: Path, words: str = WORDS, shards: int = 2) -> "subprocess.Popen[bytes]":
    (folder / "fleet.toml").write_text(
        f'[[machine]]\nname = "here"\ncount = 1\nmeasure = [{{ words = "{words}", shards = {shards} }}]\n'
    )
    fleet = (f"fleet={folder}/fleet.toml", "kind=here")
    config = (*fleet, f"results={folder}/results", f"command={HARNESS}", f"lock={folder}/lock")
    with (folder / "engine.log").open("ab") as log:  # no pipe, which a killed engine would leave to its shards
        return subprocess.Popen(
            [str(ENGINE), "--snakefile", str(ROOT / "docs/fleet/Snakefile"), "--cores", "2", "--rerun-incomplete",
             "--nolock", "--config", *config],
            cwd=folder, start_new_session=True, stdout=log, stderr=log, env={**os.environ, **surroundings(folder)},
        )  # fmt: skip


def told(folder: Path) -> str:
    return (folder / "engine.log").read_text()


def ends(process: psutil.Process) -> None:
    """Kills a process and all that it had begun."""
    with suppress(psutil.NoSuchProcess):
        for one in [process, *process.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                one.kill()


def ratios(folder: Path) -> dict[str, int]:
    """Runs that are measured, by workload."""
    found: dict[str, int] = {}
    for run in folder.glob("results/*/*/run.json"):
        if not (run.parent / "in_progress").exists():
            for block in json.loads(run.read_text())["plan"]["blocks"]:
                name = block["reference"]["workload"]
                found[name] = found.get(name, 0) + 1
    return found


def read_by_the_engine(folder: Path, root: Path = ROOT, **config: str) -> dict[str, Any]:
    """What the Snakefile knows before its first rule."""
    plans, _, _ = (ROOT / "docs/fleet/Snakefile").read_text().partition("\nrule all:")
    (folder / "plans.py").write_text(plans)
    workflow = SimpleNamespace(basedir=root / "docs/fleet")
    return runpy.run_path(str(folder / "plans.py"), init_globals={"config": config, "workflow": workflow})


def test_a_kind_that_the_fleet_does_not_name_is_told(tmp_path: Path) -> None:
    fleet = str(ROOT / "docs/fleet/fleet.toml")
    with pytest.raises(AssertionError, match=r"fleet\.toml measures nothing on a kind 'tow cores'; name one"):
        read_by_the_engine(tmp_path, fleet=fleet, kind="tow cores")
    assert read_by_the_engine(tmp_path, fleet=fleet, kind="two cores")["PLANS"]


def test_what_was_measured_on_another_kind_or_with_other_code_is_not_taken_for_measured(tmp_path: Path) -> None:
    (tmp_path / "fleet.toml").write_text(
        "".join(
            f'[[machine]]\nname = "{kind}"\ncount = 1\nmeasure = [{{ words = "leak --workload {tmp_path}/mine.py", '
            "shards = 2 }]\n"
            for kind in ("two cores", "H100")
        )
    )
    for folder in ("harness", "workloads"):
        (tmp_path / folder).mkdir()
    for name in ("requirements.txt", "harness/store.py", "mine.py"):
        (tmp_path / name).write_text("")

    def marks(kind: str = "H100") -> set[str]:
        return {*read_by_the_engine(tmp_path, tmp_path, fleet=f"{tmp_path}/fleet.toml", kind=kind)["WORDS"]}

    before = marks()
    assert marks() == before
    assert marks("two cores").isdisjoint(before)
    for name in ("requirements.txt", "harness/store.py", "mine.py"):
        (tmp_path / name).write_text("changed")
        assert marks().isdisjoint(before)
        (tmp_path / name).write_text("")
    assert marks() == before


@pytest.mark.alone
@pytest.mark.thorough
@pytest.mark.skipif(ENGINE is None, reason="needs snakemake 9: pip install snakemake, or its place in SNAKEMAKE")
def test_what_was_killed_goes_on_and_nothing_is_measured_twice(tmp_path: Path) -> None:
    first = engine(tmp_path)
    until = monotonic() + LIMIT_S
    while not [*tmp_path.glob("results/*/*/measurements.jsonl")]:
        assert first.poll() is None, told(tmp_path)
        assert monotonic() < until
        sleep(0.2)
    sleep(3.0)
    ends(psutil.Process(first.pid))
    first.wait()
    assert engine(tmp_path).wait(timeout=LIMIT_S) == 0, told(tmp_path)
    assert ratios(tmp_path) == {"leak": 1, "spoof": 1}
    assert not [*tmp_path.glob("results/*/*/in_progress")]
    assert engine(tmp_path).wait(timeout=LIMIT_S) == 0
    assert told(tmp_path).count("Nothing to be done") == 1


def shards_at_work(engine: "subprocess.Popen[bytes]") -> list[psutil.Process]:
    """Runs that measure or wait for the lock."""
    with suppress(psutil.NoSuchProcess):
        below = psutil.Process(engine.pid).children(recursive=True)
        return [one for one in below if one.is_running() and "--shard" in one.cmdline()[-6:] and one.name() != "flock"]
    return []


def answers(results: Path) -> dict[tuple[str, str, str], tuple[object, ...]]:
    """Of each comparison what no clock decides: its outcome, its replicates, its losses' verdict and its settings."""
    found: dict[tuple[str, str, str], tuple[object, ...]] = {}
    for run in results.glob("*/*/run.json"):
        report = subprocess.run(
            [*HARNESS.split(), "report", str(run.parent), "--format", "json"],
            env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True, capture_output=True,
        ).stdout  # fmt: skip
        for table in json.loads(report)["tables"]:
            for row in table["rows"][1:]:
                question = table["reference"]["name"], table["timing"], row["treatment"]["name"]
                assert question not in found, f"{question} was measured twice"
                profile = row["treatment_profile"] or {"facts": None}
                replicates = row["estimate"] and row["estimate"]["processes"]
                found[question] = row["absence"], replicates, row["quality"], profile["facts"]
    return found


@pytest.mark.alone
@pytest.mark.thorough
@pytest.mark.timeout(3000)
@pytest.mark.skipif(ENGINE is None, reason="needs snakemake 9: pip install snakemake, or its place in SNAKEMAKE")
def test_twelve_shards_killed_at_random_give_what_an_uninterrupted_run_gives(tmp_path: Path) -> None:
    random = Random(12)
    killed = {"engine": 0, "shard": 0}
    running = engine(tmp_path, MANY, 12)
    until = monotonic() + 4 * LIMIT_S
    while running.poll() is None:
        assert monotonic() < until
        sleep(random.uniform(5, 30))
        victims = shards_at_work(running)
        if killed["shard"] < 6 and victims and random.random() < 0.5:
            ends(random.choice(victims))
            killed["shard"] += 1
        elif killed["engine"] < 6 and running.poll() is None:
            running.kill()  # alone: what it had begun goes on, and the next engine waits for it
            running.wait()
            killed["engine"] += 1
            running = engine(tmp_path, MANY, 12)
    assert running.returncode == 0, told(tmp_path)
    assert min(killed.values()) >= 3, killed
    assert len([*tmp_path.glob("results/shards/*/*")]) == 12
    assert not [*tmp_path.glob("results/*/*/in_progress")]
    whole = tmp_path / "whole"
    words = f"{HARNESS} run {MANY} --budget none --results {whole}"
    subprocess.run(words.split(), env={**os.environ, **surroundings(tmp_path)}, check=True, timeout=2 * LIMIT_S)
    assert answers(tmp_path / "results") == answers(whole)


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
        array = slurm.call(
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
        waited(slurm, array)
    assert ratios(tmp_path) == {"leak": 1, "spoof": 1}
    assert not [*tmp_path.glob("results/*/*/in_progress")]
