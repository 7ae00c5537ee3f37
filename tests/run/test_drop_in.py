"""Adding an optimization is one new file: it is then measured and reported like any other."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
NEW = '''"""Both at once: gradients dropped and losses left on the device.

Stands for whatever somebody may think of next.

    optimizer.zero_grad(set_to_none=True)
"""

from harness.core.optimization import Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="both_at_once",
    title="Two small things",
    stage=Stage.HOST,
    numerics=Numerics.EXACT,
    sets={"set_to_none": True, "deferred_metrics": True},
    proof={"set_to_none": True, "deferred_metrics": True},
)
'''


def test_a_file_dropped_in_is_planned_measured_and_reported(tmp_path: Path) -> None:
    for package in ("harness", "workloads"):  # with what was compiled, but for what is being written
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("*.pyc.*"))
    shutil.copy(Path(__file__).with_name("oracle.py"), tmp_path)
    (tmp_path / "harness/optimizations/both_at_once.py").write_text(NEW)

    def speedmatrix(*words: str) -> str:
        command = [sys.executable, "-m", "harness", *words]
        environment = os.environ | {"PYTHONPATH": str(tmp_path)}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout

    plan = json.loads(speedmatrix("plan", "oracle", "--workload", "oracle.py", "--json"))["plan"]
    assert "both_at_once" in {one["subject"] for block in plan["blocks"] for one in block["comparisons"]}
    measuring = (
        "--workload",
        "oracle.py",
        "--only",
        "both_at_once",
        "--rounds",
        "2",
        "--restarts",
        "2",
        "--budget",
        "none",
    )
    assert "both_at_once" in speedmatrix("run", *measuring, "--data", "data")
    tables = json.loads(speedmatrix("report", "--format", "json"))["tables"]
    (row,) = tables[0]["rows"]
    assert row["subject"] == "both_at_once"
    assert 0.9 < row["estimate"]["ratio"] < 1.1  # sleeps are all that this workload does
    assert row["quality"]["status"] == "same bits"
