"""Replay: measured samples shown by pytest-benchmark through a timer that knows no time but theirs.

pytest-benchmark takes no durations from outside; a timer of one's own is its documented door. This one stands at zero
before each round and at the sample after it, so that what is shown, stored and compared are the samples bit for bit.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from harness.analyze.matrix import Row
from harness.analyze.soundness import Absence, Outcome
from harness.core.codec import encode
from harness.core.configuration import Comparison
from harness.core.environment import Environment
from harness.integrations.configurations import Samples, samples
from harness.report.matrix import TIMED
from harness.report.words import called, one_line, ratio
from harness.store import read_run

SECONDS, RELATIVE = "seconds", "relative"
ITSELF = (1.0,)  # a reference over itself: 1 by definition and measured never, so it is shown once


class Benchmark(Protocol):
    """What is used of pytest-benchmark's fixture."""

    group: str | None
    extra_info: dict[str, Any]

    def pedantic(
        self, target: Callable[[], None], *, setup: Callable[[], None], rounds: int, iterations: int
    ) -> object:
        """Times so many rounds of the target, each after a setup that is not timed."""


@dataclass(slots=True)
class Clock:
    """A timer that moves only when a sample is shown."""

    now: float = 0.0

    def replayed(self) -> float:
        """The time on it; pytest-benchmark stores this function's name."""
        return self.now

    def show(self, benchmark: Benchmark, found: Sequence[float]) -> None:
        """Shows each sample as one round of the benchmark, which must have `replayed` as its timer."""
        left = iter(found)

        def begin() -> None:
            self.now = 0.0

        def end() -> None:
            self.now = next(left, 0.0)  # a profiler that is switched on calls once more

        benchmark.pedantic(end, setup=begin, rounds=len(found), iterations=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A run with the samples of its comparisons."""

    run: str  # its folder, below the folder of results
    command: str
    environment: str  # digest
    samples: Mapping[Comparison, Samples]


def found_in(folder: Path) -> Found:
    """A run, read to its samples; raises Mistake where it is none or is damaged."""
    run = read_run(folder)
    return Found(
        run=f"{run.environment.machine}/{folder.resolve().name}",
        command=f"./{run.command}",
        environment=run.environment.digest,
        samples={one.row.comparison: one for _, one in samples(folder)},
    )


def shown(one: Samples, *, treatment: bool, relative: bool) -> Sequence[float]:
    """The samples of one arm, in seconds a step or as multiples of the reference's at the same moment."""
    if relative:
        return one.relative if treatment else ITSELF
    return one.treatment_s if treatment else one.reference_s


def facts(found: Found, row: Row, *, relative: bool) -> dict[str, Any]:
    """All that stands behind a ratio, as JSON without numbers that JSON does not know."""
    comparison = row.comparison
    told = {
        "words": sentence(row),
        "unit": RELATIVE if relative else SECONDS,
        "cell": str(comparison.treatment),
        "reference": str(comparison.reference),
        "timed": TIMED[comparison.timing],
        **encode(row.estimate),
        "seen": _seen(row.treatment.facts if row.treatment else {}),
        "seen_in_reference": _seen(row.reference.facts if row.reference else {}),
        "quality": row.quality,
        "notes": [one_line(note) for note in row.notes],
        "run": found.run,
        "command": one_line(found.command),
        "environment": found.environment,
    }
    encoded: dict[str, Any] = encode(told)
    return encoded


def _seen(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {one_line(name): one_line(value) if isinstance(value, str) else value for name, value in settings.items()}


def sentence(row: Row) -> str:
    """The ratio with its interval, what may be said of it and what it rests on; raises ValueError where it has none."""
    estimate = row.estimate
    if estimate is None:
        raise ValueError(f"{row.label} has no ratio")
    quality = f"; losses: {row.quality.status}" if row.quality else ""
    return one_line(
        f"{ratio(estimate)} against {called(row.reference_name)}, {estimate.verdict}; "
        f"{estimate.pairs} pairs in {estimate.processes} replicates{quality}"
    )


def words(absence: Absence, budget: str | None) -> str:
    """Why there is no ratio; the remedy is the front end's own where a budget ran out."""
    if budget is not None and absence.outcome in {Outcome.NOT_MEASURED, Outcome.ONE_REPLICATE}:
        return f"{absence.outcome}: the budget of {budget} did not suffice; --speedmatrix-budget gives more"
    return one_line(absence.words)


def machine_facts(environment: Environment) -> dict[str, Any]:
    """The machine as facts that hold from run to run, without the name of a host, a person or a folder."""
    known: dict[str, Any] = encode(environment)
    return {
        "name": environment.machine,
        "environment": environment.digest,
        **known,
        "packages": dict(environment.packages),
        "variables": dict(environment.variables),
    }
