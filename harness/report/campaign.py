"""A campaign in words: its plan before it runs, and what became of it."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.report.words import NOTHING, one_line

HEADINGS = "leg", "workloads", "ratios", "would take", "gets", "ends at"
LEFT_OVER = "what others leave"
DATA_HEADINGS = "workload", "files", "written in about"
WRITTEN_BYTES_S = 13e6  # by each core: two shared ones write 0.8 GB in half a minute


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One leg as the plan shows it. Seconds."""

    name: str
    workloads: tuple[str, ...]
    comparisons: int
    wanted_s: float  # infinite for a search
    share_s: float | None  # None where it is left out
    until_s: float | None
    problem: str = ""


def plan_rows(legs: Sequence[Row], pages_s: float, minutes: float) -> Iterator[tuple[str, ...]]:
    """The table under HEADINGS, the pages last."""
    for one in legs:
        if one.share_s is None or one.until_s is None:
            continue
        count = str(one.comparisons) if one.comparisons else NOTHING
        ends = f"minute {one.until_s / 60:.1f}"
        gets = taking(one.share_s) if one.share_s >= 0.5 else LEFT_OVER
        yield one.name, ", ".join(one.workloads), count, taking(one.wanted_s), gets, ends
    yield "pages", NOTHING, NOTHING, NOTHING, taking(pages_s), f"minute {minutes:.1f}"


def left_out(legs: Sequence[Row]) -> Iterator[str]:
    """A sentence for each leg that is not measured."""
    for one in legs:
        if one.share_s is None:
            name = " ".join((one.name, *one.workloads))
            yield f"{name}: {one_line(one.problem)}."


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
    """What a slice says that did not see the end."""
    return f"{spent(spent_s, minutes)}; the same command continues."


def ended(spent_s: float, minutes: float, open_legs: Sequence[str]) -> Iterator[str]:
    """What the last slice says."""
    yield f"{spent(spent_s, minutes)}; the campaign is over."
    if open_legs:
        named = ", ".join(open_legs)
        yield (
            f"Not all was reached in {named}: what is missing is named on the pages, and the same command with more "
            "--minutes goes on with it."
        )
