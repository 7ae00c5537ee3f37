"""Mistakes that real systems made while they were tuned are planted, and each is caught and named."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.thorough


def speedmatrix(words: str, trap: str, tmp_path: Path) -> "subprocess.CompletedProcess[str]":
    given = {"TRAP": trap, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    own = ["--workload", str(ROOT / "tests/run/trapped.py"), "--data", str(tmp_path / "data")]
    return subprocess.run(
        [sys.executable, "-m", "harness", *words.split(), *own],
        cwd=tmp_path,
        env=os.environ | given,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_honest_workload_learns(tmp_path: Path) -> None:
    done = speedmatrix("learn trapped:batched_evaluation", "none", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Learned: clearly better than chance" in done.stdout


@pytest.mark.parametrize(
    ("trap", "words"),
    [
        pytest.param("mixed_up", "mixed up: ", marks=pytest.mark.thorough),
        pytest.param("wrong_labels", "although the loss fell from", marks=pytest.mark.thorough),
        pytest.param("random_crop", "random: two evaluations of one model", marks=pytest.mark.thorough),
        ("collapse", "of all 64 items: it has stopped looking at its input"),
    ],
)
def test_a_planted_mistake_is_named(trap: str, words: str, tmp_path: Path) -> None:
    done = speedmatrix("learn trapped:batched_evaluation", trap, tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert words in done.stdout


def test_a_learning_rate_that_hangs_on_something_else_shows_in_the_losses(tmp_path: Path) -> None:
    """Nothing but speed is promised of the optimizer's kernel; a schedule that changes with it is another training."""
    results = tmp_path / "results"
    # A first look judges the losses of one replicate; the standard protocol those of all.
    run = (
        f"run --only foreach_optimizer --protocol standard --rounds 2 --replicates 2 --budget none --results {results}"
    )
    assert "Continuing" not in speedmatrix(run, "interval", tmp_path).stdout
    report = [sys.executable, "-m", "harness", "report", "--results", str(results), "--format", "json"]
    shown = subprocess.run(report, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    (row,) = json.loads(shown)["tables"][0]["rows"]
    assert row["quality"]["status"] == "differs"
    assert "losses differ by" in row["quality"]["sentence"]
