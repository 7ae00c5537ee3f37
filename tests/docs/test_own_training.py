"""The tutorial: its code is a script that is imported, looked at, measured and watched as the page says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.catalogue import read_workload

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "docs/examples").glob("*.py"))


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPEEDMATRIX_DATA", str(tmp_path / "data"))


def script() -> str:
    """All the page's Python, as a reader who follows it has it in the end."""
    page = (ROOT / "docs/own-training.md").read_text(encoding="utf-8")
    return "\n\n".join(re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL))


def test_the_pages_jobs_can_be_measured(tmp_path: Path) -> None:
    path = tmp_path / "tutorial.py"
    path.write_text(script())
    job = read_workload(Path(f"{path}:job"))
    assert job.traits >= {"convolutions", "relu", "batched_fetch"}
    varied = read_workload(Path(f"{path}:varied"))
    assert [one.name for one in varied.optimizations] == ["flat_model"]
    two = read_workload(Path(f"{path}:job,other"))
    assert two.own == {"other": False}


@pytest.mark.alone
@pytest.mark.thorough
def test_the_page_runs_as_it_stands(tmp_path: Path) -> None:
    short = re.sub(r'budget="\dm"', 'budget="none", replicates=2, rounds=2', script())
    (tmp_path / "tutorial.py").write_text(short)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "tutorial.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for words in ("items: the same", "batched_fetch", "What to do", "num_workers=", "other"):
        assert words in done.stdout
    assert "speedmatrix watched 32 steps" in done.stderr


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda one: one.stem)
def test_examples_are_short_and_make_a_job(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 40
    for name, package in (("pytorch_lightning", "pytorch-lightning"), ("transformers", "transformers")):
        if name in text:
            pytest.importorskip(name, reason=f"{package} is not installed")
    workload = read_workload(path)
    assert workload.name == path.stem
    assert workload.sizes["quick"].step_s > 0
