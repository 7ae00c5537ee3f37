"""The benchmarks for real: measured and shown, and a planted slowdown of the harness's step found by the gate."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.integrations.configurations import samples
from tests.integrations.pytest_session import ROOT, benchmarks_of, pytest_in

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]

STEP = ("benchmarks/test_harness_step.py", "--benchmark-only", "--speedmatrix-relative")
HONEST = """
        record(value)
        return value.detach()
"""
SLOWED = """
        record(value)
        until = thread_time() + {share} * (thread_time() - began)
        while thread_time() < until:
            pass
        return value.detach()
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what measures, to be broken."""
    for folder in ("harness", "workloads", "benchmarks"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", ".benchmarks"))
    for file in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / file, tmp_path / file)
    return tmp_path


def slow_down(checkout: Path, share: float) -> None:
    """Makes the baseline step of the harness so much longer, whatever it takes while it has a core."""
    path = checkout / "harness" / "measure" / "step.py"
    text = path.read_text(encoding="utf-8")
    begin = "        inputs, targets = transfer(fetch())\n"
    assert begin in text
    assert HONEST in text
    text = text.replace(begin, f"        began = thread_time()\n{begin}", 1)
    text = text.replace(HONEST, SLOWED.format(share=share), 1)
    path.write_text(text.replace("from typing import Any\n", "from time import thread_time\nfrom typing import Any\n"))


def test_the_gate_passes_the_same_step_and_stops_a_slower_one(checkout: Path, tmp_path: Path) -> None:
    # Twice the slowdown and twice the threshold of what is documented: a test must not fail for a busy machine.
    def step(name: str, *gate: str) -> subprocess.CompletedProcess[str]:
        return pytest_in(tmp_path, *STEP, *gate, f"--benchmark-json={tmp_path / name}", root=checkout, seconds=280)

    gate = (f"--benchmark-compare={tmp_path / 'before.json'}", "--benchmark-compare-fail=median:0.05")
    before = step("before.json")
    assert before.returncode == 0, before.stdout + before.stderr
    again = step("again.json", *gate)
    assert again.returncode == 0, again.stdout + again.stderr
    slow_down(checkout, 0.1)
    after = step("after.json", *gate)
    assert after.returncode != 0, after.stdout
    assert "Performance has regressed" in after.stderr
    medians = [
        benchmarks_of(tmp_path / name)["test_step[by harness/by hand]"]["stats"]["median"]
        for name in ("before.json", "after.json")
    ]
    assert medians[1] / medians[0] == pytest.approx(1.1, abs=0.08)


def test_cells_are_measured_and_kept_where_they_are_wanted(tmp_path: Path) -> None:
    done = pytest_in(
        tmp_path,
        "benchmarks/test_cells.py",
        "--benchmark-only",
        *("-k", "leak and (:all- or batched_fetch)"),
        *("--speedmatrix-workload", "leak", "--speedmatrix-size", "smoke", "--speedmatrix-device", "cpu"),
        *("--speedmatrix-budget", "none", "--speedmatrix-results", str(tmp_path / "kept")),
        f"--benchmark-json={tmp_path / 'measured.json'}",
        seconds=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = "Measuring, no limit of time: ./speedmatrix run leak --size smoke --only batched_fetch"
    assert done.stdout.count(told) == 1
    (run,) = (path.parent for path in (tmp_path / "kept").glob("*/*/run.json"))
    shown = benchmarks_of(tmp_path / "measured.json")
    assert len(shown) == 4
    kept = {one.row.comparison.label: one for one in samples(run)}
    for one in shown.values():
        arm, label = one["params"]["arm"], one["params"]["configuration"].rpartition(":")[2]
        expected = kept[label].treatment_s if arm == "treatment" else kept[label].reference_s
        assert tuple(one["stats"]["data"]) == expected
        assert one["extra_info"]["run"] == f"{run.parent.name}/{run.name}"
    assert str(tmp_path) not in json.dumps(shown)
