"""The campaign on invented times: a budget is kept, and spent on what it can finish."""

from collections import defaultdict
from random import Random

import pytest
from rich.console import Console

from harness.cli.planning import Wish, prepared
from harness.cli.progress import Progress
from harness.core.measurement import Burst, Record
from harness.core.plan import Block, Plan
from harness.run.campaign import Campaign
from harness.run.rehearsal import Effects, RehearsedArm, VirtualClock

WISH = Wish(
    workloads=(), size="quick", batch=None, design="alone", only=(), stack=None, reference="plain", probe=None,
    protocol="brief", restarts=None, rounds=None, seed=0, device="cpu", own=None,
)  # fmt: skip


@pytest.fixture(scope="module")
def plan() -> Plan:
    return prepared(WISH).plan


def run(plan: Plan, budget_s: float | None, records: list[Record]) -> tuple[bool, float]:
    clock, random = VirtualClock(), Random(0)

    def start(block: Block, _restart: int, position: int) -> RehearsedArm:
        cell = block.reference if position == 0 else block.comparisons[position - 1].treatment
        return RehearsedArm(
            cell=cell, timing=block.timing, effects=Effects(), clock=clock, random=Random(random.random())
        )

    complete = Campaign(
        plan=plan,
        records=records,
        start=start,
        append=lambda _: None,
        watcher=Progress(plan, Console(quiet=True)),
        clock=clock,
        deadline_s=budget_s,
    ).run()
    return complete, clock.now_s


def restarts_of(records: list[Record]) -> dict[tuple[str, int], set[int]]:
    found: dict[tuple[str, int], set[int]] = defaultdict(set)
    for one in records:
        if isinstance(one, Burst) and one.arm.position:
            found[one.arm.block, one.arm.position].add(one.arm.restart)
    return found


@pytest.mark.parametrize("budget_s", [120.0, 270.0, 600.0])
def test_a_budget_is_kept_and_begins_only_what_it_can_finish(plan: Plan, budget_s: float) -> None:
    records: list[Record] = []
    complete, spent_s = run(plan, budget_s, records)
    assert not complete
    assert spent_s < budget_s + 10
    found = restarts_of(records)
    assert found
    assert all(restarts == {0, 1} for restarts in found.values())


def test_the_same_command_again_and_again_measures_everything_once(plan: Plan) -> None:
    records: list[Record] = []
    times = 0
    while not run(plan, 270.0, records)[0]:
        times += 1
        assert times < 100
    whole: list[Record] = []
    assert run(plan, None, whole)[0]
    counts = [
        {key: sum(isinstance(one, Burst) and (one.arm.block, one.arm.position) == key for one in kept) for key in found}
        for kept, found in ((records, restarts_of(records)), (whole, restarts_of(whole)))
    ]
    assert counts[0] == counts[1]


def test_more_time_measures_more(plan: Plan) -> None:
    found = []
    for budget_s in (120.0, 270.0, 600.0):
        records: list[Record] = []
        run(plan, budget_s, records)
        found.append(len(restarts_of(records)))
    assert found == sorted(set(found))
