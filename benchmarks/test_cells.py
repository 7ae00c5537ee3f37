"""The first look as benchmarks: both arms of every comparison, shown with the samples that the harness measured.

    pytest --benchmark-only                                              # all workloads, seven minutes
    pytest --benchmark-only -k "leak and :all-"                         # one comparison
    pytest --benchmark-only -k "leak and memory_map loader"             # of the loader alone
    pytest --benchmark-only --speedmatrix-run results/MACHINE/RUN        # a run that was measured before
    pytest --benchmark-only --benchmark-compare --speedmatrix-fail=3%     # after --benchmark-autosave; a gate

Nothing is timed here: arms take turns in processes of their own, and a timer replays what they took. What has no ratio
is skipped with the reason (-rs shows it).
"""

from collections.abc import Callable
from typing import Any

import pytest

from harness.integrations.configurations import Clock, Found, Listed, facts, shown, words
from harness.integrations.pytest_options import budget_in, listing

CLOCK = Clock()
TREATMENT = "treatment"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Both arms of what is listed, and one for each missing result."""
    relative = metafunc.config.getoption("speedmatrix_relative")
    metafunc.parametrize(
        ("device", "configuration", "arm"),
        [
            pytest.param(one.device, one.name, arm, marks=[pytest.mark.skip(reason=one.reason)] if one.reason else [])
            for one in listing(metafunc.config)
            for arm in arms(one, relative=relative)
        ],
    )


def arms(one: Listed, *, relative: bool) -> list[str]:
    """The names of both arms, the reference's first; other ones for relative times, which no seconds are held against.

    A missing result has a treatment alone.
    """
    both = [one.reference, TREATMENT] if one.comparison else [TREATMENT]
    return [f"{arm}/{one.reference}" for arm in both] if relative else both


@pytest.fixture
def listed(device: str, configuration: str, request: pytest.FixtureRequest) -> Listed:
    """What is listed under these names."""
    return next(one for one in listing(request.config) if (one.device, one.name) == (device, configuration))


@pytest.fixture
def measured(listed: Listed, runs: Callable[[str], Found], request: pytest.FixtureRequest) -> tuple[Found, Any]:
    """The run and the samples of the comparison; skips with words where there is no ratio."""
    if request.config.getoption("benchmark_disable"):
        pytest.skip("with --benchmark-disable no samples are shown, so none are measured")
    found = runs(listed.device)
    assert listed.comparison is not None  # a missing result is never asked for
    samples = found.samples[listed.comparison]
    if samples.row.absence is not None:
        run = request.config.getoption("speedmatrix_run")
        pytest.skip(words(samples.row.absence, None if run else budget_in(request.config)))
    return found, samples


@pytest.mark.timeout(0)  # the first one waits for all that is measured
@pytest.mark.benchmark(timer=CLOCK.replayed)
def test_cell(listed: Listed, measured: tuple[Found, Any], arm: str, benchmark: Any) -> None:
    """One arm's seconds for each step, or its time over the reference's at the same moment."""
    found, samples = measured
    relative = arm not in {listed.reference, TREATMENT}
    benchmark.group = f"{listed.name} on {listed.device}"
    benchmark.extra_info.update(facts(found, samples.row, relative=relative))
    measured_s = shown(samples, treatment=arm.startswith(TREATMENT), relative=relative)
    CLOCK.show(benchmark, measured_s)
    assert benchmark.stats.stats.data == list(measured_s), "pytest-benchmark shows other times than were measured"
