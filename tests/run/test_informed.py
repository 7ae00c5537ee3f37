"""What an arm is told beforehand, and which of them may begin side by side."""

from pathlib import Path

import pytest

from harness.api import _informed
from harness.core.plan import Request
from harness.core.records import Bounds
from harness.run.arm import ProcessArm
from harness.run.preparation import job_of, prepared


@pytest.mark.parametrize(("workload", "asks"), [("leak", False), ("imagenet", True)])
def test_how_fast_batches_come_on_demand_is_asked_only_where_a_service_may_prepare_them(
    workload: str, *, asks: bool
) -> None:
    ready = prepared(Request(workloads=(workload,), size="smoke", device="cpu", only=("direct_collate",)))
    data = {(workload, "smoke"): Path()}
    block = ready.plan.blocks[0]
    for position in range(len(block.arms)):
        place = block, 0, position
        job = _informed(job_of(ready, data, *place), ready, [], place)
        assert job.bounds == (None if asks else Bounds(loader_rate=None, compute_rate=None))


@pytest.mark.parametrize(
    ("probe", "only", "replicate", "beside"),
    [
        (None, "direct_collate", 0, True),
        (None, "direct_collate", 1, False),  # it looks for a cache again, which workers beside it would disturb
        ("loader", "direct_collate", 1, True),  # beside which none begin
        (None, "workers=1", 0, False),
        ("loader", "workers=1", 1, False),
    ],
)
def test_nothing_with_workers_begins_beside_an_arm_that_looks_for_a_cache(
    probe: str | None, only: str, replicate: int, *, beside: bool
) -> None:
    ready = prepared(
        Request(
            workloads=("leak",), size="smoke", device="cpu", only=(only,), probe=probe, protocol="brief", design="alone"
        )
    )
    place = ready.plan.blocks[0], replicate, 1
    arm = object.__new__(ProcessArm)
    arm._job = _informed(job_of(ready, {("leak", "smoke"): Path()}, *place), ready, [], place)
    assert arm.begins_beside is beside
