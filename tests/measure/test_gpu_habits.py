"""What habits cost a GPU can only be seen on one; without it each test says what it would have checked."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.core.configuration import expected, parse_option
from harness.core.optimization import Timing
from harness.core.protocol import BRIEF
from harness.core.recipe import Recipe
from harness.measure import session
from harness.measure.cuda import Cuda
from harness.measure.devices import settle_backend
from harness.measure.loop import examined, habits_of
from harness.measure.trial import begin
from harness.measure.update import plain_backward
from tests.measure.settings import no_waits
from tests.measure.tasks import CATALOGUE, task_of

pytestmark = pytest.mark.gpu


def gpu(what: str) -> Cuda:
    if not torch.cuda.is_available():
        pytest.skip(f"needs a CUDA device; would check that {what}")
    return Cuda("cuda")


@pytest.fixture(autouse=True)
def _plain_backend_afterwards() -> Iterator[None]:
    yield
    settle_backend(Recipe())


def begun(folder: Path, name: str, stack: tuple[str, ...]) -> dict[str, Any]:
    option = parse_option(name)
    proof = expected(CATALOGUE.optimizations[option.name], option.level)
    trial, ready = begin(
        task_of("leak", folder, stack, device="cuda"), Timing.STEP, BRIEF, dict(proof), other_seeds=False
    )
    trial.session.feed.close()
    return ready


@pytest.mark.parametrize(
    "name",
    [
        "empty_cache",
        "nvtx_marks",
        "monitoring=10",
        "finite_check",
        "anomaly_detection",
        "growing_loss_history",
        "preallocated_loss_history",
    ],
)
def test_a_habit_engages_on_a_gpu_and_keeps_every_bit(name: str, smoke_data: dict[str, Path]) -> None:
    gpu(f"{name} engages, that plain has none of it, and that both have the same losses")
    there, plain = (
        begun(smoke_data["leak"], name, stack) for stack in ((name, "cudnn_deterministic"), ("cudnn_deterministic",))
    )
    assert there["inactive"] == ()
    assert plain["inactive"] != ()
    assert there["losses"] == plain["losses"]


@pytest.mark.parametrize("name", ["empty_cache", "nvtx_marks"])
def test_a_habit_that_reaches_no_step_is_seen(
    name: str, smoke_data: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu(f"{name} is not active where it was asked for and left out")
    monkeypatch.setattr(session, "habits_of", lambda _recipe, _device: ())
    monkeypatch.setattr(session, "marking", lambda _recipe, _device: lambda bound: bound)
    assert begun(smoke_data["leak"], name, (name,))["inactive"] != ()


def test_an_emptied_cache_keeps_nothing_that_is_not_in_use() -> None:
    device = gpu("reserved memory falls to what is allocated when the cache is emptied")
    (habit,) = habits_of(Recipe(empty_cache=True), device)
    kept = torch.zeros(1 << 22, device=device.torch)
    for _ in range(3):
        torch.zeros(1 << 26, device=device.torch)
    before = torch.cuda.memory_reserved(device.torch)
    habit.record(kept.sum())
    assert torch.cuda.memory_reserved(device.torch) < before - (1 << 26)


@pytest.mark.parametrize("kind", ["growing", "preallocated"])
def test_a_history_never_waits_for_the_device(kind: Any) -> None:
    device = gpu(f"a {kind} history of losses is kept without a wait")
    (habit,) = habits_of(Recipe(loss_history=kind), device)
    value = torch.ones((), device=device.torch)
    with no_waits():
        for _ in range(3):
            habit.record(value)


def test_a_check_for_nan_waits_for_the_device() -> None:
    device = gpu("the NaN check reads the loss back before the backward pass")
    value = torch.ones((), device=device.torch, requires_grad=True)
    with no_waits(), pytest.raises(RuntimeError, match="synchroniz"):
        examined(plain_backward, Recipe(finite_check=True))(value)


def test_a_reading_asks_the_device_that_trains() -> None:
    device = gpu("NVML's utilisation and memory are read from the device that PyTorch uses")
    held = torch.zeros(1 << 28, device=device.torch)
    driver = device.driver()
    assert driver.ask("nvmlDeviceGetMemoryInfo").used > held.nbytes
    assert 0 <= driver.ask("nvmlDeviceGetUtilizationRates").gpu <= 100
