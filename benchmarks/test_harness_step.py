r"""The harness's own cost: the step that an arm takes, beside the same step written by hand, on a real workload.

    pytest benchmarks/test_harness_step.py --benchmark-only
    pytest benchmarks/test_harness_step.py --benchmark-only --speedmatrix-relative --benchmark-autosave
    pytest benchmarks/test_harness_step.py --benchmark-only --speedmatrix-relative --benchmark-compare=0001 \
        --benchmark-compare-fail=median:0.025

Both take turns in processes of their own, and a timer replays what they took. The last two lines are a gate: a change
of the harness that makes its step 2.5 % longer, against the step by hand at the same moment, fails.
"""

from statistics import quantiles
from typing import Any

import pytest

from benchmarks.overhead.fresh_processes import Overhead, overhead
from harness.core.mistake import Mistake
from harness.integrations.configurations import ITSELF, RELATIVE, SECONDS, Clock
from harness.integrations.pytest_options import requests_in

CLOCK = Clock()
WORKLOAD, SIZE = "leak", "smoke"
HAND, HARNESS = "by hand", "by harness"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Both sides; other names for relative times, which no seconds are held against."""
    relative = metafunc.config.getoption("speedmatrix_relative")
    metafunc.parametrize("side", [f"{one}/{HAND}" if relative else one for one in (HAND, HARNESS)])


@pytest.fixture(scope="module")
def measured(request: pytest.FixtureRequest) -> Overhead:
    """Both sides, measured when the first of them is shown."""
    if request.config.getoption("benchmark_disable"):
        pytest.skip("with --benchmark-disable no samples are shown, so none are measured")
    try:
        return overhead(WORKLOAD, size=SIZE, device=requests_in(request.config)[0].device)
    except Mistake as mistake:
        pytest.fail(str(mistake), pytrace=False)


@pytest.mark.timeout(0)  # the first one waits for all that is measured
@pytest.mark.benchmark(timer=CLOCK.replayed)
def test_step(measured: Overhead, side: str, benchmark: Any) -> None:
    """Seconds for each step, or the harness's step over the step by hand at the same moment."""
    samples = {
        HAND: measured.hand_s,
        HARNESS: measured.harness_s,
        f"{HAND}/{HAND}": ITSELF,
        f"{HARNESS}/{HAND}": measured.relative,
    }[side]
    benchmark.group = f"harness's step, {WORKLOAD} {SIZE}"
    benchmark.extra_info.update(
        unit=SECONDS if side in {HAND, HARNESS} else RELATIVE,
        words=f"{percent(measured)}, against the step {HAND}",
    )
    CLOCK.show(benchmark, samples)


def percent(measured: Overhead) -> str:
    """What the harness adds to a step, in percent of the step by hand, and how much rounds differ in that."""
    low, middle, high = (f"{100 * (one - 1):+.1f} %" for one in quantiles(measured.relative))
    return f"{middle}, half of the {len(measured.relative)} rounds between {low} and {high}"
