"""The benchmarks' options for pytest, known wherever it is called: pyproject.toml loads this module with `-p`."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.core.environment import DEVICES
from harness.core.mistake import Mistake
from harness.core.plan import Request
from harness.integrations.asv_cells import REPLICATES, ROUNDS
from harness.integrations.configurations import BUDGET, Listed, listed, recorded

BENCHMARKS = "benchmarks"  # the folder
LISTING = pytest.StashKey[tuple[Listed, ...]]()


OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "workload": {
        "action": "append",
        "metavar": "NAME",
        "help": "Measure this workload; may be repeated. All of them if none is named.",
    },
    "size": {"metavar": "SIZE", "help": "smoke, quick or standard (the real sizes); quick if none is named."},
    "device": {
        "action": "append",
        "metavar": "DEVICE",
        "help": f"auto, {' or '.join(DEVICES)}; may be repeated. auto if none is named.",
    },
    "budget": {
        "metavar": "TIME",
        "help": f"Time to measure all workloads of a device (90s, 5m, 2h), or none; {BUDGET} if not given. "
        "Writing data comes on top, once.",
    },
    "results": {
        "type": Path,
        "metavar": "FOLDER",
        "help": "Keep the runs here, as `speedmatrix run` does; else they are left in pytest's temporary folder.",
    },
    "run": {
        "type": Path,
        "metavar": "RUN",
        "help": "Show this run, which was measured before, and measure nothing.",
    },
    "relative": {
        "action": "store_true",
        "help": "Show times relative to the reference's at the same moment, not seconds: 0.8 is a step that takes "
        "a fifth less. They survive a change of the machine's mood, which seconds do not.",
    },
    "fail": {
        "metavar": "PERCENT",
        "help": "With --benchmark-compare: fail where a configuration's time over its reference's has surely grown by "
        "more than so many percent (3%%), that is where the whole interval of now over before lies beyond. What is "
        "disturbed never fails. --benchmark-compare-fail looks at medians, which know no intervals.",
    },
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declares the options."""
    group = parser.getgroup("speedmatrix", "speedmatrix: what the benchmarks measure and show")
    for name, told in OPTIONS.items():
        group.addoption(f"--speedmatrix-{name}", **told)


def pytest_configure(config: pytest.Config) -> None:
    """Takes tests or benchmarks where nobody named a path; refuses options that cannot be followed, in a sentence."""
    if config.args_source is config.ArgsSource.TESTPATHS:
        only = bool(config.getoption("benchmark_only", default=False))
        config.args = [path for path in config.args if (Path(path).name == BENCHMARKS) == only] or config.args
    named = [one for one in ("workload", "size", "device", "budget", "run") if _given(config, one)]
    if named[1:] and "run" in named:
        raise pytest.UsageError(
            "--speedmatrix-run shows a run that was measured before; leave out "
            f"{' and '.join(f'--speedmatrix-{one}' for one in named if one != 'run')}."
        )
    results = _given(config, "results")
    if results is not None and results.exists() and not results.is_dir():
        raise pytest.UsageError(f"--speedmatrix-results names {results}, which is no folder; name another.")
    if allowed_growth(config) is not None and not config.getoption("benchmark_compare", default=None):
        raise pytest.UsageError("--speedmatrix-fail compares with saved benchmarks; give --benchmark-compare too.")
    if named:
        listing(config)


def requests_in(config: pytest.Config) -> tuple[Request, ...]:
    """What the options ask for, one request for each device."""
    # As few processes as give a ratio: many ratios to be looked at, which a longer run makes narrow.
    usual = Request(
        workloads=tuple(_given(config, "workload") or ()), size=_given(config, "size"),
        replicates=REPLICATES, rounds=ROUNDS,
    )  # fmt: skip
    return tuple(replace(usual, device=device) for device in _given(config, "device") or (usual.device,))


def budget_in(config: pytest.Config) -> str:
    """The time for each device."""
    return _given(config, "budget") or BUDGET


def allowed_growth(config: pytest.Config) -> float | None:
    """The share by which relative times may grow, or None where nothing is a gate; raises UsageError for nonsense."""
    text = _given(config, "fail")
    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)%", text)
    if not match:
        raise pytest.UsageError(f"--speedmatrix-fail takes a percentage such as 3% or 2.5%, and not '{text}'.")
    return float(match[1]) / 100


def listing(config: pytest.Config) -> tuple[Listed, ...]:
    """All that the options ask for, found out once; raises UsageError with one sentence where that cannot be."""
    if LISTING not in config.stash:
        try:
            run = _given(config, "run")
            config.stash[LISTING] = recorded(run) if run else listed(requests_in(config), budget_in(config))
        except Mistake as mistake:
            raise pytest.UsageError(str(mistake)) from mistake
    return config.stash[LISTING]


def _given(config: pytest.Config, name: str) -> Any:
    return config.getoption(f"speedmatrix_{name}")
