"""A workload that an installed package announces is listed, planned and measured like the suite's own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLE = (ROOT / "docs" / "example_workload.py").read_text(encoding="utf-8")


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder as an installer leaves it: the module, and the metadata with the entry point."""
    metadata = tmp_path / "pictures_for_speedmatrix-1.0.dist-info"
    metadata.mkdir()
    (tmp_path / "pictures_for_speedmatrix.py").write_text(EXAMPLE)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: pictures-for-speedmatrix\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[speedmatrix.workloads]\npictures = pictures_for_speedmatrix:WORKLOAD\n"
    )
    return tmp_path


def said(installed: Path, *command: str, status: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "harness", *command],
        cwd=installed,
        env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{installed}", "COLUMNS": "160"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


@pytest.mark.thorough
def test_it_is_listed_planned_and_measured(installed: Path) -> None:
    listed = json.loads(said(installed, "list", "--json"))["workloads"]
    assert "pictures" in {one["name"] for one in listed}
    assert "fused_optimizer" in said(installed, "plan", "pictures", "--size", "smoke", "--device", "cpu")
    words = "run pictures --size smoke --only deferred_metrics --rounds 2 --replicates 2 --budget none --data data"
    assert "deferred_metrics" in said(installed, *words.split())


@pytest.mark.parametrize(
    ("point", "words"),
    [
        pytest.param(
            "pictures = pictures_for_speedmatrix:PARTS",
            "names no Workload of that name; put it right",
            marks=pytest.mark.thorough,
        ),
        pytest.param(
            "drawings = pictures_for_speedmatrix:WORKLOAD",
            "names no Workload of that name; put it right",
            marks=pytest.mark.thorough,
        ),
        ("leak = pictures_for_speedmatrix:WORKLOAD", "names no Workload of that name; put it right"),
    ],
)
def test_a_wrong_announcement_is_one_sentence(installed: Path, point: str, words: str) -> None:
    path = installed / "pictures_for_speedmatrix-1.0.dist-info" / "entry_points.txt"
    path.write_text(f"[speedmatrix.workloads]\n{point}\n")
    complaint = said(installed, "list", status=2)
    assert words in complaint
    assert len(complaint.splitlines()) == 1


def test_a_taken_name_is_one_sentence(installed: Path) -> None:
    (installed / "pictures_for_speedmatrix.py").write_text(EXAMPLE.replace('name="pictures"', 'name="leak"'))
    path = installed / "pictures_for_speedmatrix-1.0.dist-info" / "entry_points.txt"
    path.write_text("[speedmatrix.workloads]\nleak = pictures_for_speedmatrix:WORKLOAD\n")
    assert "a workload 'leak', which is taken" in said(installed, "list", status=2)
