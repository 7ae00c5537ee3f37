"""Examinations: arms that only begin, to show their settings and first losses; several at a time, unlike bursts."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from harness.core.measurement import Arm, Lost, Ready
from harness.core.protocol import BRIEF, Protocol
from harness.run.arm import ArmLost, ProcessArm
from harness.run.job import Job
from harness.run.sentinel import Sentinel

NAMELESS = Arm(block="verify", restart=0, life=0, position=0)


def untimed(steps: int) -> Protocol:
    """The protocol of an arm whose clock nobody reads; it may take as long as a compiler needs."""
    return replace(
        BRIEF, loss_steps=steps, floor_steps=1, floor_s=0.0, ceiling_s=0.01, start_limit_s=1800.0, burst_s=1e-3
    )


def examined(
    jobs: Sequence[Job], at_once: int, sentinel: Sentinel, finished: Callable[[Job], None]
) -> list[Ready | Lost]:
    """What each job's arm showed, in the order of the jobs; `finished` is told of each as it ends."""

    def examine(job: Job) -> Ready | Lost:
        found = _examine(job, sentinel)
        finished(job)
        return found

    with ThreadPoolExecutor(max_workers=at_once) as pool:
        return list(pool.map(examine, jobs))


def _examine(job: Job, sentinel: Sentinel) -> Ready | Lost:
    arm = ProcessArm(job, sentinel)
    try:
        arm.arrive()
        return Ready(arm=NAMELESS, **arm.begin())
    except ArmLost as lost:
        return Lost(arm=NAMELESS, outcome=lost.outcome, reason=lost.reason, trace=lost.trace, kind=lost.kind)
    finally:
        arm.close()
