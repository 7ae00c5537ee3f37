"""A campaign in words: its plan before it runs, and what became of it."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from harness.report.words import NOTHING, one_line

HEADINGS = "phase", "workloads", "ratios", "would take", "quota", "ends at"
LEFT_OVER = "what others leave"
DATA_HEADINGS = "workload", "files", "written in about"
WRITTEN_BYTES_S = 13e6  # by each core: two shared ones write 0.8 GB in half a minute


class Planned(Protocol):
    """One phase as it is planned. Seconds."""

    @property
    def kind(self) -> str:
        """What it measures."""

    @property
    def name(self) -> str:
        """What it is called among all phases."""

    @property
    def workloads(self) -> tuple[str, ...]:
        """What it is about."""

    @property
    def comparisons(self) -> int:
        """How many; none where a search decides."""

    @property
    def seconds(self) -> float:
        """What it would take, infinite for a search."""

    @property
    def problem(self) -> str:
        """Why nothing of it can be measured; empty where it can."""


def plan_rows(phases: Iterable[Planned], quotas: Mapping[str, float], minutes: float) -> Iterator[tuple[str, ...]]:
    """The table under HEADINGS of the phases that are measured, the pages last."""
    ends_s = 0.0
    for one in phases:
        quota_s = quotas[one.name]
        ends_s += quota_s
        count = str(one.comparisons) if one.comparisons else NOTHING
        gets = taking(quota_s) if quota_s >= 0.5 else LEFT_OVER
        yield str(one.kind), ", ".join(one.workloads), count, taking(one.seconds), gets, f"minute {ends_s / 60:.1f}"
    yield "pages", NOTHING, NOTHING, NOTHING, taking(60 * minutes - ends_s), f"minute {minutes:.1f}"


def left_out(phases: Iterable[Planned]) -> Iterator[str]:
    """A sentence for each phase that is not measured."""
    for one in phases:
        if one.problem:
            yield f"{' '.join((str(one.kind), *one.workloads))}: {one_line(one.problem)}."


def data_rows(missing: Mapping[str, int], cores: int) -> Iterator[tuple[str, ...]]:
    """The table under DATA_HEADINGS for files that are not there yet, in bytes by workload and size."""
    for name, count in missing.items():
        yield name, f"{count / 1e9:.2f} GB", taking(writing_s(count, cores))


def writing_s(count: int, cores: int) -> float:
    """About how long so many bytes of a workload's files take to write, in which all cores have a part."""
    return count / (WRITTEN_BYTES_S * cores)


def taking(seconds: float) -> str:
    """A time of the plan: `40 s`, `7.5 min`, or words where a search decides."""
    if math.isinf(seconds):
        return "as long as it finds"
    return f"{seconds:.0f} s" if seconds < 99.5 else f"{seconds / 60:.1f} min"


def spent(spent_s: float, minutes: float) -> str:
    """How far it has come: `4.2 of 30 minutes spent`."""
    return f"{spent_s / 60:.1f} of {minutes:g} minutes spent"


def goes_on(spent_s: float, minutes: float) -> str:
    """What a session says that did not see the end."""
    return f"{spent(spent_s, minutes)}; the same command continues."


def ended(spent_s: float, minutes: float, still: Sequence[str]) -> Iterator[str]:
    """What the last session says."""
    yield f"{spent(spent_s, minutes)}; the campaign is over."
    if still:
        named = ", ".join(still)
        yield (
            f"Not all was reached in {named}: what is missing is named on the pages, and the same command with more "
            "--minutes goes on with it."
        )
