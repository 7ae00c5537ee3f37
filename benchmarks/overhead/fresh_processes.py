"""Overhead: what the harness itself costs a step, over a few processes; for tools that watch it from commit to commit.

    overhead()                      # leak at size smoke
    overhead("speaker", rounds=10)

A relative time of 1.01 says that a step by the harness takes a hundredth longer than the same step written by hand.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from harness.catalogue import read_catalogue
from harness.core.configuration import compose
from harness.core.mistake import Mistake
from harness.measure.surroundings import read_environment
from harness.run.arm import launch_environment
from harness.run.preparation import measuring_alone
from harness.run.processes import ROOT

LIMIT_S = 300.0  # for one process


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """One of each for a round, all processes in a row."""

    hand_s: tuple[float, ...]  # a step written by hand
    harness_s: tuple[float, ...]  # the same step by the harness, at the same moment
    relative: tuple[float, ...]  # the second over the first


def overhead(
    workload: str = "leak", *, size: str = "smoke", processes: int = 3, rounds: int = 30, device: str = "auto"
) -> Overhead:
    """Measures it in fresh processes, one after another, with the threads and the memory that arms have.

    Raises Mistake when it cannot be measured, or while something else is measuring on this machine.
    """
    catalogue = read_catalogue(ledger=False)
    environment = launch_environment(
        compose(catalogue.workload(workload), (), catalogue.optimizations), dict(os.environ)
    )
    words = ("--workload", workload, "--size", size, "--rounds", str(rounds))
    device = read_environment(device).device
    with measuring_alone():
        found = [_process((*words, "--device", device, "--seed", str(seed)), environment) for seed in range(processes)]
    return Overhead(
        hand_s=tuple(value for one in found for value in one["hand_s"]),
        harness_s=tuple(value for one in found for value in one["harness_s"]),
        relative=tuple(value for one in found for value in one["relative"]),
    )


def _process(words: tuple[str, ...], environment: Mapping[str, str]) -> dict[str, list[float]]:
    command = [sys.executable, "-P", "-m", "benchmarks.overhead.twin", *words]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, cwd=ROOT, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise Mistake(f"The harness's overhead was not measured within {LIMIT_S:.0f} s; take fewer rounds.") from None
    if done.returncode:
        said = done.stderr.strip().splitlines()[-1:] or [f"its process ended with status {done.returncode}"]
        raise Mistake(f"The harness's overhead could not be measured: {said[0]}")
    found: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return found
