"""What only a GPU can show; without one each test says what it would have checked."""

from pathlib import Path

import pytest
import torch

from harness.core.optimization import Timing
from harness.core.protocol import BRIEF
from harness.measure.clock import timed
from harness.measure.phases import CudaPhases
from harness.measure.trial import begin
from tests.measure.tasks import task_of

pytestmark = pytest.mark.gpu


def gpu(what: str) -> None:
    if not torch.cuda.is_available():
        pytest.skip(f"needs a CUDA device; would check that {what}")


def test_events_bound_the_copy_and_the_device_s_span_without_a_sync() -> None:
    gpu("copies and kernels are timed by events that are read when a burst is over")
    phases, device = CudaPhases(), torch.device("cuda")
    source = torch.ones(1 << 24).pin_memory()
    square = torch.ones(4096, 4096, device=device)
    copy = phases.copying(lambda batch: batch.to(device, non_blocking=True))
    update = phases.finishing(lambda: torch.mm(square, square))

    def step() -> None:
        copy(source)
        update()

    step()
    phases.split()
    wall_s = timed(step, 10, device)
    split = phases.split()
    assert split.device_s is not None
    assert 0 < split.copy_s < wall_s
    assert 0 < split.device_s < wall_s
    assert phases.split().copy_s == 0


@pytest.mark.parametrize(
    ("stack", "proof"),
    [
        (("pin_memory", "non_blocking"), {"pinned_batches": True, "overlapping_copies": True}),
        (("amp_float16",), {"float16_layers": True}),
        (("tf32", "cudnn_benchmark"), {"tf32": True, "cudnn_benchmark": True}),
        (("channels_last", "amp_bfloat16"), {"memory_format": "channels_last", "bfloat16_layers": True}),
    ],
)
def test_settings_that_need_cuda_engage(
    stack: tuple[str, ...], proof: dict[str, bool | str], smoke_data: dict[str, Path]
) -> None:
    gpu(f"{' and '.join(stack)} engage on the leak workload")
    task = task_of("leak", smoke_data["leak"], stack, device="cuda")
    trial, ready = begin(task, Timing.STEP, BRIEF, dict(proof), is_reference=True)
    assert ready["unengaged"] == ()
    burst = trial.burst(0.3)
    assert burst["device_s"] is not None
    assert burst["device_bytes"] > 0
    trial.session.feed.close()
