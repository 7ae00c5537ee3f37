"""Which job arms find in a script: the one that was measured, with the code that it has now."""

import os
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import speedmatrix as sm
from harness.catalogue import code_digest, read_workload
from harness.core.own_file import TOLD, files_of, look_anew, read_file
from harness.core.recipe import Recipe
from harness.own.job import Job, address_of
from harness.run.arm import launch_environment
from harness.run.preparation import measuring_alone
from harness.run.processes import finding_modules
from tests.own.test_job import a_job
from tests.run.test_lock import held

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


# What a job is besides its code.

READING = """
import json
from pathlib import Path
SETTINGS = json.loads(Path({place!r}).read_text())
"""


def test_settings_that_a_script_reads_are_part_of_what_a_job_is(tmp_path: Path) -> None:
    file, settings = tmp_path / "train.py", tmp_path / "settings" / "small.json"
    settings.parent.mkdir()
    settings.write_text("3")
    file.write_text(READING.format(place=str(settings)) + HEAD)
    before = read_workload(file)
    digest = code_digest([before], jobs=True)
    assert read_workload(file).source == before.source
    settings.write_text("5")
    assert read_workload(file).source != before.source
    assert code_digest([before], jobs=True) != digest, "and it may not change between two arms"


def test_data_that_a_script_reads_are_no_part_of_what_a_job_is(tmp_path: Path) -> None:
    file, settings = tmp_path / "train.py", tmp_path / "settings.txt"
    large, log = tmp_path / "large.bin", tmp_path / "log.txt"
    many = [tmp_path / "many" / f"{number}.txt" for number in range(30)]
    many[0].parent.mkdir()
    for one in (settings, large, log, *many):
        one.write_bytes(bytes(2 << 20 if one is large else 10))
    read = [str(one) for one in (settings, large, log, *many)]
    file.write_text(f"for one in {read}:\n    open(one).close()\nopen({str(log)!r}, 'a').close()\n{HEAD}")
    read_workload(file)
    assert {settings, large, log, *many} & {*files_of(file)} == {settings}


def test_variables_that_a_script_asks_for_are_part_of_what_a_job_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "train.py"
    file.write_text(f"import os\nMODEL = os.environ.get('MODEL_OF_A_TEST', 'usual')\n{HEAD}")

    def source(number: int) -> str:
        os.utime(file, (number, number))  # so that it is run again, as in another process
        return read_workload(file).source

    monkeypatch.setenv("MODEL_OF_A_TEST", "small")
    small = source(1)
    monkeypatch.setenv("ANOTHER_OF_A_TEST", "changed")
    assert source(2) == small
    monkeypatch.setenv("MODEL_OF_A_TEST", "large")
    assert source(3) != small
    monkeypatch.delenv("MODEL_OF_A_TEST")
    assert source(4) != small


def test_what_a_function_reads_that_makes_a_job_is_part_of_it(tmp_path: Path) -> None:
    file, settings = tmp_path / "train.py", tmp_path / "settings.txt"
    settings.write_text("3")
    file.write_text(f"{HEAD}\ndef mine():\n    open({str(settings)!r}).close()\n    return made(8)\n")
    before = read_workload(Path(f"{file}:mine")).source
    settings.write_text("5")
    assert read_workload(Path(f"{file}:mine")).source != before


def test_arms_have_the_facts_of_their_launcher_though_they_have_other_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "train.py"
    file.write_text(f"import os\nTHREADS = os.environ.get('OMP_NUM_THREADS')\n{HEAD}")
    before = read_workload(file)
    told = launch_environment(Recipe(threads=7), {})
    for name in (TOLD, "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, told[name])
    monkeypatch.setattr("harness.own.job.look", None)
    os.utime(file, (1, 1))
    assert read_workload(file).source == before.source


def test_arms_leave_bytecode_whatever_their_launcher_inherited() -> None:
    """Else every spawned worker would compile all that it imports, as none does where a training is at home."""
    assert "PYTHONDONTWRITEBYTECODE" not in launch_environment(Recipe(), {"PYTHONDONTWRITEBYTECODE": "1"})


def test_a_job_is_the_same_however_its_address_names_it(tmp_path: Path) -> None:
    """A script that measures its job gives the name, and whoever gives the script to a command need not."""
    file = tmp_path / "train.py"
    file.write_text(f"{HEAD}\nsame = job\n\n\ndef mine():\n    return job\n\n\njob.measure()\n")
    assert len({read_workload(Path(f"{file}{names}")).source for names in ("", ":job", ":same", ":mine")}) == 1
    file.write_text(f"{HEAD}\nother = made(8)\n\n\ndef third():\n    return made(8)\n")
    jobs = (":job", ":other", ":third", ":job,other", ":job,third")
    assert len({read_workload(Path(f"{file}{names}")).source for names in jobs}) == len(jobs)


def test_clones_with_the_same_code_are_looked_at_each_by_itself(tmp_path: Path) -> None:
    sources = set()
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.py").write_text(HEAD)
        sources.add(read_workload(tmp_path / name / "train.py").source)
    assert len(sources) == 1
    assert len(list((tmp_path / "cache" / "own").glob("*.json"))) == 2


def test_fresh_looks_anew(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(HEAD)
    first = read_workload(file)
    (kept,) = (tmp_path / "cache" / "own").glob("*.json")
    kept.write_text(kept.read_text().replace('"parameters": ', '"parameters": 1'))
    assert read_workload(file).parameters != first.parameters
    look_anew()
    assert read_workload(file).parameters == first.parameters


def test_nothing_is_looked_at_while_another_process_measures(tmp_path: Path) -> None:
    file, lock = tmp_path / "train.py", Path(tempfile.gettempdir()) / "speedmatrix-measuring.lock"
    file.write_text(HEAD)
    with held(lock) as owner:
        with pytest.raises(sm.Mistake, match=f"Process {owner.pid} is measuring on this machine"):
            read_workload(file)
        owner.kill()
    with measuring_alone():
        first = read_workload(file)
    with held(lock) as owner:
        assert read_workload(file).source == first.source, "what was seen is kept"
        owner.kill()


def test_code_that_nobody_may_read_is_no_part_of_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, secret, read = tmp_path / "train.py", tmp_path / "secret.py", Path.read_bytes

    def refused(path: Path) -> bytes:
        if path == secret:
            raise PermissionError(13, "Permission denied")
        return read(path)

    file.write_text(HEAD)
    secret.write_text("")
    monkeypatch.setattr(Path, "read_bytes", refused)
    assert code_digest([read_workload(file)], jobs=True)


BESIDE_A_NOTEBOOK = """
from tests.own.trainings import Net


class Own(Net):
    WIDTH = 3
"""
LOADED = """
import sys
from pathlib import Path
from harness.core.own_file import read_file
print(type(read_file(Path(sys.argv[1])).names["job"]).__name__)
"""


def test_a_module_beside_a_notebook_is_found_by_arms_and_is_part_of_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / f"net_of_{tmp_path.name.replace('-', '_')}.py"
    module.write_text(BESIDE_A_NOTEBOOK)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    where = address_of(a_job(model=import_module(module.stem).Own))
    command = [sys.executable, "-P", "-c", LOADED, str(where)]
    done = subprocess.run(command, env=finding_modules(os.environ), capture_output=True, text=True, check=False)
    assert done.stdout.strip() == Job.__name__, done.stderr
    before = read_workload(where).source
    module.write_text(BESIDE_A_NOTEBOOK.replace("3", "5"))
    assert read_workload(where).source != before


@pytest.mark.parametrize("dot", ["", "."], ids=["beside it", "in its package"])
def test_what_a_module_of_a_notebook_imports_is_part_of_the_job(
    dot: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file of the job names the first module alone."""
    name = tmp_path.name.replace("-", "_")
    folder = tmp_path / f"package_{name}"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / f"first_{name}.py").write_text(f"from {dot}second_{name} import WIDTH\n{BESIDE_A_NOTEBOOK}")
    (folder / f"second_{name}.py").write_text(f"from {dot}third_{name} import WIDTH\n")
    (third := folder / f"third_{name}.py").write_text("WIDTH = 3\n")
    monkeypatch.syspath_prepend(tmp_path if dot else folder)
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    first = import_module(f"{folder.name}.first_{name}" if dot else f"first_{name}")
    where = address_of(a_job(model=first.Own))
    before = read_workload(where).source
    assert read_workload(where).source == before
    third.write_text("WIDTH = 5\n")
    assert read_workload(where).source != before


# Where a file's own modules lie that are not beside it.

USED = "from tests.own.trainings import Net, Pictures, sgd"


def importing(net: str) -> str:
    """A script that has its model from there."""
    return HEAD.replace(USED, f"{net}\nfrom tests.own.trainings import Pictures, sgd")


@pytest.mark.parametrize("marked", [True, False], ids=["packages", "folders"])
def test_a_file_with_relative_imports_is_a_module_of_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, marked: bool
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    top = tmp_path / f"package_of_{tmp_path.name.replace('-', '_')}"
    file = top / "inner" / "train.py"
    file.parent.mkdir(parents=True)
    for folder in (top, file.parent) if marked else ():
        (folder / "__init__.py").touch()
    (top / "net.py").write_text(BESIDE_A_NOTEBOOK)
    file.write_text(importing("from ..net import Own as Net"))
    found = read_file(file).names
    assert found["__name__"] == f"{top.name}.inner.train"
    assert found["job"].model.__module__ == f"{top.name}.net"
    assert sys.modules[found["job"].module].job is found["job"], "whoever unpickles finds it again"


def test_a_file_that_gets_along_without_its_package_is_a_script(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(f"try:\n    from .net import Net\nexcept ImportError:\n    pass\n{HEAD}")
    assert read_file(file).names["__name__"] == "train"


def test_a_package_of_the_project_is_found_from_a_folder_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the script is run with `python -m` from the project's folder."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    name = f"source_of_{tmp_path.name.replace('-', '_')}"
    file, net, log = tmp_path / "scripts" / "train.py", tmp_path / name / "net.py", tmp_path / f"logs_{name}" / "a.txt"
    for one in (file, net, log):
        one.parent.mkdir()
        one.write_text(f"import {log.parent.name}\n")
    (tmp_path / ".git").mkdir()
    with pytest.raises(sm.Mistake, match="ModuleNotFoundError in line 1: No module named 'logs_"):
        read_file(file)
    net.write_text(BESIDE_A_NOTEBOOK)
    again = file.with_name("again.py")
    again.write_text(importing(f"from {name}.net import Own as Net"))
    assert read_file(again).names["Net"].WIDTH == 3
    assert sys.path[-1] == str(tmp_path), "behind all others"


def test_what_is_installed_does_not_come_before_the_users_own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    for root, path in (("/home/me/clone", "/home/me/clone:/mine"), ("/env/lib/python3.12/site-packages", "/mine")):
        monkeypatch.setattr("harness.run.processes.ROOT", Path(root))
        assert finding_modules({"PYTHONPATH": "/mine"})["PYTHONPATH"] == path


def test_a_file_that_reads_a_command_line_is_told_to_be_measured_by_its_defaults(tmp_path: Path) -> None:
    file, told = tmp_path / "train.py", list[bool]()
    for text in (HEAD, f"import argparse\nargparse.ArgumentParser().parse_args()\n{HEAD}"):
        file.write_text(text)
        told.append("command line: none is given to your file; " in "\n".join(read_workload(file).seen))
    assert told == [False, True]
