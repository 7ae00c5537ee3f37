"""The whole pipeline on real processes whose speeds are known."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.core.records import Window
from harness.store import read_records

ORACLE = Path(__file__).with_name("oracle.py")
ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.thorough


def run(folder: Path, *names: str, faults: bool = False) -> Path:
    command = [
        sys.executable,
        "-m",
        "harness",
        "run",
        "--workload",
        str(ORACLE),
        "--budget",
        "none",
        "--rounds",
        "3",
        "--restarts",
        "2",
    ]
    command += ["--results", str(folder / "results"), "--data", str(folder / "data")]
    command += [word for name in names for word in ("--only", name)]
    environment = os.environ | ({"ORACLE_FAULTS": "1"} if faults else {})
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    (found,) = (folder / "results").glob("*/*")
    return found


def rows(folder: Path) -> dict[str, dict[str, Any]]:
    command = [sys.executable, "-m", "harness", "report", str(folder), "--format", "json"]
    text = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return {row["subject"]: row for table in json.loads(text)["tables"] for row in table["rows"]}


KNOWN = {"in_memory_data": 100 / 60, "workers=1": 100 / 60, "gradient_accumulation=2": 100 / 160}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("oracle"), *KNOWN)


@pytest.fixture(scope="module")
def reported(measured: Path) -> dict[str, dict[str, Any]]:
    return rows(measured)


@pytest.mark.alone
@pytest.mark.parametrize("name", KNOWN)
def test_known_ratios_are_recovered(reported: dict[str, dict[str, Any]], name: str) -> None:
    estimate = reported[name]["estimate"]
    # Sleeps overrun by some 0.1 ms and a step has 0.5 ms of its own, which is 1 % beside the interval; on a busy
    # machine both are several times as long, and not for every arm alike.
    assert estimate["low"] * 0.97 <= KNOWN[name] <= estimate["high"] * 1.03
    assert estimate["verdict"] in {"faster" if KNOWN[name] > 1 else "slower", "undecided"}  # never the opposite


@pytest.mark.alone
def test_waiting_and_both_ceilings_are_attributed(reported: dict[str, dict[str, Any]]) -> None:
    row = reported["workers=1"]
    reference, treatment = row["reference_profile"], row["treatment_profile"]
    # Within some percent on a quiet machine; on a busy one sleeps last longer, and never shorter.
    assert reference["phases"]["input_wait"] == pytest.approx(40 / 100, abs=0.1)
    assert 0.7 < reference["loader_rate"] / (4 / 0.040) < 1.01
    assert 0.7 < reference["compute_rate"] / (4 / 0.060) < 1.01
    assert treatment["phases"]["input_wait"] < 0.2  # 2 % on a quiet machine
    assert treatment["bottleneck"]["stage"] == "compute"


@pytest.mark.alone
def test_samples_are_counted_exactly_under_accumulation(measured: Path) -> None:
    windows = [one for one in read_records(measured) if isinstance(one, Window)]
    assert all(one.samples == 4 * one.steps for one in windows), (
        "a step is one batch, however many parts it was taken in"
    )
    accumulating = list(KNOWN).index("gradient_accumulation=2") + 1
    for position, truth_s in ((0, 0.040 + 0.060), (accumulating, 0.040 + 2 * 0.060)):
        step_s = [one.wall_s / one.steps for one in windows if one.arm.position == position]
        assert min(step_s) == pytest.approx(truth_s, rel=0.1)
        assert min(step_s) > 0.999 * truth_s, "a sleep is never too short"


def test_failing_arms_become_words_and_the_others_are_measured(tmp_path: Path) -> None:
    words = {
        "amp_bfloat16": "finite number",
        "gradient_accumulation=2": "out of memory",
        "gradient_accumulation=4": "ended with status 7",
    }
    found = rows(run(tmp_path, *words, "in_memory_data", faults=True))
    for name, expected in words.items():
        assert found[name]["estimate"] is None
        assert expected in json.dumps(found[name]["absence"])
    assert found["in_memory_data"]["estimate"]["ratio"] > 1.5
