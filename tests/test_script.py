"""The way in: which interpreter it takes, when it installs, and what it says when it cannot."""

import ast
import importlib.util
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest
from _pytest.mark.expression import Expression

from harness.run.preparation import measuring_alone

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "speedmatrix"
# Stands for uv: notes each call, takes as long and ends as it is told, and prints like an installer.
FAKE_UV = """#!/bin/sh
echo "$@" >> "{log}"
sleep "${{FAKE_UV_S:-0}}"
for line in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do echo "line $line"; done
exit "${{FAKE_UV_STATUS:-0}}"
"""
PIP_OPTIONS = ("--require-hashes", "--no-deps")
FAKE_HARNESS = """import sys
sys.stdout.write(repr((sys.prefix, sys.argv[1:])))
"""


@pytest.fixture
def script() -> ModuleType:
    """The script as a module, for its functions."""
    loader = SourceFileLoader("speedmatrix_script", str(SCRIPT))
    specification = importlib.util.spec_from_loader("speedmatrix_script", loader)
    assert specification
    module = importlib.util.module_from_spec(specification)
    loader.exec_module(module)
    return module


@pytest.fixture
def project(tmp_path: Path, script: ModuleType) -> Path:
    """A project that pins nothing, below a path with a space, with an installer that only takes notes."""
    root = tmp_path / "a project"
    for folder in ("requirements", "harness", ".uv/bin"):
        (root / folder).mkdir(parents=True)
    shutil.copy(SCRIPT, root)
    shutil.copy(ROOT / "requirements/uv.txt", root / "requirements")
    (root / "requirements.txt").write_text("# nothing\n")
    (root / "pyproject.toml").write_text('[project]\nname = "tiny"\n')
    (root / "harness/__init__.py").touch()
    (root / "harness/__main__.py").write_text(FAKE_HARNESS)
    (root / ".uv/bin/python").symlink_to(sys.executable)
    (root / ".uv/bin/uv").write_text(FAKE_UV.format(log=root / "uv.log"))
    (root / ".uv/bin/uv").chmod(0o755)
    script.complete(root / ".uv", script.digest_of([root / "requirements/uv.txt"]))
    return root


def environment_with(**variables: str) -> dict[str, str]:
    """This process's environment without what would reach the script by accident."""
    kept = {name: value for name, value in os.environ.items() if name not in {"SPEEDMATRIX_PYTHON", "PYTHONPATH"}}
    return kept | variables


def call(project: Path, *arguments: str, cwd: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    """Calls a project's script as a user would, on a machine where nobody else measures."""
    return subprocess.run(
        [sys.executable, project / "speedmatrix", *arguments],
        cwd=cwd or project,
        env=environment_with(TMPDIR=str(project), **variables),
        capture_output=True,
        text=True,
        check=False,
    )


def installations(project: Path) -> int:
    """How often the requirements were installed."""
    log = project / "uv.log"
    return log.read_text().count("--require-hashes") if log.exists() else 0


def test_an_old_python_can_parse_the_script() -> None:
    ast.parse(SCRIPT.read_text(encoding="utf-8"), feature_version=(3, 6))


@pytest.mark.parametrize("version", [(3, 6, 15), (3, 10, 13), (3, 14, 0)])
def test_another_python_is_refused_in_one_sentence(version: tuple[int, ...]) -> None:
    pretend = f"import runpy, sys; sys.version_info = {version}; runpy.run_path({str(SCRIPT)!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", pretend], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert f"3.11, 3.12 or 3.13 and this is {version[0]}.{version[1]};" in done.stderr


def test_the_first_call_installs_and_the_second_does_not(project: Path, tmp_path: Path) -> None:
    first = call(project, "list", "a b", cwd=tmp_path)
    assert first.returncode == 0
    assert first.stdout == repr((str(project / ".venv"), ["list", "a b"]))
    assert "Installing" in first.stderr
    assert "half a minute" in first.stderr
    second = call(project, "list")
    assert (second.returncode, second.stderr) == (0, "")
    assert installations(project) == 1


def test_arms_leave_bytecode_whatever_the_user_has_set(project: Path) -> None:
    (project / "harness/__main__.py").write_text("import os\nprint(os.environ.get('PYTHONDONTWRITEBYTECODE'))\n")
    assert call(project, "run", PYTHONDONTWRITEBYTECODE="1").stdout == "None\n"


def test_installation_is_pinned_by_hashes_and_editable(project: Path) -> None:
    call(project)
    requirements, ours = (project / "uv.log").read_text().splitlines()
    assert requirements.endswith(f"--require-hashes -r {project / 'requirements.txt'}")
    assert ours.endswith(f"--no-deps --no-build-isolation -e {project}")


@pytest.mark.parametrize("name", ["requirements.txt", "pyproject.toml"])
def test_changed_requirements_install_again(project: Path, name: str) -> None:
    call(project)
    with (project / name).open("a") as file:
        file.write("# more\n")
    call(project)
    assert installations(project) == 2


def test_nothing_is_installed_beneath_a_measurement(project: Path) -> None:
    call(project)
    (project / "requirements.txt").write_text("# more\n")
    with measuring_alone(project / "speedmatrix-measuring.lock"):
        refused = call(project)
    assert refused.returncode == 2
    assert "a measurement is running; wait until it has ended" in refused.stderr
    assert installations(project) == 1
    call(project)
    assert installations(project) == 2


def test_another_python_installs_again(script: ModuleType) -> None:
    assert script.digest_of([SCRIPT], "3.11") != script.digest_of([SCRIPT], "3.12")


def test_an_interrupted_installation_is_not_taken_for_finished(project: Path) -> None:
    command = [sys.executable, str(project / "speedmatrix"), "list"]
    broken_off = subprocess.Popen(command, env=environment_with(FAKE_UV_S="30"), start_new_session=True)
    while not installations(project):
        time.sleep(0.01)
    assert (project / ".venv/bin/python").exists()
    os.killpg(broken_off.pid, signal.SIGKILL)
    broken_off.wait()
    assert "Installing" in call(project, "list").stderr
    assert installations(project) == 2


def test_two_first_calls_install_once(project: Path) -> None:
    command = [sys.executable, str(project / "speedmatrix"), "list"]
    first = subprocess.Popen(command, env=environment_with(FAKE_UV_S="0.5"), stdout=subprocess.DEVNULL)
    while not installations(project):
        time.sleep(0.01)
    second = call(project, "list")
    assert first.wait() == 0
    assert second.returncode == 0
    assert "waiting" in second.stderr
    assert installations(project) == 1


def test_a_failing_uv_hands_over_to_pip_and_says_so(
    project: Path, script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands: list[list[str]] = []

    def note(command: list[str]) -> None:
        commands.append(command)
        if command[0].endswith("/uv"):
            raise script.InstallerFailed("no route to the index")

    monkeypatch.setattr(script, "UV", project / ".uv")
    monkeypatch.setattr(script, "UV_REQUIREMENTS", project / "requirements/uv.txt")
    monkeypatch.setattr(script, "call", note)
    script.install()
    told = capsys.readouterr().err
    assert "no route to the index" in told
    assert "pip tries it now" in told
    assert [command[1:5] for command in commands[-2:]] == [["-m", "pip", "install", one] for one in PIP_OPTIONS]


def test_when_nothing_installs_the_end_of_the_output_and_a_remedy_are_shown(script: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(script.InstallerFailed) as failed:
        script.call(["sh", "-c", "seq 1 99; exit 3"])
    assert str(failed.value).splitlines() == [str(number) for number in range(88, 100)]
    with pytest.raises(script.InstallerFailed, match="No such file"):
        script.call([str(tmp_path / "missing")])


def test_a_failed_installation_ends_with_status_2(project: Path) -> None:
    (project / "requirements.txt").write_text("speedmatrix-pins-no-such-thing\n")  # unpinned: refused before any index
    done = call(project, "list", FAKE_UV_STATUS="1", PIP_NO_INDEX="1")
    assert done.returncode == 2
    assert "line 15" in done.stderr
    assert "line 3\n" not in done.stderr
    assert "--here" in done.stderr.splitlines()[-1]
    assert not (project / ".venv" / "complete.sha256").exists()


def test_an_incomplete_project_is_named(project: Path) -> None:
    (project / "pyproject.toml").unlink()
    done = call(project, "list")
    assert done.returncode == 2
    assert "pyproject.toml" in done.stderr


@pytest.mark.parametrize(("first", "variables"), [(["--here"], {}), ([], {"SPEEDMATRIX_PYTHON": "current"})])
def test_the_current_interpreter_runs_the_real_harness(
    first: list[str], variables: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "harness.py").write_text("raise SystemExit('the wrong harness')\n")
    done = call(ROOT, *first, "list", "--json", cwd=tmp_path, **variables)
    assert done.returncode == 0, done.stderr
    assert {one["name"] for one in json.loads(done.stdout)["workloads"]} >= {"leak", "speaker"}


def test_an_interpreter_without_the_packages_is_refused(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "NEEDED", ("json", "no_such_package"))
    with pytest.raises(script.Refusal, match="lacks no_such_package; install"):
        script.current_python()


def test_an_unknown_choice_of_interpreter_is_refused(project: Path) -> None:
    done = call(project, "list", SPEEDMATRIX_PYTHON="3.12")
    assert done.returncode == 2
    assert done.stderr == "SPEEDMATRIX_PYTHON is '3.12'; set it to current, or unset it.\n"


def test_a_second_call_adds_no_noticeable_time(project: Path) -> None:
    call(project)
    through = min(seconds_of(project, sys.executable, project / "speedmatrix") for _ in range(8))
    directly = min(seconds_of(project, project / ".venv/bin/python", "-P", "-m", "harness") for _ in range(8))
    assert through - directly < 0.1


def seconds_of(project: Path, *command: Path | str) -> float:
    """Time that a command which finds the project's harness has a core for; on a busy machine it lasts longer."""
    environment = environment_with(PYTHONPATH=str(project))
    before = core_s()
    subprocess.run(command, cwd=project, env=environment, stdout=subprocess.DEVNULL, check=True)
    return core_s() - before


def core_s() -> float:
    """Seconds of a core that all ended children of this process had."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.parametrize(("arguments", "statuses", "expected"), [
    ([], [0] * 10, [*["ruff"] * 2, *["mypy"] * 2, *["coverage"] * 2, "pytest", *["coverage"] * 2, "pytest"]),
    ([], [0, 0, 3], ["ruff", "ruff", "mypy"]),
    (["--thorough"], [0] * 2, ["pytest"] * 2),
    (["--thorough"], [1], ["pytest"]),
    (["tests/core", "-x"], [1], ["pytest"]),
])  # fmt: skip
def test_checks_run_in_turn_up_to_the_first_that_fails(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, arguments: list[str], statuses: list[int], expected: list[str]
) -> None:
    ran: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        ran.append(command)
        return subprocess.CompletedProcess(command, statuses[len(ran) - 1])

    monkeypatch.setattr(script.subprocess, "run", run)
    assert script.run_checks("python", arguments) == statuses[-1]
    assert [command[2] for command in ran] == expected
    assert "--thorough" not in ran[-1]
    assert ran[-1][3:] == arguments or arguments in ([], ["--thorough"])


def test_what_the_quick_checks_leave_out_is_in_the_thorough_ones(script: ModuleType) -> None:
    """By marks: quick is neither thorough nor alone; the pure layers' lines are counted, and the pages come last."""
    counted, beside, pages = (check for check in script.quick_checks() if "pytest" in check)
    long, alone = script.thorough_checks()
    assert (pages[0], pages[-1]) == ("pytest", "tests/test_published_pages.py")
    quick = ["-m", "not alone and not thorough"]
    first = beside.index(quick[1]) - 1
    assert beside[first : first + 2] == quick
    left_out = [one.removeprefix("--ignore=") for one in beside[first + 2 :]]
    assert {*script.SLOWEST} <= {*counted} & {*beside}
    assert all((ROOT / path).exists() for path in left_out)
    assert {*left_out} == {pages[-1], *counted[counted.index(quick[1]) + 1 :]}  # each file in one of the three
    assert long[-2:] == ["-m", "thorough and not alone"]
    assert alone == ["pytest", "tests", "benchmarks/test_overhead.py", "-m", "alone and not oracles"]


@pytest.mark.parametrize("marks", [(), ("thorough",), ("alone",), ("alone", "thorough"), ("alone", "oracles")])
def test_every_test_is_run_by_one_of_both(script: ModuleType, marks: tuple[str, ...]) -> None:
    """But for the coverage and for what is measured on request alone."""
    chosen = [
        check[check.index("-m") + 1]
        for check in (*script.quick_checks(), *script.thorough_checks())
        if check[0] == "pytest" and "-m" in check  # not the one whose lines are counted, which takes other files
    ]
    names = {name: name in marks for name in ("alone", "oracles", "thorough")}
    taken = [one for one in chosen if Expression.compile(one).evaluate(lambda name: names[name])]
    assert len(taken) == ("oracles" not in marks)


def test_uv_is_pinned_by_hashes() -> None:
    lines = (ROOT / "requirements/uv.txt").read_text().splitlines()
    assert sum(line.startswith("uv==") for line in lines) == 1
    assert sum("--hash=sha256:" in line for line in lines) >= 10
