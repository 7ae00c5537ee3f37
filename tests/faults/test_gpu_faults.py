"""Faults of a GPU, made on one; without one each test says what it would have checked."""

import pytest
import torch

from harness.core.records import Fault
from tests.faults.own_doing import BRIEF, only
from tests.faults.stage import Stage

pytestmark = [pytest.mark.gpu, pytest.mark.thorough]


@pytest.mark.parametrize(
    ("deed", "kind", "words"),
    [
        ("device_memory", Fault.DEVICE_MEMORY, "out of memory: CUDA out of memory"),
        ("device_assert", Fault.DEVICE_ERROR, "CUDA error: device-side assert triggered"),
    ],
)
def test_an_error_of_the_device_is_told_and_the_others_are_measured(
    deed: str, kind: Fault, words: str, stage: Stage
) -> None:
    if not torch.cuda.is_available():
        pytest.skip(f"needs a CUDA device; would check that an arm is recorded as {kind}: {words}")
    given = {"TROUBLE": f"set_to_none:step:{deed}", "HURRIED_START_S": "120", "STAGE_DEVICE": "cuda"}
    seen = stage.run(f"{only('set_to_none', 'collect_garbage')} {BRIEF}", given)
    assert seen.status == 0, seen.said
    assert {one.kind for one in seen.lost} == {kind}
    assert all(words in one.reason for one in seen.lost)
    stage.assert_nothing_is_left()
