"""What a campaign does when an ask outlasts the budget, when an arm is lost, and when the device is."""

from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from rich.console import Console

from benchmarks.invented.rehearsal import Effects, RehearsedArm, VirtualClock
from harness.analyze.matrix import build_matrix
from harness.cli.measuring import Progress
from harness.core.mistake import Mistake
from harness.core.plan import Block, Plan, Request
from harness.core.records import Fault, Lost, Record, Window
from harness.run.arm import ArmLost, BudgetSpent
from harness.run.execution import Campaign
from harness.run.preparation import prepared
from tests.analyze.synthetic import ENVIRONMENT

WISH = Request(workloads=("leak",), size="quick", only=("set_to_none",), replicates=2, rounds=3, device="cpu")


@pytest.fixture(scope="module")
def plan() -> Plan:
    return prepared(WISH).plan


@dataclass(slots=True, kw_only=True)
class FailingArm:
    """A rehearsed arm whose windows fail once so many have been taken by all arms together, so many times."""

    arm: RehearsedArm
    error: Exception
    left: list[int]
    times: int
    closed: list[bool]

    begins_beside = False

    def arrive(self) -> None:
        self.arm.arrive()

    def begin(self) -> dict[str, Any]:
        return self.arm.begin()

    def settle(self, steps: int, offset: int) -> int:
        return self.arm.settle(steps, offset)

    def window(self, lead: int, steps: int, start: int) -> dict[str, Any]:
        self.left[0] -= 1
        if -self.times <= self.left[0] < 0:
            raise self.error
        return self.arm.window(lead, steps, start)

    def close(self) -> None:
        self.closed.append(True)


def campaign(plan: Plan, error: Exception, after: int, times: int = 1_000_000) -> tuple[Campaign, list[bool]]:
    clock, left, closed = VirtualClock(), [after], list[bool]()

    def start(block: Block, _replicate: int, position: int) -> FailingArm:
        config = block.comparisons[position - 1].treatment if position else block.reference
        arm = RehearsedArm(config=config, timing=block.timing, effects=Effects(), clock=clock, random=Random(position))
        return FailingArm(arm=arm, error=error, left=left, times=times, closed=closed)

    made = Campaign(
        plan=plan,
        records=list[Record](),
        start=start,
        append=lambda _: None,
        watcher=Progress(plan, Console(quiet=True)),
        clock=clock,
    )
    return made, closed


def test_an_ask_that_the_budget_cut_off_ends_the_campaign_and_is_no_loss(plan: Plan) -> None:
    made, closed = campaign(plan, BudgetSpent(), after=4)
    assert made.run() is False
    assert made.windows == 4
    assert not [one for one in made.records if isinstance(one, Lost)]
    assert len(closed) == 2, "both arms are ended"


def test_a_campaign_that_timed_nothing_knows_it(plan: Plan) -> None:
    made, _ = campaign(plan, BudgetSpent(), after=0)
    assert made.run() is False
    assert (made.attempts, made.windows) == (1, 0)


def test_what_is_lost_is_recorded_with_its_kind(plan: Plan) -> None:
    made, _ = campaign(plan, ArmLost(Fault.CRASHED, "ended by SIGSEGV", "trace"), after=3)
    assert made.run() is True
    lost = [one for one in made.records if isinstance(one, Lost)]
    assert {(one.kind, one.outcome, one.reason) for one in lost} == {(Fault.CRASHED, "failed", "ended by SIGSEGV")}


def test_what_failed_for_good_is_not_begun_in_a_later_replicate(plan: Plan) -> None:
    """No ratio could come of it."""
    for after in (2, 3):  # the reference, the treatment
        made, _ = campaign(plan, ArmLost(Fault.CRASHED, "ended by SIGSEGV"), after=after)
        assert made.run() is True
        assert [one.arm.position for one in made.records if isinstance(one, Lost)] == [after - 2]
        assert {one.arm.replicate for one in made.records} == {0}


FIRST = 7  # windows of the first replicate: three of the treatment, each between two of the reference


@pytest.mark.parametrize(
    ("kind", "outcomes"), [(Fault.WINDOW_TIME_OUT, ["interrupted"] * 2 + ["failed"]), (Fault.CRASHED, ["failed"])]
)
def test_a_time_out_of_an_arm_that_ran_before_is_tried_again(plan: Plan, kind: Fault, outcomes: list[str]) -> None:
    made, _ = campaign(plan, ArmLost(kind, "nothing was heard for 60 s"), after=FIRST)
    assert made.run() is True
    lost = [one for one in made.records if isinstance(one, Lost)]
    assert [(one.outcome, one.arm.replicate) for one in lost] == [(outcome, 1) for outcome in outcomes]


def test_a_single_time_out_costs_no_replicate_that_is_there(plan: Plan) -> None:
    made, _ = campaign(plan, ArmLost(Fault.LOADER_STALLED, "the loader gave no batch"), after=FIRST, times=1)
    assert made.run() is True
    assert [one.outcome for one in made.records if isinstance(one, Lost)] == ["interrupted"]
    (row,) = build_matrix(plan, made.records, ENVIRONMENT).rows
    assert row.estimate
    assert row.estimate.processes == 2


def test_what_somebody_else_ended_is_tried_again_and_given_up_in_the_end(plan: Plan) -> None:
    made, _ = campaign(plan, ArmLost(Fault.KILLED, "ended by SIGKILL; see dmesg"), after=0)
    assert made.run() is True
    outcomes = [one.outcome for one in made.records if isinstance(one, Lost) and one.arm.replicate == 0]
    assert outcomes == ["interrupted"] * (plan.protocol.attempts - 1) + ["failed"]
    assert "ended by SIGKILL, 3 times; see dmesg" in {one.reason for one in made.records if isinstance(one, Lost)}


def test_a_lost_device_ends_the_command_with_words(plan: Plan) -> None:
    made, closed = campaign(plan, ArmLost(Fault.DEVICE_LOST, "CUDA error: unknown error; see nvidia-smi"), after=3)
    with pytest.raises(
        Mistake, match=r"unknown error; see nvidia-smi; what was measured is kept, and the same command"
    ):
        made.run()
    assert sum(isinstance(one, Window) for one in made.records) == 3
    (lost,) = [one for one in made.records if isinstance(one, Lost)]
    assert (lost.kind, lost.outcome) == (Fault.DEVICE_LOST, "interrupted")
    assert len(closed) >= 2
