"""The asv plugin: `asv run` measures the commit that is checked out, with the Python that runs asv.

asv's own environment types either install every commit anew, torch included, or keep no results. This one installs
nothing, keeps results, asks nothing, and names machine and environment by what they are, never by host or folder. It
is the only place that subclasses or replaces something of asv's.
"""

import ast
import os
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

from asv import util  # type: ignore[import-untyped]
from asv.console import log  # type: ignore[import-untyped]
from asv.environment import Environment  # type: ignore[import-untyped]
from asv.machine import Machine, MachineCollection  # type: ignore[import-untyped]

from harness.core.environment import Environment as Surroundings
from harness.core.mistake import Mistake
from harness.integrations.asv_cells import ROOT, RUN, SIZE
from harness.measure.surroundings import package_version, read_environment

MEASURED = ("harness", "workloads", "benchmarks", "asv.conf.json", "requirements.txt", "pyproject.toml")
UNSAVED = {"-n", "--dry-run"}
INSTEAD = "check out each commit, `asv run` there, then `asv compare -m MACHINE A B`"
ENVIRONMENT = "SPEEDMATRIX_ENVIRONMENT"  # a digest of all facts of the machine, a part of asv's own environment's name
SKIPPED, MISTAKEN = "asv: skipped: NotImplementedError(", "harness.core.mistake.Mistake: "


def setup() -> None:
    """Called by asv when it has read its settings: names this machine and this call of asv."""
    try:
        surroundings = read_environment("auto")
    except Mistake as mistake:
        raise util.UserError(str(mistake)) from mistake
    facts = machine_facts(surroundings)
    os.environ[ENVIRONMENT] = surroundings.digest
    Machine.hardcoded_machine_name = facts["machine"]
    # asv keeps a file of machines in the user's home, asks for what is not in it, and writes it in every run.
    MachineCollection.load = classmethod(lambda _cls, name, _path=None: facts | {"machine": name})
    MachineCollection.save = classmethod(lambda *_given, **_named: None)
    began = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    os.environ[RUN] = f"{began}-{head()[:12]}-{os.getpid()}"


def machine_facts(surroundings: Surroundings) -> dict[str, str]:
    """What machine.json says: asv's own fields and the accelerator; nothing of hosts, people or kernels' names."""
    system, _, architecture = surroundings.system.partition(" ")
    memory_bytes = surroundings.accelerator_memory_bytes
    return {
        "machine": surroundings.machine,
        "os": system,
        "arch": architecture,
        "cpu": surroundings.cpu,
        "num_cpu": str(surroundings.cores),
        "ram": _gib(surroundings.memory_bytes),
        "accelerator": surroundings.accelerator or "none",
        "accelerator_memory": _gib(memory_bytes) if memory_bytes else "none",
        "capability": surroundings.capability or "none",
        "driver": surroundings.driver or "none",
    }


def _gib(count: int) -> str:
    return f"{count / 2**30:.0f} GiB"


def head() -> str:
    """The commit that is checked out; raises asv's UserError where there is none."""
    return _git("rev-parse", "--verify", "HEAD").strip()


def changed() -> list[str]:
    """Files that are measured and differ from the checked-out commit; results and documents are not measured."""
    return [line[3:] for line in _git("status", "--porcelain", "--", *MEASURED).splitlines()]


def _git(*words: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["it said nothing"]
        raise util.UserError(f"git cannot tell which commit is measured: {said[-1]}; run asv in a clone.")
    return done.stdout


class InPlace(Environment):  # type: ignore[misc]
    """The running Python, at the commit that is checked out."""

    tool_name = "inplace"

    def __init__(self, conf: Any, python: str, _requirements: Any, tagged_env_vars: Any) -> None:
        """Names itself by the Python and the torch that run, by the machine's facts, and by a size that is named."""
        version = package_version("torch")
        if version is None:
            raise util.UserError("This Python has no torch; activate .venv, which any ./speedmatrix command makes.")
        python = f"{sys.version_info[0]}.{sys.version_info[1]}"
        self._requirements = {"torch": version}  # asv asks for the name that is made of it before it keeps it
        self._said: set[str] = set()
        named = {("nobuild", one): os.environ[one] for one in (SIZE, ENVIRONMENT) if os.environ.get(one)}
        super().__init__(conf, python, self._requirements, {**tagged_env_vars, **named})

    @classmethod
    def matches(cls, python: str) -> bool:  # noqa: ARG003  asv's parameter
        """Any wish for a Python is met by the one that runs."""
        return True

    def _get_installed_commit_hash(self) -> str:
        return head()

    def can_install_project(self) -> bool:
        """Asked by asv for ranges of commits alone; raises its UserError."""
        raise util.UserError(f"Only the commit that is checked out can be measured in place: {INSTEAD}.")

    def check_presence(self) -> bool:
        """It is always there."""
        return True

    def create(self) -> None:
        """Nothing is made, and no folder is left behind."""

    def install_project(self, _conf: Any, _repo: Any, commit_hash: str | None = None) -> None:
        """The checked-out commit is in place; raises asv's UserError for any other one."""
        if commit_hash not in {None, head()}:
            raise util.UserError(f"Commit {str(commit_hash)[:8]} is not checked out: {INSTEAD}.")

    def run(self, args: list[str], **given: Any) -> Any:
        """Runs a script of asv's in a fresh process; raises its UserError where the result would be misfiled."""
        mode = args[1]
        if mode == "run_server":
            raise util.UserError("Benchmarks start by spawn here, for a fork can stop torch: omit --launch-method.")
        if mode == "run":
            _refuse_changed_files()
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        inherited = given.pop("env", None) or os.environ
        # asv's script drops the first of the two from its own path unless there is the second.
        variables = {**inherited, **self._global_env_vars, "PYTHONPATH": path, "ASV_PYTHONPATH": path}
        answer = util.check_output([sys.executable, "-P", *args], env=variables, **given)
        if mode == "run":
            self._show(reasons(*answer[::2]))
        return answer

    def _show(self, words: list[str]) -> None:
        """Why a value is missing, once for each reason; asv itself says that only with --show-stderr."""
        for line in words:
            if line not in self._said:
                self._said.add(line)
                log.info(line)


def _refuse_changed_files() -> None:
    if not UNSAVED & set(sys.argv) and (files := changed()):
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        raise util.UserError(
            f"asv would file the result under a commit that lacks your changes ({files[0]}{more}): "
            "commit or stash them first, or keep nothing with --dry-run."
        )


def reasons(output: str, status: int) -> list[str]:
    """The words for what was skipped or failed in a benchmark's process, of all that it has printed."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    skipped = [line.removeprefix(SKIPPED).removesuffix(")") for line in lines if line.startswith(SKIPPED)]
    if skipped:
        return [f"n/a: {ast.literal_eval(words)}" for words in skipped]
    return [line.removeprefix(MISTAKEN) for line in lines[-1:]] if status else []
