"""What the benchmarks share: runs measured once a session, facts of the machine, and ratios below the tables.

pytest-benchmark's tables call the fastest of a group 1.0, whoever is the reference; what is to be read off are the
ratios in the lines of `speedmatrix` below them, against the reference that is named there.
"""

import re
import warnings
from collections.abc import Callable, Collection, Generator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pytest_benchmark.logger import PytestBenchmarkWarning
from pytest_benchmark.session import PerformanceRegression

from harness.api import Place, measured
from harness.core.mistake import Mistake
from harness.integrations import pytest_options
from harness.integrations.configurations import Found, Judged, Listed, found_in, judged, machine_facts, wanted
from harness.integrations.pytest_options import allowed_growth, budget_in, listing, requests_in
from harness.measure.surroundings import read_environment
from harness.store import read_run

CONFIGS = "test_cells.py"
EMPTY_GATE = (
    "The gate found no benchmark of this session in the file it compares with; record one with --benchmark-autosave "
    "and the same workload, size, device and --speedmatrix-relative."
)
LOST = (
    "Without a ratio now: {}; -rs shows why. Where time did not suffice, give the --speedmatrix-budget with which they "
    "were saved; where they are no longer listed, record anew with --benchmark-autosave."
)
_SIZED = re.compile("@[^:]*")  # in a group's name: the size and batch that a test without a result does not have


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declares the options where the configuration has not done so already."""
    if not pluginmanager.has_plugin(pytest_options.__name__):
        pluginmanager.register(pytest_options, pytest_options.__name__)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what would be measured now where a run is shown."""
    if config.getoption("speedmatrix_run") is not None:
        live = [item for item in items if item.path.parent == Path(__file__).parent and item.path.name != CONFIGS]
        config.hook.pytest_deselected(items=live)
        items[:] = [item for item in items if item not in live]


def pytest_benchmark_generate_machine_info(config: pytest.Config) -> dict[str, Any]:
    """Facts instead of pytest-benchmark's own, which name the host and change with the clock of the processor."""
    run = config.getoption("speedmatrix_run")
    return machine_facts(read_run(run).environment if run else read_environment(requests_in(config)[0].device))


@pytest.hookimpl(wrapper=True)
def pytest_benchmark_compare_machine_info(
    machine_info: dict[str, Any], compared_benchmark: dict[str, Any]
) -> Generator[None, object, object]:
    """Lets pytest-benchmark warn of another environment, which it cannot do where it stores outside this folder."""
    try:
        return (yield)
    except ValueError:
        other = compared_benchmark["machine_info"].get("environment", "unknown")
        told = f"Benchmark machine_info is different: environment {machine_info['environment']} VS saved: {other}."
        warnings.warn(PytestBenchmarkWarning(told), stacklevel=1)
        return None


def pytest_benchmark_update_commit_info(config: pytest.Config, commit_info: dict[str, Any]) -> None:
    """The project by its name instead of that of the folder it lies in; no commit for a run that is only shown."""
    commit_info["project"] = "speedmatrix"
    if config.getoption("speedmatrix_run") is not None:  # of which commit it is, a run does not say
        commit_info.update(id="unversioned", time=None, author_time=None, dirty=False, branch="(unknown)")


def pytest_benchmark_scale_unit(unit: str, benchmarks: list[Mapping[str, Any]]) -> tuple[str, float] | None:
    """What relative times are counted in; the table's head puts an s behind it."""
    if any(one["extra_info"].get("unit") == "relative" for one in benchmarks):
        return ("reference step" if unit == "seconds" else ""), 1.0
    return None


@pytest.hookimpl(wrapper=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None, object, object]:
    """The ratios, also below tables in which a regression was found."""
    session: Any = terminalreporter.config.pluginmanager.get_plugin("pytest-benchmark")
    before = {name for one in session.compared_mapping.values() for name in one}
    if session.compare_fail and before.isdisjoint(one.fullname for one in session.benchmarks):
        raise pytest.UsageError(EMPTY_GATE)
    gate = _gate(session, allowed_growth(terminalreporter.config))
    tests: Any = terminalreporter.config.pluginmanager.get_plugin("session")
    now = {one.group for one in session.benchmarks}
    lost = _lost(tests, {name for name, told in _saved(session).items() if "cell" in told and name not in now})
    try:
        shown = yield
        regressed = [name for name, one in gate.items() if one.regressed]
        told = [f"Slower over their reference than allowed: {', '.join(regressed)}."] * bool(regressed)
        told += [LOST.format(", ".join(lost))] * bool(gate and lost)
        if told:
            raise PerformanceRegression(" ".join(told))
        return shown
    finally:
        lines = [*_told(session.benchmarks), *(f"No samples any more: {name}" for name in lost)]
        if lines:
            terminalreporter.section("speedmatrix: against the declared reference, intervals of 95 %", "-")
        for line in (
            *lines,
            *(f"{'REGRESSED' * one.regressed or 'Gate'}: {name}: {one.words}" for name, one in gate.items()),
        ):
            terminalreporter.write_line(line)


def _saved(session: Any) -> dict[str, dict[str, Any]]:
    """What was saved of each group, which both arms have, whether they are shown in seconds or not."""
    return {one["group"]: one["extra_info"] for saved in session.compared_mapping.values() for one in saved.values()}


def _lost(session: pytest.Session, absent: Collection[str]) -> list[str]:
    """Those of the saved groups without a ratio now that were asked for: of a workload that is shown, and not left out.

    What has no result is listed without size and batch, and what the budget does not suffice for is not listed at all.
    """
    if not absent or not (selected := _selected(session)):
        return []
    others = [one for one in listing(session.config) if one not in selected]
    chosen, left_out = ({f"{one.name} on {one.device}" for one in them} for them in (selected, others))
    # Of a workload of which a part was chosen, what is not listed today was not asked for.
    places = {(one.workload, one.device) for one in selected} - {(one.workload, one.device) for one in others}

    def is_lost(group: str) -> bool:
        place, names = (group.partition("@")[0], group.rpartition(" on ")[2]), {group, _SIZED.sub("", group, count=1)}
        return not chosen.isdisjoint(names) or (place in places and left_out.isdisjoint(names))

    return sorted(filter(is_lost, absent))


def _gate(session: Any, share: float | None) -> dict[str, Judged]:
    """What the gate says of each configuration that was measured before too; raises UsageError where that is none."""
    if share is None:
        return {}
    before = _saved(session)
    now = {one.group: one.extra_info for one in session.benchmarks if "cell" in one.extra_info and one.group in before}
    if not now:
        raise pytest.UsageError(EMPTY_GATE)
    try:
        return {name: judged(told, before[name], share, len(now)) for name, told in now.items()}
    except Mistake as mistake:
        raise pytest.UsageError(str(mistake)) from mistake


def _told(benchmarks: list[Any]) -> list[str]:
    """Each ratio once, although two arms have it, and the commands that measured them."""
    told = [one for one in benchmarks if "words" in one.extra_info]
    ratios = [f"{one.group}: {one.extra_info['words']}" for one in told]
    commands = [f"Measured by: {one.extra_info['command']}" for one in told if "command" in one.extra_info]
    return list(dict.fromkeys(ratios + commands))


@pytest.fixture(scope="session")
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Found]:
    """Gives the run of a device, which is measured when it is first asked for."""
    known: dict[str, Found | Mistake] = {}
    results = request.config.getoption("speedmatrix_results") or tmp_path_factory.getbasetemp() / "results"

    def run_of(device: str) -> Found:
        if device not in known:
            known[device] = _found_or_mistake(request.session, device, results)
        found = known[device]
        if isinstance(found, Mistake):
            pytest.fail(str(found), pytrace=False)
        return found

    return run_of


def _found_or_mistake(session: pytest.Session, device: str, results: Path) -> Found | Mistake:
    """Every benchmark of a device fails with the same sentence where its run failed, and none tries again."""
    run, budget = session.config.getoption("speedmatrix_run"), budget_in(session.config)
    try:
        if run is not None:
            return found_in(run)
        on_device = [one for one in listing(session.config) if one.device == device]
        want = wanted(requests_in(session.config)[0], on_device, _selected(session))
        limit = "no limit of time" if budget == "none" else f"at most {budget}"
        _say(session.config, f"Measuring, {limit}: ./speedmatrix {' '.join(want.words)} --budget {budget}")
        return found_in(measured(want, Place(results=results, budget=budget, fresh=True)))
    except Mistake as mistake:
        return mistake


def _selected(session: pytest.Session) -> set[Listed]:
    """What is left after -k, -m, --deselect and their like."""
    known = {(one.device, one.name): one for one in listing(session.config)}
    calls = (item.callspec.params for item in session.items if item.path.name == CONFIGS and hasattr(item, "callspec"))
    return {known[call["device"], call["configuration"]] for call in calls}


def _say(config: pytest.Config, line: str) -> None:
    """A line for who waits; what tests print is captured."""
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    capture: Any = config.pluginmanager.get_plugin("capturemanager")
    with capture.global_and_fixture_disabled():
        reporter.ensure_newline()
        reporter.write_line(line)
