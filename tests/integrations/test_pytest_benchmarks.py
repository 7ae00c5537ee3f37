"""The benchmarks as somebody sees them who calls pytest: a recorded run shown, compared and gated."""

import json
import os
import platform
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from harness.integrations import pytest_options
from harness.integrations.configurations import samples
from harness.integrations.pytest_options import BENCHMARKS
from harness.report.words import ratio
from harness.run.preparation import measuring_alone
from harness.store import read_run
from tests.integrations.pytest_session import ROOT, benchmarks_of, pytest_in
from tests.integrations.recorded import COMMAND, NO_RESULT, WITH_RATIO, record

pytest_plugins = ("pytester",)

EVERYTHING = "test_cell[cpu-leak@quick#64:all-{}]"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pytest")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="module")
def show(run: Path) -> tuple[str, ...]:
    return "benchmarks", "--benchmark-only", "--speedmatrix-run", str(run)


@pytest.fixture(scope="module")
def seconds(folder: Path, show: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    return pytest_in(folder, *show, f"--benchmark-json={folder / 'seconds.json'}", "-rs")


@pytest.fixture(scope="module")
def relative(folder: Path, show: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    return pytest_in(
        folder, *show, "--speedmatrix-relative", f"--benchmark-json={folder / 'relative.json'}", "--benchmark-autosave"
    )


def test_every_sample_is_shown_as_it_was_measured(
    run: Path, folder: Path, seconds: subprocess.CompletedProcess[str]
) -> None:
    assert seconds.returncode == 0, seconds.stdout
    shown = benchmarks_of(folder / "seconds.json")
    count = 0
    for one in samples(run):
        if one.row.estimate:
            config = one.row.comparison.reference
            name = f"test_cell[cpu-{config.workload}@{config.size}#{config.batch}:{one.row.comparison.label}"
            assert tuple(shown[f"{name}-baseline]"]["stats"]["data"]) == one.reference_s
            assert tuple(shown[f"{name}-treatment]"]["stats"]["data"]) == one.treatment_s
            assert shown[f"{name}-treatment]"]["extra_info"]["ratio"] == one.row.estimate.ratio
            count += 2
    assert len(shown) == count == 2 * WITH_RATIO


def test_both_arms_stand_in_a_group_named_by_the_cell(folder: Path, seconds: subprocess.CompletedProcess[str]) -> None:
    shown = benchmarks_of(folder / "seconds.json")
    groups = {shown[EVERYTHING.format(arm)]["group"] for arm in ("baseline", "treatment")}
    assert groups == {"leak@quick#64:all on cpu"}
    assert "benchmark 'leak@quick#64:all on cpu': 2 tests" in seconds.stdout


def test_ratios_are_printed_below_the_tables(run: Path, seconds: subprocess.CompletedProcess[str]) -> None:
    (cached,) = (one.row.estimate for one in samples(run) if one.row.label == "chunk_cache")
    assert cached
    assert (
        f"leak@quick#64:chunk_cache on cpu: {ratio(cached)} against the baseline, undecided; 8 pairs in 2 replicates; "
        "losses: same bits" in seconds.stdout
    )
    assert f"Measured by: ./{COMMAND}" in seconds.stdout


def test_holes_are_skipped_with_their_words(seconds: subprocess.CompletedProcess[str]) -> None:
    assert "test_cells.py" in seconds.stdout
    assert ": needs a CUDA device" in seconds.stdout
    assert ": failed: out of memory" in seconds.stdout
    assert f"{2 * WITH_RATIO} passed, 3 skipped" in seconds.stdout, "both arms of what failed, and a missing result"


def test_nothing_live_is_measured_beside_a_recorded_run(
    folder: Path, seconds: subprocess.CompletedProcess[str]
) -> None:
    assert "harness" not in " ".join(benchmarks_of(folder / "seconds.json"))


def test_the_file_names_no_host_and_no_folder(
    run: Path, folder: Path, seconds: subprocess.CompletedProcess[str]
) -> None:
    text = (folder / "seconds.json").read_text()
    for private in (platform.node(), str(ROOT), str(folder), str(run), str(Path.home())):
        assert private not in text
    told = json.loads(text)
    assert told["machine_info"]["environment"] == read_run(run).environment.digest
    assert told["machine_info"]["name"] == run.parent.name
    assert told["commit_info"]["id"] == "unversioned", "nobody knows which commit measured the run that is shown"
    assert told["commit_info"]["project"] == "speedmatrix"
    assert {one["options"]["timer"] for one in told["benchmarks"]} == {"replayed"}


def test_relative_times_are_the_ratios_of_totals(
    run: Path, folder: Path, relative: subprocess.CompletedProcess[str]
) -> None:
    assert relative.returncode == 0, relative.stdout
    shown = benchmarks_of(folder / "relative.json")
    for one in samples(run):
        if one.row.estimate and one.row.comparison.reference.workload == "leak":
            name = f"test_cell[cpu-leak@quick#64:{one.row.label}"
            stats = shown[f"{name}-treatment/baseline]"]["stats"]
            assert tuple(stats["data"]) == one.relative
            assert stats["median"] == 1 / one.row.estimate.ratio
            assert shown[f"{name}-baseline/baseline]"]["stats"]["data"] == [1.0]
    assert "Name (time in reference steps)" in relative.stdout


def test_a_gate_passes_what_did_not_change(
    show: tuple[str, ...], folder: Path, relative: subprocess.CompletedProcess[str]
) -> None:
    done = pytest_in(
        folder, *show, "--speedmatrix-relative", "--benchmark-compare", "--benchmark-compare-fail=median:1%"
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_gate_stops_what_became_slower(
    show: tuple[str, ...], folder: Path, relative: subprocess.CompletedProcess[str]
) -> None:
    before = json.loads((folder / "relative.json").read_text())
    for one in before["benchmarks"]:
        if one["name"] == EVERYTHING.format("treatment/baseline"):
            one["stats"]["median"] /= 1.05
    (folder / "faster.json").write_text(json.dumps(before))
    gate = (f"--benchmark-compare={folder / 'faster.json'}", "--benchmark-compare-fail=median:3%")
    done = pytest_in(folder, *show, "--speedmatrix-relative", *gate)
    assert done.returncode != 0
    assert "Performance has regressed" in done.stderr
    assert done.stderr.count("has failed PercentageRegressionCheck") == 1
    assert "leak@quick#64:all on cpu: 2.3" in done.stdout, "the ratios stand there all the same"


@pytest.mark.thorough
def test_a_gate_with_nothing_to_compare_is_no_gate(
    show: tuple[str, ...],
    folder: Path,
    relative: subprocess.CompletedProcess[str],
    seconds: subprocess.CompletedProcess[str],
) -> None:
    done = pytest_in(folder, *show, "--benchmark-compare", "--benchmark-compare-fail=median:3%")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR, done.stdout
    assert "found no benchmark of this session in the file it compares with" in done.stderr


def slower_than_before(told: dict[str, Any], factor: float) -> dict[str, Any]:
    """A saved file in which every ratio was so many times what it was."""
    for one in told["benchmarks"]:
        for name in ("ratio", "low", "high", "trimmed_ratio"):
            one["extra_info"][name] *= factor
    return told


def gated(folder: Path, show: tuple[str, ...], told: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    (folder / "before.json").write_text(json.dumps(told))
    gate = (f"--benchmark-compare={folder / 'before.json'}", "--speedmatrix-fail=3%")
    return pytest_in(folder, *show, "--speedmatrix-relative", *gate)  # recorded in seconds


@pytest.mark.thorough
def test_the_gate_of_intervals_passes_what_did_not_change(
    show: tuple[str, ...], folder: Path, seconds: subprocess.CompletedProcess[str]
) -> None:
    assert gated(folder, show, json.loads((folder / "seconds.json").read_text())).returncode == 0


def test_the_gate_of_intervals_stops_what_surely_became_slower(
    show: tuple[str, ...], folder: Path, seconds: subprocess.CompletedProcess[str]
) -> None:
    before = json.loads((folder / "seconds.json").read_text())
    within = gated(folder, show, slower_than_before(before, 1.04))
    assert within.returncode == 0, "medians that moved by 4 %, with intervals that are wider"
    assert within.stdout.count("Gate: ") == WITH_RATIO
    beyond = gated(folder, show, slower_than_before(before, 1.5))
    assert beyond.returncode == pytest.ExitCode.TESTS_FAILED
    assert "Slower over their reference than allowed: " in beyond.stderr
    assert beyond.stdout.count("REGRESSED: ") == WITH_RATIO
    assert "leak@quick#64:all on cpu: 2.3" in beyond.stdout, "the ratios stand there all the same"


@pytest.mark.thorough
def test_the_gate_refuses_another_environment(
    show: tuple[str, ...], folder: Path, seconds: subprocess.CompletedProcess[str]
) -> None:
    before = json.loads((folder / "seconds.json").read_text())
    for one in before["benchmarks"]:
        one["extra_info"]["environment"] = "another"
    done = gated(folder, show, before)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "The saved benchmarks were measured in environment another" in done.stderr


def with_a_benchmark_more(folder: Path, label: str = "pin_memory") -> tuple[dict[str, Any], str]:
    """A saved file in which an option has a ratio that has none now, and its group."""
    before = json.loads((folder / "seconds.json").read_text())
    (lost,) = (one for one in before["benchmarks"] if one["name"] == EVERYTHING.format("treatment"))
    lost["fullname"] = f"benchmarks/test_cells.py::test_cell[cpu-leak@quick#64:{label}-treatment]"
    lost["group"] = f"leak@quick#64:{label} on cpu"
    return before, lost["group"]


@pytest.mark.thorough
def test_what_lost_its_ratio_is_named_where_medians_are_compared(
    show: tuple[str, ...], folder: Path, seconds: subprocess.CompletedProcess[str]
) -> None:
    before, name = with_a_benchmark_more(folder)
    (folder / "lost.json").write_text(json.dumps(before))
    gate = (f"--benchmark-compare={folder / 'lost.json'}", "--benchmark-compare-fail=median:3%")
    done = pytest_in(folder, *show, *gate, "-k", "leak")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"No samples any more: {name}" in done.stdout


@pytest.mark.parametrize("label", ["pin_memory", NO_RESULT.label, "not_listed"])
def test_what_lost_its_ratio_stops_the_gate_of_intervals(
    show: tuple[str, ...], folder: Path, seconds: subprocess.CompletedProcess[str], label: str
) -> None:
    """It failed, has no result any more, or nobody lists it now."""
    before, name = with_a_benchmark_more(folder, label)
    stopped = gated(folder, show, before)
    assert stopped.returncode == pytest.ExitCode.TESTS_FAILED, stopped.stdout + stopped.stderr
    assert f"Without a ratio now: {name}" in stopped.stderr


@pytest.mark.thorough
@pytest.mark.parametrize("label", ["pin_memory", NO_RESULT.label])
def test_what_a_selection_leaves_out_is_not_lost(
    show: tuple[str, ...], folder: Path, seconds: subprocess.CompletedProcess[str], label: str
) -> None:
    before, _ = with_a_benchmark_more(folder, label)
    done = gated(folder, (*show, "-k", f"not {label}"), before)
    assert done.returncode == 0, done.stdout + done.stderr
    other = gated(folder, (*show, "-k", "speaker"), before)
    assert other.returncode == 0, other.stdout + other.stderr


@pytest.mark.thorough
def test_a_gate_is_no_gate_either_where_nothing_has_a_ratio(
    show: tuple[str, ...], folder: Path, seconds: subprocess.CompletedProcess[str]
) -> None:
    gate = (f"--benchmark-compare={folder / 'seconds.json'}", "--benchmark-compare-fail=median:3%")
    done = pytest_in(folder, *show, *gate, "-k", "pin_memory")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR, done.stdout


@pytest.mark.thorough
def test_nothing_to_save_is_a_warning(show: tuple[str, ...], tmp_path: Path) -> None:
    done = pytest_in(tmp_path, *show, f"--benchmark-json={tmp_path / 'none.json'}", "-k", "pin_memory")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Not saving anything, no benchmarks have been run!" in done.stdout + done.stderr


@pytest.mark.thorough
def test_another_machine_is_a_warning(
    show: tuple[str, ...], folder: Path, seconds: subprocess.CompletedProcess[str]
) -> None:
    before = json.loads((folder / "seconds.json").read_text())
    before["machine_info"]["environment"] = "another"
    (folder / "another.json").write_text(json.dumps(before))
    done = pytest_in(folder, *show, f"--benchmark-compare={folder / 'another.json'}", "-k", "leak")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Benchmark machine_info is different" in done.stdout + done.stderr


def test_a_run_that_fails_fails_every_benchmark_with_its_sentence(tmp_path: Path) -> None:
    with measuring_alone():
        configs = ("benchmarks/test_cells.py", "--benchmark-only", "--speedmatrix-workload", "leak")
        done = pytest_in(tmp_path, *configs, "--speedmatrix-size=smoke", "--speedmatrix-budget=9s", "-kbatched_fetch")
    assert done.returncode == 1, done.stdout
    assert done.stdout.count("Measuring, at most 9s: ./speedmatrix run leak --size smoke --only batched_fetch") == 1
    assert done.stdout.count(f"Process {os.getpid()} is measuring on this machine") >= 2
    assert "2 errors" in done.stdout
    assert "Traceback" not in done.stdout


WITHOUT_TORCH = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "torchvision", "torchaudio"}:
            raise AssertionError(f"{name} was imported")
sys.meta_path.insert(0, Refuse())
import pytest
sys.exit(pytest.main(["--benchmark-only", "--collect-only", "-q", "-p", "no:cacheprovider", *sys.argv[1:]]))
"""


def test_the_root_command_lists_the_benchmarks_alone_and_needs_no_torch_for_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", WITHOUT_TORCH, f"--benchmark-storage=file://{tmp_path}"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    listed = [line for line in done.stdout.splitlines() if "::" in line]
    assert {line.partition("/")[0] for line in listed} == {"benchmarks"}
    for workload in ("imagenet", "leak", "patches3d", "speaker", "spoof"):
        assert any(f"-{workload}@" in line and line.endswith(":all-treatment]") for line in listed)
    assert "benchmarks/test_harness_step.py::test_step[by harness]" in listed


def test_the_project_loads_the_options_and_names_both_folders() -> None:
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    assert told["testpaths"] == ["tests", BENCHMARKS]
    assert ("-p", pytest_options.__name__) in zip(told["addopts"], told["addopts"][1:], strict=False)
    assert "--benchmark-skip" in told["addopts"]


@pytest.fixture
def small_project(pytester: pytest.Pytester) -> pytest.Pytester:
    """One test and one benchmark, with this project's way to choose between them."""
    options = f"-p {pytest_options.__name__} --import-mode=importlib --benchmark-skip"
    pytester.makeini(f"[pytest]\ntestpaths = tests benchmarks\naddopts = {options}")
    pytester.makepyfile(
        **{
            "tests/test_one": "def test_one(): pass",
            "benchmarks/test_two": "def test_two(benchmark): benchmark(int)",
        }
    )
    return pytester


@pytest.mark.parametrize(
    ("words", "collected"),
    [
        ((), {"test_one"}),
        (("--benchmark-only",), {"test_two"}),
        (("tests", "benchmarks"), {"test_one", "test_two"}),
        (("benchmarks",), {"test_two"}),
        (("--benchmark-only", "--speedmatrix-budget", "9s", "--speedmatrix-workload", "leak"), {"test_two"}),
    ],
)
def test_plain_pytest_tests_and_benchmark_only_measures(
    small_project: pytest.Pytester, words: tuple[str, ...], collected: set[str]
) -> None:
    items, _ = small_project.inline_genitems(*words)
    assert {item.name for item in items} == collected


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--speedmatrix-workload=lea",), "There is no workload 'lea'; choose one of "),
        (("--speedmatrix-size=tiny",), "has no size 'tiny'; choose one of smoke"),
        (("--speedmatrix-device=tpu",), "There is no device 'tpu'; choose auto, cpu, cuda, emulated"),
        (("--speedmatrix-budget=soon",), "'soon' is not a time; write 90s"),
        (("--speedmatrix-run=nowhere",), "nowhere is not a run"),
        (("--speedmatrix-fail=3",), "takes a percentage such as 3% or 2.5%, and not '3'"),
        (("--speedmatrix-fail=3%",), "give --benchmark-compare too"),
        (("--speedmatrix-run=x", "--speedmatrix-size=smoke"), "leave out --speedmatrix-size"),
        (("--speedmatrix-results=tests/test_one.py",), "names tests/test_one.py, which is no folder; name another"),
    ],
)
def test_nonsense_is_refused_in_one_sentence(
    small_project: pytest.Pytester, words: tuple[str, ...], sentence: str
) -> None:
    with pytest.raises(pytest.UsageError) as refused:
        small_project.parseconfigure("--benchmark-only", *words)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_rehearsed_times_are_never_shown(run: Path, small_project: pytest.Pytester) -> None:
    told: dict[str, Any] = json.loads((run / "run.json").read_text())
    small_project.makefile(".json", run=json.dumps({**told, "rehearsed": True}))
    with pytest.raises(pytest.UsageError, match="was rehearsed: its times are invented"):
        small_project.parseconfigure(f"--speedmatrix-run={small_project.path}")


def test_help_says_what_the_options_do(small_project: pytest.Pytester) -> None:
    told = " ".join(small_project.runpytest_inprocess("--help").stdout.str().split())
    assert "--speedmatrix-relative" in told
    assert "--speedmatrix-fail=PERCENT" in told
    assert "5m20s if not given" in told
