"""The arrows of DESIGN.md, section 3: who may import whom, and that torch stays in its half."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
MAY_IMPORT = {
    "core": set(),
    "plan": {"core"},
    "measure": {"core"},
    "store": {"core"},
    "analyze": {"core"},
    "optimizations": {"core"},
    "workloads": {"core"},
    "exchange": {"core", "store", "analyze", "report"},
    "report": {"core", "analyze"},
    "catalogue": {"core", "optimizations", "workloads"},
    "run": {"core", "catalogue", "measure", "store", "plan"},
    "results": {"core", "catalogue", "store", "analyze"},
    "search": {"core", "catalogue", "store", "plan", "analyze", "results", "run"},
    "api": {"core", "catalogue", "run", "results", "store", "analyze", "report", "exchange"},
    "own": {"core", "measure", "run", "store", "api"},
    "integrations": {"core", "catalogue", "store", "plan", "measure", "analyze", "report", "results", "run", "api"},
}
EVERYTHING = {"cli", "__main__"}
# What starts arms is called by the Python interface; these check without timing, rehearse, or time the harness itself.
STARTS_ARMS = {"arm", "execution", "replicate", "sentinel", "worker"}
WITHOUT_THE_INTERFACE = {"harness/cli/checks.py", "harness/cli/learning.py"}
BLIND = {"optimizations", "plan", "analyze", "report"}
HOST_READERS = {"ctypes", "multiprocessing", "os", "pathlib", "platform", "psutil", "resource", "shutil", "socket"}
HOST_READERS |= {"importlib.metadata", "importlib.util", "subprocess", "sys", "torch"}
INSIDE_FUNCTIONS = {"harness/cli/explain.py", "harness/run/worker.py"}  # torch, where it is asked for
FILES = [path for folder in ("harness", "workloads") for path in sorted((ROOT / folder).rglob("*.py"))]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def layer(module: str) -> str | None:
    """The layer that a dotted name belongs to; None for foreign packages and for the harness itself."""
    first, *rest = module.split(".")
    return first if first == "workloads" else rest[0] if first == "harness" and rest else None


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the layer"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_blind(path: Path) -> bool:
    """Whether a module may know of the machine only what an environment says."""
    parts = path.relative_to(ROOT).parts
    return parts[1] in BLIND or (parts[0] == "workloads" and "optimizations" in parts)


def at_import_time(tree: ast.Module) -> Iterator[str]:
    """What is imported with the module itself, and not only where types are checked."""
    for node in tree.body:
        guarded = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        if not guarded and not isinstance(node, ast.FunctionDef):
            yield from imported(node)


def strangers(path: Path) -> set[str]:
    """Layers that a module imports and must not."""
    own = layer(".".join(path.relative_to(ROOT).with_suffix("").parts))
    if own is None or own in EVERYTHING or own == "__init__":
        return set()
    found = {one for name in imported(parsed(path)) if (one := layer(name))}
    return found - {own, "__version__"} - MAY_IMPORT[own]


def test_only_the_arrows_of_the_design() -> None:
    assert {name_of(path): found for path in FILES if (found := strangers(path))} == {}


def test_the_command_line_and_other_tools_measure_through_the_interface() -> None:
    tools = [one for one in FILES if layer(".".join(one.relative_to(ROOT).parts)) in {"cli", "integrations", "search"}]
    assert tools
    starting = {
        name_of(path)
        for path in tools
        for name in imported(parsed(path))
        if name.startswith("harness.run.") and name.split(".")[2] in STARTS_ARMS
    }
    assert starting - WITHOUT_THE_INTERFACE == set()


def test_torch_stays_in_its_half() -> None:
    halves = {"measure", "own", "workloads"}
    without = [one for one in FILES if layer(".".join(one.relative_to(ROOT).parts)) not in halves]
    early, late = (
        {name_of(path) for path in without if "torch" in {name.split(".")[0] for name in found(parsed(path))}}
        for found in (at_import_time, imported)
    )
    assert early == set()
    # In core where types are checked.
    assert {name for name in late if not name.startswith("harness/core/")} - INSIDE_FUNCTIONS == set()


def test_core_needs_nothing_but_the_standard_library() -> None:
    for path in sorted((ROOT / "harness" / "core").glob("*.py")):
        found = {name.split(".")[0] for name in at_import_time(parsed(path))}
        assert found <= {*sys.stdlib_module_names, "harness"}, path.name


def test_what_decides_about_pages_cannot_read_the_host() -> None:
    """A need, a plan, an estimate and a page are made of recorded facts; `measure` alone asks the machine."""
    blind = [one for one in FILES if is_blind(one)]
    assert blind
    reading = [
        (name_of(path), name)
        for path in blind
        for name in imported(parsed(path))
        if any(name == one or name.startswith(f"{one}.") for one in HOST_READERS)
    ]
    assert reading == []


WITHOUT_TORCH = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "torchvision", "torchaudio"}:
            raise AssertionError(f"{name} was imported")
sys.meta_path.insert(0, Refuse())
import harness.analyze.matrix, harness.report.matrix, harness.report.matrix, harness.report.figures
import harness.report.matrix, harness.report.comparison, harness.plan.designs, harness.plan.schedule
import harness.plan.schedule
import harness.store, harness.cli, harness.run.execution
for command in (["list"], ["plan", "--device", "cpu"], ["rehearse", "leak", "--results", "kept"],
                ["report", "--results", "kept"], ["explain", "workers"],
                ["document", "--results", "kept"], ["publish", "--results", "kept"]):
    sys.argv = ["speedmatrix", *command]
    try:
        harness.cli.main()
    except SystemExit as end:
        assert not end.code, command
    print("DONE", *command)
"""


def test_planning_and_reporting_need_no_torch(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("DONE") == 7
