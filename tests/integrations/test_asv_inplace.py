"""The asv plugin: neutral names, no questions, no file in the home folder, and refusals in a sentence."""

import importlib.metadata
import json
import os
import platform
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from asv import util
from asv.config import Config
from asv.machine import Machine, MachineCollection

from harness.integrations import asv_inplace
from harness.integrations.asv_cells import RUN, SIZE
from harness.integrations.asv_inplace import InPlace, machine_facts, reasons
from tests.analyze.synthetic import ENVIRONMENT

HEAD = "0123456789abcdef0123456789abcdef01234567"
H200 = replace(
    ENVIRONMENT,
    device="cuda",
    accelerator="NVIDIA H200",
    accelerator_memory_bytes=140 * 2**30,
    capability="9.0",
    driver="570.1",
)


class Uname(NamedTuple):
    system: str = "Linux"
    node: str = "secret-host"
    release: str = "6.1-secret"
    version: str = "secret"
    machine: str = "x86_64"
    processor: str = ""


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> InPlace:
    monkeypatch.setattr(asv_inplace, "head", lambda: HEAD)
    monkeypatch.delenv(SIZE, raising=False)
    monkeypatch.setenv(asv_inplace.ENVIRONMENT, asv_inplace.read_environment("auto").digest)  # as `setup` does
    conf = Config()
    conf.repo, conf.project = ".", "speedmatrix"
    return InPlace(conf, "3.12", {"torch": "1.0"}, {})


@pytest.fixture
def asv_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `setup` replaces comes back."""
    monkeypatch.setattr(Machine, "hardcoded_machine_name", None)
    for name in ("load", "save"):
        monkeypatch.setattr(MachineCollection, name, MachineCollection.__dict__[name])
    monkeypatch.setenv(RUN, "")


def test_machines_are_told_by_what_they_are() -> None:
    facts = machine_facts(H200)
    assert (facts["machine"], facts["accelerator"], facts["accelerator_memory"]) == ("h200", "NVIDIA H200", "140 GiB")
    assert machine_facts(ENVIRONMENT)["accelerator"] == "none"
    assert {name for name, _ in Machine.fields} <= set(facts)  # all that asv would ask for


def test_an_unknown_machine_is_asked_nothing_and_its_home_is_left_alone(
    asv_unchanged: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))  # which is not even there
    monkeypatch.setattr(platform, "uname", Uname)
    asv_inplace.setup()
    machine = Machine.load(interactive=True)
    machine.save(str(tmp_path / "asv"))
    (written,) = (tmp_path / "asv").glob("*/machine.json")
    kept = json.loads(written.read_text())
    assert kept["machine"] == written.parent.name == asv_inplace.read_environment("auto").machine
    assert "secret" not in str(written.relative_to(tmp_path)) + written.read_text()
    assert socket.gethostname() not in written.read_text()
    assert not (tmp_path / "home").exists()


def test_a_machine_may_be_given_a_name(asv_unchanged: None) -> None:
    asv_inplace.setup()
    assert Machine.load(machine_name="the-quiet-one", interactive=True).machine == "the-quiet-one"


def test_every_call_of_asv_has_a_name_of_its_own(asv_unchanged: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asv_inplace, "head", lambda: HEAD)
    asv_inplace.setup()
    stamp, commit, process = os.environ[RUN].split("-")
    assert (commit, process) == (HEAD[:12], str(os.getpid()))
    assert stamp.startswith("20")


def test_the_environment_is_named_by_python_and_torch_that_run_and_by_the_machines_facts(environment: InPlace) -> None:
    version, digest = importlib.metadata.version("torch"), asv_inplace.read_environment("auto").digest
    named = f"inplace-py{sys.version_info[0]}.{sys.version_info[1]}-torch{version}"
    assert environment.name == f"{named}-{asv_inplace.ENVIRONMENT}{digest}"
    assert environment.requirements == {"torch": version}
    assert environment.installed_commit_hash == HEAD


def test_a_size_that_is_named_has_results_of_its_own(environment: InPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = environment.name
    monkeypatch.setenv(SIZE, "smoke")
    conf = Config()
    conf.repo = "."
    assert sorted(InPlace(conf, "3.12", {}, {}).name.split("-")) == sorted(f"{usual}-{SIZE}smoke".split("-"))


def test_without_torch_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asv_inplace, "package_version", lambda _name: None)
    with pytest.raises(util.UserError, match=r"activate \.venv"):
        InPlace(Config(), "3.11", {}, {})


def test_other_commits_are_refused(environment: InPlace) -> None:
    environment.install_project(None, None, HEAD)
    with pytest.raises(util.UserError, match="deadbeef is not checked out: check out each commit"):
        environment.install_project(None, None, "deadbeef" * 5)
    with pytest.raises(util.UserError, match="Only the commit that is checked out"):
        environment.can_install_project()


class Script:
    """Stands in for a benchmark's process."""

    def __init__(self, output: str = "", status: int = 0) -> None:
        self.answer = (output, "", status)
        self.started: list[tuple[list[str], dict[str, str]]] = []

    def __call__(self, command: list[str], *, env: dict[str, str], **_given: Any) -> tuple[str, str, int]:
        self.started.append((command, env))
        return self.answer


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    found = Script('asv: skipped: NotImplementedError("leak, workers: the machine\'s cores are few") \n')
    monkeypatch.setattr(util, "check_output", found)
    monkeypatch.setattr(asv_inplace, "changed", lambda: ["harness/store.py", "harness/limits.toml"])
    monkeypatch.setattr(sys, "argv", ["asv", "run"])
    return found


def test_a_fork_server_is_refused(environment: InPlace, script: Script) -> None:
    with pytest.raises(util.UserError, match="omit --launch-method"):
        environment.run(["benchmark.py", "run_server", "folder", "socket"])
    assert script.started == []


def test_changed_files_are_refused_where_results_would_be_kept(
    environment: InPlace, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment.run(["benchmark.py", "discover", "folder"])
    with pytest.raises(util.UserError, match=r"lacks your changes \(harness/store.py and 1 more\)"):
        environment.run(["benchmark.py", "run", "folder"])
    assert len(script.started) == 1
    monkeypatch.setattr(sys, "argv", ["asv", "run", "--dry-run"])
    environment.run(["benchmark.py", "run", "folder"])
    assert len(script.started) == 2


def test_benchmarks_run_with_this_python_and_this_tree(
    environment: InPlace, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    environment.run(["benchmark.py", "discover"], env={"PATH": "/usr/bin"})
    ((command, variables),) = script.started
    assert command[0] == sys.executable
    assert variables["PYTHONPATH"].split(os.pathsep) == [str(asv_inplace.ROOT), "elsewhere"]
    assert variables["ASV_PYTHONPATH"] == variables["PYTHONPATH"]
    assert (variables["PATH"], variables["ASV_COMMIT"]) == ("/usr/bin", HEAD)


def test_the_reason_of_a_skip_is_shown_once(
    environment: InPlace, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    monkeypatch.setattr(asv_inplace.log, "info", shown.append)
    monkeypatch.setattr(asv_inplace, "changed", list)
    for _ in range(3):
        environment.run(["benchmark.py", "run", "folder"])
    assert shown == ["n/a: leak, workers: the machine's cores are few"]


def test_a_failure_is_shown_by_its_sentence() -> None:
    trace = "Traceback (most recent call last):\n  File ...\nharness.core.mistake.Mistake: No room; make some.\n"
    assert reasons(trace, 1) == ["No room; make some."]
    assert reasons("whatever a library prints", 0) == []


def test_facts_hold_no_name_of_people_or_places() -> None:
    facts = machine_facts(asv_inplace.read_environment("auto"))
    text = json.dumps(facts)
    assert socket.gethostname() not in text
    assert str(Path.home()) not in text
    assert all(isinstance(value, str) for value in facts.values())
