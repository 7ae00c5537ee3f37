"""Progress: what is left becomes less, and the ratio is shown as it forms."""

import re
from dataclasses import replace
from io import StringIO
from random import Random

import pytest
from rich.console import Console

from benchmarks.invented.rehearsal import Effects, RehearsedArm, VirtualClock
from harness.analyze.composition import precisions
from harness.cli.measuring import Progress
from harness.core.plan import Block, Plan, Request
from harness.core.records import Record
from harness.run.execution import Campaign
from harness.run.preparation import prepared

WISH = Request(
    workloads=("leak", "speaker"),
    size="quick",
    only=("amp_bfloat16", "set_to_none"),
    device="cpu",
    target="none",
    replicates=2,
)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return prepared(WISH).plan


def shown(plan: Plan, budget_s: float | None, *, terminal: bool = False) -> list[str]:
    """What a campaign on invented times shows, line by line."""
    said, clock, random, records = StringIO(), VirtualClock(), Random(0), list[Record]()
    console = Console(file=said, width=500, force_terminal=terminal, no_color=True, legacy_windows=False)
    progress = Progress(plan, console, records, lambda: campaign.left_s)

    def start(block: Block, _replicate: int, position: int) -> RehearsedArm:
        config = block.reference if position == 0 else block.comparisons[position - 1].treatment
        effects = Effects({"amp_bfloat16": 2.0, "set_to_none": 1.0})
        return RehearsedArm(
            config=config, timing=block.timing, effects=effects, clock=clock, random=Random(random.random())
        )

    campaign = Campaign(
        plan=plan, records=records, start=start, append=lambda _: None, watcher=progress, clock=clock,
        deadline_s=budget_s, precisions=precisions,
    )  # fmt: skip
    with progress:
        campaign.run()
    return [line for line in said.getvalue().splitlines() if line.strip()]


def to_go(lines: list[str]) -> list[int]:
    return [int(found[1]) for line in lines if (found := re.search(r"(\d+) replicates? of the plan to go", line))]


def seconds_left(lines: list[str]) -> list[float]:
    found = [re.search(r"(?:(\d+) min )?(\d+(?:\.\d+)?) m?s of this call", line) for line in lines]
    return [60 * float(one[1] or 0) + float(one[2]) for one in found if one]


@pytest.mark.parametrize("budget_s", [None, 500.0])
def test_each_replicate_has_a_line_that_counts_down(plan: Plan, budget_s: float | None) -> None:
    lines = shown(plan, budget_s)
    counts = to_go(lines)
    assert len(counts) == len(lines) - 1, "the last has nothing to go"
    assert counts == sorted(set(counts), reverse=True)
    times = seconds_left(lines)
    assert times == sorted(set(times), reverse=True)
    assert len(times) >= len(counts)


def test_a_budget_that_ends_sooner_is_what_is_left(plan: Plan) -> None:
    short, whole = seconds_left(shown(plan, 60.0)), seconds_left(shown(plan, None))
    assert max(short) < 60.0 < max(whole)


def test_a_line_has_the_ratio_of_every_comparison_and_its_interval_once_there_are_two_replicates(plan: Plan) -> None:
    first, second, *_ = [line for line in shown(plan, None) if line.startswith("leak")]
    for line in (first, second):
        found = re.search(r"amp_bfloat16 (\d\.\d+)x", line)
        assert found
        assert float(found[1]) == pytest.approx(2.0, rel=0.1)
        assert "set_to_none" in line
    assert "±" in first
    assert "[" not in first
    assert re.search(r"amp_bfloat16 \d\.\d+x \[\d\.\d+, \d\.\d+\]", second)


def test_further_replicates_have_lines_too(plan: Plan) -> None:
    narrow = replace(plan, protocol=replace(plan.protocol, target=0.004, looks=(2, 3)))
    lines = shown(narrow, None)
    assert len(lines) > len(shown(plan, None))
    assert not to_go(lines[-1:])


def test_a_terminal_shows_the_ratio_within_a_replicate(plan: Plan) -> None:
    text = "\n".join(shown(plan, 500.0, terminal=True))
    assert "amp_bfloat16" in text
    assert "to go" in text
    assert "so far" in text
