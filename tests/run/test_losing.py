"""What a campaign does when an ask outlasts the budget, when an arm is lost, and when the device is."""

from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from rich.console import Console

from benchmarks.invented.rehearsal import Effects, RehearsedArm, VirtualClock
from harness.cli.measuring import Progress
from harness.core.mistake import Mistake
from harness.core.plan import Block, Plan, Request
from harness.core.records import Fault, Lost, Record, Window
from harness.run.arm import ArmLost, BudgetSpent
from harness.run.execution import Campaign
from harness.run.preparation import prepared

WISH = Request(workloads=("leak",), size="quick", only=("set_to_none",), replicates=2, rounds=3, device="cpu")


@pytest.fixture(scope="module")
def plan() -> Plan:
    return prepared(WISH).plan


@dataclass(slots=True, kw_only=True)
class FailingArm:
    """A rehearsed arm whose windows fail once so many have been taken by all arms together."""

    arm: RehearsedArm
    error: Exception
    left: list[int]
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
        if self.left[0] < 0:
            raise self.error
        return self.arm.window(lead, steps, start)

    def close(self) -> None:
        self.closed.append(True)


def campaign(plan: Plan, error: Exception, after: int) -> tuple[Campaign, list[bool]]:
    clock, left, closed = VirtualClock(), [after], list[bool]()

    def start(block: Block, _replicate: int, position: int) -> FailingArm:
        config = block.comparisons[position - 1].treatment if position else block.reference
        arm = RehearsedArm(config=config, timing=block.timing, effects=Effects(), clock=clock, random=Random(position))
        return FailingArm(arm=arm, error=error, left=left, closed=closed)

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
