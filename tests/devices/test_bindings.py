"""Calls of PyTorch's CUDA bindings that work without a device, every warning an error, in a process of their own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
CALLS = """
import json, warnings
import torch
from torch import nn
from harness.core.recipe import Recipe
from harness.core.workload import Parts
from harness.measure.cuda import Cuda
from harness.measure.devices import effective_backend, settle_backend
from harness.measure.observed_process import tally
from harness.measure.observed_process import all_expandable
from harness.measure.phases import EventPhases
from harness.measure.update import optimizer_of
from tests.measure.settings import FLOAT32_COMPILED, no_waits

def tried(call):
    try:
        return call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"

def waits():
    torch.cuda._lazy_init = lambda: None  # the only part of it that needs a device
    with no_waits():
        within = torch._C._cuda_get_sync_debug_mode()
    return [within, torch._C._cuda_get_sync_debug_mode()]

def precisions():
    found = []
    for facts in ({}, {"tf32_convolutions": True}, {"matmul_precision": "high"}, {"matmul_precision": "medium"}, {}):
        settle_backend(Recipe(**facts))
        told = effective_backend()
        found.append([told["matmul_precision"], told["tf32_convolutions"], torch.backends.cuda.matmul.allow_tf32])
    return found

def compiled():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the imports
        from torch._inductor.compile_fx import _warn_tf32_disabled
    torch.cuda.get_device_capability = lambda: (9, 0)
    action, message = FLOAT32_COMPILED.split(":")
    seen = tried(_warn_tf32_disabled.__wrapped__)
    with warnings.catch_warnings():
        warnings.filterwarnings(action, message)
        return [seen.split(":")[0], tried(_warn_tf32_disabled.__wrapped__)]

def counted():
    torch.cuda.is_current_stream_capturing = lambda: False
    build = lambda parameters, kernel: torch.optim.Adam(parameters, lr=1e-3, **kernel)
    parts = Parts(model=None, loss=None, optimizer=build, dataset=None)
    optimizer = optimizer_of(parts, list(nn.Linear(2, 2).parameters()), Recipe(cuda_graph=True))
    return [optimizer.param_groups[0]["capturable"], tried(optimizer._accelerator_graph_capture_health_check)]

told = {
    "waits": tried(waits),
    "precisions": tried(precisions),
    "statistics": tried(lambda: [list(torch.cuda.memory_stats()), all_expandable(torch.cuda.memory_snapshot())]),
    "cache": tried(torch.cuda.empty_cache),
    "phases": tried(lambda: EventPhases(Cuda("cuda")).split().device_s),
    "event": tried(lambda: torch.cuda.Event(enable_timing=True).query()),
}
torch.cuda.is_available = lambda: True  # from here on
told |= {"compiled": tried(compiled), "counted": tried(counted)}
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", CALLS], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_waits_are_forbidden_within_the_block_alone(told: dict[str, Any]) -> None:
    assert told["waits"] == [2, 0]


def test_the_precisions_of_a_device_are_set_and_read_back(told: dict[str, Any]) -> None:
    assert told["precisions"] == [
        ["highest", False, False], ["highest", True, False], ["high", False, True], ["medium", False, True],
        ["highest", False, False],
    ]  # fmt: skip


def test_what_is_read_of_a_device_that_did_nothing_warns_of_nothing(told: dict[str, Any]) -> None:
    assert told["statistics"] == [[], False]
    assert told["cache"] is None
    assert told["phases"] is None
    assert told["event"] is True


def test_compiling_in_float32_warns_and_gpu_tests_pass_that_over(told: dict[str, Any]) -> None:
    assert told["compiled"] == ["UserWarning", None]


def test_an_optimizer_that_will_be_captured_runs_before_without_a_warning(told: dict[str, Any]) -> None:
    assert told["counted"] == [True, None]
