"""The Python interface: it measures for real in a fresh process, and says in one sentence what cannot be done."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

import speedmatrix
from harness.run.preparation import Prepared
from harness.store import MEASUREMENTS, is_finished
from speedmatrix import Matrix, Mistake
from tests.integrations.recorded import record

ROOT = Path(__file__).parents[1]
TOLD = "import json; print(json.dumps([matrix.to_dicts(), str(matrix.folder)]))"


def example() -> str:
    """The program that docs/using.md shows."""
    page = (ROOT / "docs/using.md").read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)[0]


def test_the_example_of_the_page_measures_a_ratio_with_an_interval(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"{example()}\n{TOLD}"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},  # wherever the environment was made
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first, *_, last = done.stdout.splitlines()
    (row,), folder = json.loads(last)
    assert (row["workload"], row["label"], row["replicates"], row["reason"]) == ("leak", "batched_fetch", 2, None)
    assert 0 < row["low"] < row["ratio"] < row["high"]
    assert first == f"{row['ratio']:.2f}x [{row['low']:.2f}, {row['high']:.2f}]: {row['verdict']}"
    again = speedmatrix.load(tmp_path / folder)
    assert again["leak:batched_fetch"].ratio == row["ratio"]
    recorded = json.loads((tmp_path / folder / "run.json").read_text())["command"]
    assert recorded.startswith("speedmatrix run leak --size smoke --only batched_fetch --replicates 2 --rounds 2")


def test_code_that_changes_while_it_is_measured_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digests = iter(("before", "after"))
    monkeypatch.setattr(Prepared, "code", lambda _, *, jobs=False: next(digests) if jobs else "same")
    asked = {"workloads": "leak", "size": "smoke", "only": "batched_fetch", "budget": "none"}
    with pytest.raises(Mistake, match="The code was changed while it was measured"):
        speedmatrix.run(**asked, results=tmp_path / "results", data=tmp_path / "data")
    (folder,) = (tmp_path / "results").glob("*/*/run.json")
    assert not is_finished(folder.parent)


@pytest.fixture
def matrix(tmp_path: Path) -> Matrix:
    return speedmatrix.load(record(tmp_path))


def test_a_row_has_a_ratio_or_a_reason(matrix: Matrix) -> None:
    assert len(matrix) == len(list(matrix)) > 1
    for row in matrix:
        assert (row.ratio is None) == (row.verdict is None) == (row.reason is not None)
    assert any(row.ratio for row in matrix)
    assert all(matrix.no_results.values())


def test_a_matrix_is_shown_in_a_notebook_and_as_text(matrix: Matrix) -> None:
    page = matrix._repr_html_()
    assert page.count("<tr>") == len(matrix) + 1
    best = next(row for row in matrix if row.ratio)
    assert f"{best.ratio:.2f}x [{best.low:.2f}, {best.high:.2f}]" in page
    assert best.label in str(matrix)
    assert f"{len(matrix)} comparisons" in repr(matrix)


def test_a_frame_is_of_whatever_library_is_there(matrix: Matrix, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=lambda rows: ("frame", rows)))
    assert matrix.to_frame() == ("frame", matrix.to_dicts())
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(Mistake, match=r"to_frame needs polars or pandas.*to_dicts"):
        matrix.to_frame()


def test_the_best_row_is_surely_faster_and_advice_names_what_to_do(matrix: Matrix) -> None:
    gains = [row for row in matrix if row.verdict == "faster"]
    best = matrix.best()
    assert best == (max(gains, key=lambda row: row.ratio or 0.0) if gains else None)
    told = matrix.advise()
    assert told.count("What to do") == 1
    assert any(row.label in told for row in matrix if row.ratio)


def test_a_plan_is_that_of_the_command_line() -> None:
    plan = speedmatrix.plan(workloads=["leak"], only=["workers=2"], device="cpu", replicates=3)
    assert [one.label for one in plan.comparisons] == ["workers=2"]
    assert plan.protocol.replicates == 3
    request = speedmatrix.Request(workloads=("leak",), only=("workers=2",), device="cpu", replicates=3)
    assert speedmatrix.plan(request) == plan
    assert speedmatrix.plan(request, seed=3).seed == 3


def test_two_runs_are_compared(matrix: Matrix, tmp_path: Path) -> None:
    other = tmp_path / "20261122T120000-01234567"
    shutil.copytree(matrix.folder, other)
    lines = (other / MEASUREMENTS).read_text().splitlines(keepends=True)
    (other / MEASUREMENTS).write_text("".join(lines[:-1]))  # the failure of the last comparison
    found = speedmatrix.compare(matrix, other)
    assert {one.label for one in found.configs} >= {row.label for row in matrix if row.ratio}
    assert [column.environment for column in found.columns] == [matrix.analysis.environment] * 2


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"workload": "leak"}, "There is no 'workload' to ask for; choose among .*workloads"),
        ({"workloads": "nobody's"}, "There is no workload 'nobody's'"),
        ({"workloads": "leak", "only": ["wonder"]}, "There is no optimization 'wonder'"),
        ({"workloads": "leak", "design": "wonder"}, "There is no design 'wonder'"),
    ],
)
def test_a_mistake_is_one_sentence(wanted: dict[str, object], words: str, tmp_path: Path) -> None:
    for call in (speedmatrix.plan, lambda **told: speedmatrix.run(results=tmp_path, device="cpu", **told)):
        with pytest.raises(Mistake, match=words):
            call(**wanted)
    assert list(tmp_path.iterdir()) == []


def test_other_mistakes_too(matrix: Matrix, tmp_path: Path) -> None:
    with pytest.raises(Mistake, match="is not a run"):
        speedmatrix.load(tmp_path)
    with pytest.raises(Mistake, match="needs two runs"):
        speedmatrix.compare(matrix)
    with pytest.raises(Mistake, match="'wonder'; choose one of leak:"):
        matrix["wonder"]
    with pytest.raises(Mistake, match="'soon' is not a time"):
        speedmatrix.run(workloads="leak", budget="soon", results=tmp_path)


def test_a_wheel_and_an_editable_installation_hold_the_module(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    for hooks in ([], ["-t", "wheel:editable"]):
        words = [*command[:4], *(hooks or command[4:6]), *command[6:]]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        (wheel,) = tmp_path.glob("*.whl")
        names = zipfile.ZipFile(wheel).namelist()
        if hooks:
            (path,) = [one for one in names if one.endswith(".pth")]
            assert zipfile.ZipFile(wheel).read(path).decode().strip() == str(ROOT)
        else:
            assert {"speedmatrix.py", "harness/api.py"} <= set(names)
        wheel.unlink()
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["name"] == speedmatrix.__name__
