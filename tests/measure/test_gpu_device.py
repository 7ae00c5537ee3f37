"""What only a GPU and its driver can show of clocks, energy, company and memory; else each test says what it would."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from math import ceil
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import Any

import pytest
import torch
from torch import Tensor

from harness.core.configuration import DELAY_S
from harness.core.optimization import Timing
from harness.core.protocol import BRIEF
from harness.core.recipe import Recipe
from harness.measure.cuda import Cuda
from harness.measure.devices import marked, moments, timed
from harness.measure.gpu import Board, board_of, multi_process_service, read_settings
from harness.measure.surroundings import free_bytes, processes_on_gpu, read_environment
from harness.measure.transfer import transfer_to
from harness.measure.trial import begin
from tests.measure.settings import no_waits
from tests.measure.tasks import task_of
from tests.measure.test_gpu import gpu

pytestmark = pytest.mark.gpu

GIB = 1 << 30
WATTS = 20, 2000  # no GPU under load takes less, no board is allowed more
HOLDS = "import sys, time, torch; kept = torch.ones(1 << 20, device='cuda'); print('here', flush=True); time.sleep(60)"


def device() -> Cuda:
    return Cuda("cuda")


def board() -> Board:
    """The board of the device, for a launcher that is this process."""
    return replace(board_of(device()), launcher=os.getpid())


def worked(seconds: float) -> float:
    """Keeps the device busy for about so long; gives the seconds that it took."""
    square = torch.rand(4096, 4096, device="cuda")
    torch.mm(square, square)
    step_s = timed(lambda: torch.mm(square, square), 5, device()) / 5
    return timed(lambda: torch.mm(square, square), ceil(seconds / step_s), device())


@pytest.fixture
def child() -> Iterator[subprocess.Popen[str]]:
    """A process of ours that holds memory of the device."""
    with subprocess.Popen([sys.executable, "-c", HOLDS], stdout=subprocess.PIPE, text=True) as one:
        assert one.stdout is not None
        yield one
        one.kill()


def test_a_burst_tells_of_clock_power_heat_and_energy(smoke_data: dict[str, Path]) -> None:
    gpu("a window carries the device's clock, power, temperature, throttling and the energy that it took")
    task = task_of("leak", smoke_data["leak"], (), device="cuda")
    trial, ready = begin(task, Timing.STEP, BRIEF, {}, other_seeds=True)
    trial.window(lead=1, steps=8)
    window = trial.window(lead=4, steps=100)
    trial.session.feed.close()
    assert 100 < window["clock_mhz"] < 10_000
    assert 100 < window["memory_clock_mhz"] < 100_000
    assert WATTS[0] < window["watts"] < WATTS[1]
    assert 0 < window["temperature_c"] < 120
    assert isinstance(window["throttled"], tuple)
    assert WATTS[0] < window["energy_j"] / window["wall_s"] < WATTS[1]
    assert window["strangers"] in {0, None}
    assert ready["loader_rate"] is None, "without workers the windows tell it"
    assert ready["compute_rate"] > 0


def test_energy_agrees_with_power() -> None:
    gpu("joules by the counter and mean power times seconds agree within a third over three seconds of work")
    found = board()
    worked(1.0)
    before = found.energy_j()
    took_s = worked(3.0)
    told = found.after(None, before)
    assert told["energy_j"] == pytest.approx(told["watts"] * took_s, rel=0.33)


def test_what_is_read_between_lead_in_and_clock_takes_a_few_milliseconds() -> None:
    gpu("the one counter that is read right before a window takes less than 5 ms, and all others less than 100 ms")
    found, one, all_of_them = board(), [], []
    worked(0.5)
    for _ in range(20):
        began = perf_counter()
        counted = found.energy_j()
        one.append(perf_counter() - began)
        found.after(found.strangers(), counted)
        all_of_them.append(perf_counter() - began)
    assert median(one) < 0.005, one
    assert median(all_of_them) < 0.1, all_of_them


def test_the_memory_of_the_process_is_more_than_the_allocator_s() -> None:
    gpu("the driver's memory of this process holds the allocator's and the context's")
    kept = torch.zeros(GIB, dtype=torch.uint8, device="cuda")
    told = board().after(None, None)
    if told["process_bytes"] is None:
        pytest.skip("this driver tells no memory of processes; would check that it is more than the allocator's peak")
    assert told["process_bytes"] > (device().peak_bytes() or 0) >= kept.nbytes


def test_a_child_is_no_stranger_suspended_or_not(child: subprocess.Popen[str]) -> None:
    gpu("a second process of ours on the device is no stranger, nor while it is suspended")
    assert child.stdout is not None
    assert child.stdout.readline() == "here\n"
    found = board()
    if found.strangers() is None:
        pytest.skip("this driver does not number processes as this system does; would check that a child is none")
    assert found.strangers() == 0
    os.kill(child.pid, signal.SIGSTOP)
    assert found.strangers() == 0
    assert (processes_on_gpu() or 0) >= 2


def test_a_process_of_somebody_else_is_seen(tmp_path: Path) -> None:
    gpu("a process on the device that was not started below the launcher is counted")
    said = tmp_path / "said"
    said.touch()
    shell = f'"{sys.executable}" -c "{HOLDS}" >{said} & echo $!'
    stranger = int(subprocess.run(["/bin/sh", "-c", shell], stdout=subprocess.PIPE, check=True).stdout)
    try:
        until = perf_counter() + 60
        while not said.read_text() and perf_counter() < until:
            torch.cuda._sleep(1)
            device().synchronize()
        seen = board().strangers()
    finally:
        os.kill(stranger, signal.SIGKILL)
    if seen is None:
        pytest.skip("this driver does not number processes as this system does; would check that a stranger is counted")
    assert seen == 1


def test_the_settings_of_the_device_are_told() -> None:
    gpu("clocks, power limit and memory errors are told, and no Multi-Process Service stands in between")
    found = read_settings(board().driver)
    assert found.clock_mhz is not None
    assert found.most_clock_mhz is not None
    assert found.clock_mhz <= found.most_clock_mhz
    assert found.power_limit_w is None or WATTS[0] < found.power_limit_w < WATTS[1]
    assert found.memory_errors in {0, None}
    assert multi_process_service() is None


def test_free_memory_is_the_device_s_too() -> None:
    gpu("free memory of the device falls by what is taken, and the environment names the device")
    before = free_bytes("cuda")
    kept = torch.zeros(4 * GIB, dtype=torch.uint8, device="cuda")
    after = free_bytes("cuda")
    assert len(before) == len(after) == 2
    assert before[1] - after[1] >= 0.9 * kept.nbytes
    del kept
    torch.cuda.empty_cache()
    found = read_environment("cuda")
    assert (found.device, found.accelerator) == ("cuda", torch.cuda.get_device_name())
    assert found.accelerator_memory_bytes is not None


def test_the_clock_covers_what_is_still_queued() -> None:
    gpu("a timed call is over when the device is, though the host has long gone on")
    cycles = 200_000_000
    torch.cuda._sleep(cycles)
    device().synchronize()
    began = perf_counter()
    torch.cuda._sleep(cycles)
    queued_s = perf_counter() - began
    device().synchronize()
    assert timed(lambda: torch.cuda._sleep(cycles), 1, device()) > 10 * queued_s


def test_steps_that_hide_behind_the_device_take_its_time_alone() -> None:
    gpu("between the device's marks, steps of 10 ms take no part of the 5 ms that the host spends before each of them")
    worked(0.5)  # an idle device clocks low
    cycles = int(10_000_000 * 0.01 / timed(lambda: torch.cuda._sleep(10_000_000), 1, device()))

    def step() -> None:
        sleep(0.005)
        torch.cuda._sleep(cycles)

    alone_s = timed(lambda: torch.cuda._sleep(cycles), 25, device()) / 25
    marked(step, 3, device())
    began, *_, ended = moments(marked(step, 25, device()), device())
    assert ended - began == pytest.approx(25 * alone_s, rel=0.005)


def test_a_batch_arrives_in_its_format_and_nobody_waits() -> None:
    gpu("a pinned batch is sent channels-last without a wait of the host")
    move = transfer_to(device(), Recipe(channels_last=True, non_blocking=True, pin_memory=True))
    batch = [torch.rand(8, 3, 32, 32).pin_memory(), torch.zeros(8).pin_memory()]
    with no_waits():
        images, targets = move(batch)
    assert images.is_contiguous(memory_format=torch.channels_last)
    assert (images.is_cuda, targets.is_cuda) == (True, True)


def test_micro_batches_have_one_span_a_step(smoke_data: dict[str, Path]) -> None:
    gpu("a step of four micro-batches has one span on the device, from behind its first copy to behind its update")
    stack = ("gradient_accumulation=4",)
    task = task_of("leak", smoke_data["leak"], stack, device="cuda")
    trial, ready = begin(task, Timing.STEP, BRIEF, {"micro_batches": 4}, other_seeds=False)
    window = trial.window(lead=1, steps=8)
    trial.session.feed.close()
    assert ready["inactive"] == ()
    assert 0 < window["device_s"] <= 1.01 * window["wall_s"]
    assert 0 < window["copy_s"] < window["wall_s"]


def test_a_control_of_the_device_sleeps_there(smoke_data: dict[str, Path]) -> None:
    gpu("device_delay=10 is as long as it says, by events of the device")
    task = task_of("leak", smoke_data["leak"], (), device="cuda")
    task = replace(task, recipe=replace(task.recipe, added_delay="device", delay_percent=10))
    trial, ready = begin(task, Timing.STEP, BRIEF, {"added_delay": "device"}, other_seeds=False)
    trial.session.feed.close()
    assert ready["inactive"] == ()
    assert ready["effective"][DELAY_S] > 0


@pytest.mark.parametrize("timing", [Timing.LOADER, Timing.COMPUTE, Timing.EPOCH, Timing.EVALUATION])
def test_every_kind_of_burst_is_timed_on_the_device(timing: Timing, smoke_data: dict[str, Path]) -> None:
    gpu(f"a window of {timing} has its samples, its device time and its memory")
    task = replace(task_of("leak", smoke_data["leak"], (), device="cuda"), endless=timing is not Timing.EPOCH)
    trial, ready = begin(task, timing, BRIEF, {}, other_seeds=False)
    window = trial.window(lead=1, steps=8)
    trial.session.feed.close()
    assert window["samples"] > 0
    assert window["device_bytes"] > 0
    assert (window["device_s"] is not None) == (timing not in {Timing.EVALUATION, Timing.LOADER})
    assert (ready["score"] is not None) == (timing is Timing.EVALUATION)


@pytest.mark.parametrize("name", ["device_results", "batched_evaluation", "inference_mode"])
def test_an_evaluation_on_the_device_shows_its_settings(name: str, smoke_data: dict[str, Path]) -> None:
    gpu(f"{name} engages on leak's evaluation, and plain is seen to lack it")
    active = []
    for stack in ((name,), ()):
        proof: dict[str, Any] = {name: True}
        task = task_of("leak", smoke_data["leak"], stack, device="cuda")
        trial, ready = begin(task, Timing.EVALUATION, BRIEF, proof, other_seeds=False)
        trial.session.feed.close()
        active.append(ready["inactive"] == ())
    assert active == [True, False]


def test_deferred_metrics_never_wait_and_eager_ones_do() -> None:
    gpu("a loss that stays on the device is recorded without a wait, and one that is read back waits")
    from harness.measure.update import DeferredMetrics, EagerMetrics

    value: Tensor = torch.ones((), device="cuda")
    with no_waits():
        DeferredMetrics().record(value)
        with pytest.raises(RuntimeError, match="synchroniz"):
            EagerMetrics().record(value)
