"""A recorded run of known ratios, as the front ends show one: in a folder of results, finished, on a CPU."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from harness.core.configuration import Comparison
from harness.core.plan import NoResult
from harness.core.records import Lost, Record
from harness.store import Journal, Run, create, finish
from tests.analyze.synthetic import ENVIRONMENT, Noise, arm, comparison, plan, records

COMMAND = "speedmatrix run leak speaker"
NO_RESULT = NoResult(workload="leak", label="data_on_device", reason="needs a CUDA device")
AS_PROMISED = {
    "effective": {"layout": "contiguous", "workers": 2, "bfloat16_layers": True},
    "losses": (2.31, 2.1, 1.9),
    "loader_rate": 400.0,
}
WITH_RATIO = 3


def all_options(workload: str) -> Comparison:
    """Two optimizations together, as the front ends follow them on every workload."""
    return replace(comparison("amp", "workers", workload=workload), label="all")


COMPARED = (all_options("leak"), comparison("chunk_cache"), all_options("speaker"), comparison("pin_memory"))


def record(results: Path) -> Path:
    """Writes the run: two stacks that are faster, one that is undecided, one that failed, and a missing result."""
    noise = Noise(window=0.004, replicate=0.006, generator=np.random.default_rng(3))
    restless = Noise(window=0.02, replicate=0.03, generator=np.random.default_rng(4))
    cached = {"layout": "contiguous", "chunk_cache_bytes": 33_554_432}
    found: list[Record] = [
        *records(0, 2.3, noise=noise, **AS_PROMISED),
        *records(1, 1.05, noise=restless, effective=cached),
        *records(2, 2.2, noise=noise, **AS_PROMISED),
        Lost(arm=arm(3, 0, 1), outcome="failed", reason="out of memory: wanted 2 GiB, had 1 GiB"),
    ]
    folder = create(
        results,
        Run(
            began="2026-11-21T14:49:00+00:00",
            version="0.3.0",
            command=COMMAND,
            rehearsed=False,
            environment=ENVIRONMENT,
            plan=plan(*COMPARED, no_results=(NO_RESULT,)),
        ),
    )
    journal = Journal(folder)
    for one in found:
        journal.append(one)
    journal.close()
    finish(folder)
    return folder
