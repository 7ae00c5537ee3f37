"""Which job arms find in a script: the one that was measured, with the code that it has now."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import speedmatrix as sm
from harness.catalogue import code_digest, read_workload
from harness.core.own_file import files_of

HEAD = """
import sys
import speedmatrix as sm
from tests.own.trainings import Net, Pictures, sgd
from torch import nn


def made(batch):
    return sm.job(model=Net, dataset=Pictures(), loss=nn.CrossEntropyLoss(), optimizer=sgd, batch=batch)


job = sm.job(model=Net, dataset=Pictures(), loss=nn.CrossEntropyLoss(), optimizer=sgd, batch=8)
"""
LOOP = """
for batch in (8, 16):
    job = sm.job(model=Net, dataset=Pictures(), loss=nn.CrossEntropyLoss(), optimizer=sgd, batch=batch)
    job.measure()
"""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPEEDMATRIX_DATA", str(tmp_path / "cache"))


def run_as_script(path: Path, text: str, monkeypatch: pytest.MonkeyPatch, *words: str) -> list[str]:
    """Runs a script as Python does; gives the addresses of what it had measured."""
    asked: list[str] = []

    def note(*, own: Path, **_wanted: Any) -> None:
        asked.append(own.name)

    path.write_text(text)
    module = ModuleType("__main__")
    module.__file__ = str(path)
    monkeypatch.setitem(sys.modules, "__main__", module)
    monkeypatch.setattr(sys, "argv", [str(path), *words])
    monkeypatch.setattr("harness.own.job.run", note)
    exec(compile(text, str(path), "exec"), vars(module))  # noqa: S102  our own
    return asked


@pytest.mark.parametrize(
    "text",
    [
        f"{HEAD}{LOOP}",
        f"{HEAD}\nif __name__ == '__main__':\n    job = job.replace(batch=16)\n    job.measure()",
        f"{HEAD}\njob.measure()\nother = made(16)\nother.measure()",
        HEAD + LOOP.replace("job.me", "if __name__ == '__main__': job.me"),
    ],
    ids=["loop", "guard", "below", "guard in a loop"],
)
def test_a_job_that_arms_would_not_find_is_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    with pytest.raises(
        sm.Mistake, match=r"Arms import train\.py, and find another job.*give each job a name of its own"
    ):
        run_as_script(tmp_path / "train.py", text, monkeypatch)


def test_jobs_with_names_of_their_own_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line may make several, and a first reading of the script does not count."""
    text = f"{HEAD}\nnarrow, wide = made(8), made(16)\nother = wide.replace(batch=32)\n"
    text += "job.measure()\nwide.measure()\nsm.compare(narrow, wide)\nother.measure()\nmade(8).measure()\n"
    *named, unnamed = run_as_script(tmp_path / "train.py", text, monkeypatch)
    assert named == [f"train.py:{one}" for one in ("job", "wide", "narrow,wide", "other")]
    assert unnamed.endswith(".job"), "it is sent itself"


def test_what_a_command_line_sets_is_not_left_out_silently(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"{HEAD.replace('batch=8', 'batch=int(sys.argv[1]) if sys.argv[1:] else 8')}\njob.measure()"
    assert run_as_script(tmp_path / "train.py", text, monkeypatch) == ["train.py:job"]
    with pytest.raises(sm.Mistake, match=r"Arms import train\.py without its command line; set these values in the fi"):
        run_as_script(tmp_path / "train.py", text, monkeypatch, "16")
    assert read_workload(tmp_path / "train.py").sizes["quick"].batch == 8, "tune has a command line too"


def test_a_job_in_a_notebook_is_the_same_when_its_cell_runs_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.own.job import address_of
    from tests.own.test_job import a_job

    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    first, second = a_job(), a_job()
    assert first.line != second.line
    assert address_of(first) == address_of(second)


def test_code_beside_its_folder_is_part_of_what_a_job_is_where_a_repository_holds_both(tmp_path: Path) -> None:
    file, model = tmp_path / "scripts" / "train.py", tmp_path / "src" / "model.py"
    for one in (file, model):
        one.parent.mkdir()
        one.write_text(HEAD)
    assert model not in files_of(file)
    (tmp_path / ".git").mkdir()
    assert model in files_of(file)


def test_code_in_folders_below_is_part_of_what_a_job_is(tmp_path: Path) -> None:
    file, model = tmp_path / "train.py", tmp_path / "src" / "pkg" / "model.py"
    file.write_text(HEAD)
    for one in (model, tmp_path / "env" / "lib" / "a.py", tmp_path / ".hidden" / "b.py", tmp_path / "__pycache__/c.py"):
        one.parent.mkdir(parents=True)
        one.write_text("WIDTH = 3\n")
    (tmp_path / "env" / "pyvenv.cfg").touch()
    data = tmp_path / "data"
    data.mkdir()
    for number in range(600):
        (data / f"{number}.py").touch()
    assert files_of(file) == [file, file, model]
    before = read_workload(file)
    digest = code_digest([before], jobs=True)
    model.write_text("WIDTH = 4\n")
    assert read_workload(file).source != before.source
    assert code_digest([before], jobs=True) != digest
