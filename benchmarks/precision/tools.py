"""The five tools: how each is started, what of its settings follows from the time it has, and how it is read."""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.precision.intervals import Z95, Z99, Finding, Stated, of_means, of_medians, of_stated
from benchmarks.precision.spending import Cost, Settings, processes, replicates, timed

HERE = Path(__file__).parent
RESULT = "result.json"
ASV_SAMPLES_S = 4  # two variants, each in two processes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tool:
    """One way of comparing two variants."""

    name: str
    package: str  # that must be installed
    interval: str  # in words: what its 95 % interval is made of
    rule: str  # in words: what counts as a change
    least: Settings  # with which the cost of starting is seen
    command: Callable[[Settings, Path], list[str]]  # of the settings and an empty folder
    read: Callable[[Path], Finding]  # that folder, when the command has ended
    cost: Callable[[float, Path], Cost]  # of the seconds that the least settings took
    spend: Callable[[float, Cost], Settings]


def _content(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _module(name: str, *words: str) -> list[str]:
    return [sys.executable, "-m", f"benchmarks.precision.{name}", *words]


def _pytest(chosen: Settings, folder: Path) -> list[str]:
    options = ["-q", "-c", str(folder / "none.ini"), "--rootdir", str(folder), "--noconftest", "-p", "no:cacheprovider"]
    timing = [f"--benchmark-max-time={chosen['seconds']}", f"--benchmark-json={folder / RESULT}"]
    (folder / "none.ini").write_text("[pytest]\n")  # else pytest takes this project's settings
    return [sys.executable, "-m", "pytest", str(HERE / "in_pytest.py"), *options, *timing]


def read_pytest(folder: Path) -> Finding:
    """The two means with Welch's t; pytest-benchmark itself has neither interval nor test for a comparison."""
    both = {one["name"]: one["stats"]["data"] for one in _content(folder / RESULT)["benchmarks"]}
    return of_means(both["test_reference"], both["test_treatment"], pooled=False)


def read_torch(folder: Path) -> Finding:
    """The two medians, which is what torch shows, with the intervals that the order of their times gives."""
    both = _content(folder / RESULT)
    return of_medians(both["reference"], both["treatment"])


def _pyperf(chosen: Settings, folder: Path) -> list[str]:
    return _module(
        "in_pyperf", f"--processes={chosen['processes']:.0f}", "--copy-env", "--quiet", f"--output={folder / RESULT}"
    )


def read_pyperf(folder: Path) -> Finding:
    """The two means and pyperf's own two-sample t test."""
    names = ("reference", "treatment")
    suite = _content(folder / RESULT)
    values: dict[str, list[float]] = {}
    for name, benchmark in zip(names, suite["benchmarks"], strict=True):
        values[name] = [value for run in benchmark["runs"] for value in run.get("values", ())]
    return of_means(values["reference"], values["treatment"], pooled=True)


def _asv(_chosen: Settings, folder: Path) -> list[str]:
    """A commit and a machine must exist for asv to keep a result; both are made up in the folder."""
    repository = folder / "repository"
    git = ["git", "-C", str(repository), "-c", "user.name=precision", "-c", "user.email=precision@localhost"]
    for words in (["git", "init", "-q", str(repository)], [*git, "commit", "-q", "--allow-empty", "-m", "Nothing"]):
        subprocess.run(words, check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    branch = subprocess.run([*git, "branch", "--show-current"], check=True, capture_output=True, text=True).stdout
    told = {
        "version": 1, "project": "precision", "repo": str(repository), "dvcs": "git", "branches": [branch.strip()],
        "environment_type": "existing",
        "benchmark_dir": str(HERE / "asv_steps"), "results_dir": str(folder / "results"),
        "env_dir": str(folder / "environments"), "html_dir": str(folder / "html"),
    }  # fmt: skip
    (folder / "asv.json").write_text(json.dumps(told))
    machine = {"arch": "", "cpu": "", "machine": "here", "num_cpu": "", "os": "", "ram": ""}
    (folder / ".asv-machine.json").write_text(json.dumps({"here": machine, "version": 1}))
    where = ["--config", str(folder / "asv.json"), "--machine", "here"]
    home = ["env", f"HOME={folder}", f"ASV_PYTHONPATH={HERE.parents[1]}"]  # asv looks for its machines at home
    return [*home, sys.executable, "-m", "asv", "run", *where, f"--set-commit-hash={head}"]


def read_asv(folder: Path) -> Finding:
    """The two medians and the 99 % intervals that asv keeps with them; `asv compare` asks whether those overlap."""
    (path,) = (folder / "results" / "here").glob("*-existing*.json")
    kept = _content(path)
    sides = {name.partition(".")[2]: _stated(dict(zip(kept["result_columns"], row, strict=False)))
             for name, row in kept["results"].items()}  # fmt: skip
    return of_stated(sides["time_reference"], sides["time_treatment"], scale=Z95 / Z99)


def _stated(row: Mapping[str, Any]) -> Stated:
    return Stated(seconds=row["result"][0], low=row["stats_ci_99_a"][0], high=row["stats_ci_99_b"][0])


def read_harness(folder: Path) -> Finding:
    """The estimate as it stands in a matrix."""
    found = _content(folder / RESULT)
    return Finding(**{name: found[name] for name in ("ratio", "low", "high", "changed", "method")})


def _harness_cost(seconds: float, folder: Path) -> Cost:
    found = _content(folder / RESULT)
    attempt_s = found["life_s"]
    return Cost(fixed_s=max(0.0, seconds - 2 * attempt_s), unit_s=attempt_s, lent=found["lent"])


LEAST_SECONDS: Settings = {"seconds": 0.3}
TOOLS = (
    Tool(
        name="speedmatrix",
        package="torch",
        interval="its own: Student's t over replicates, with what a calibration lends where there is one",
        rule="its own verdict, `faster` or `slower`; it is withheld where the machine was too restless",
        least={"restarts": 2, "rounds": 1},
        command=lambda _chosen, folder: _module("in_harness", str(folder / RESULT)),
        read=read_harness,
        cost=_harness_cost,
        spend=replicates,
    ),
    Tool(
        name="pytest-benchmark",
        package="pytest_benchmark",
        interval="it has none; made here of its rounds: the ratio of means, with Welch's t",
        rule="it has none; Welch's t test at 5 %",
        least=LEAST_SECONDS,
        command=_pytest,
        read=read_pytest,
        cost=lambda seconds, _folder: Cost(fixed_s=seconds - 2 * LEAST_SECONDS["seconds"]),
        spend=lambda seconds, cost: timed(seconds, cost, parts=2),
    ),
    Tool(
        name="torch.utils.benchmark",
        package="torch",
        interval="it has none; made here of its times: the ratio of medians, with the order statistics of each",
        rule="it has none; whether that interval leaves out 1",
        least=LEAST_SECONDS,
        command=lambda _chosen, folder: _module("in_torch", str(folder / RESULT)),
        read=read_torch,
        cost=lambda seconds, _folder: Cost(fixed_s=seconds - 2 * LEAST_SECONDS["seconds"]),
        spend=lambda seconds, cost: timed(seconds, cost, parts=2),
    ),
    Tool(
        name="asv",
        package="asv",
        interval="the ratio of medians; its own 99 % interval of each, brought to 95 % and put together",
        rule="that of `asv compare` without its factor of 1.1, which hides 1.05: the two 99 % intervals do not overlap",
        least=LEAST_SECONDS,
        command=_asv,
        read=read_asv,
        cost=lambda seconds, _folder: Cost(fixed_s=seconds - ASV_SAMPLES_S * LEAST_SECONDS["seconds"]),
        spend=lambda seconds, cost: timed(seconds, cost, parts=ASV_SAMPLES_S),
    ),
    Tool(
        name="pyperf",
        package="pyperf",
        interval="the ratio of means; the interval that its t test belongs to",
        rule="its own `compare_to`: Student's t test at 5 %",
        least={"processes": 2},
        command=_pyperf,
        read=read_pyperf,
        cost=lambda seconds, _folder: Cost(fixed_s=0.0, unit_s=seconds / 6),  # for each side one that counts, and two
        spend=processes,
    ),
)
