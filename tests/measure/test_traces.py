"""Timelines and memory by kind, against trainings whose idle times and tensors are known."""

import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from harness.core.workload import Parts, Timeline
from harness.measure.devices import device_named
from harness.measure.gpu import Driver
from harness.measure.session import open_session
from harness.measure.traces import PERIOD_S, _asked, memory_by_kind, shares, timeline
from harness.report.timeline import figure, lines, summary
from tests.measure.test_windows import BATCH, EPOCH, ITEM_S, task_with

STEP_S, STALL_S, WIDTH = 0.020, 0.5, 16


class Stalling(Dataset[tuple[Tensor, Tensor]]):
    """Items that take no time, but for one in an epoch."""

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if index == 0:
            time.sleep(STALL_S)
        return torch.tensor([float(index)]), torch.tensor([0.0])


def test_shares_are_what_spans_cover_of_each_period() -> None:
    spans = [(10.0 - PERIOD_S, 10.0 + PERIOD_S / 4), (10.0 + 1.5 * PERIOD_S, 10.0 + 2.25 * PERIOD_S)]
    assert shares(spans, 10.0, 3) == pytest.approx((0.25, 0.5, 0.25))
    assert shares([(10.0, 11.0)], 10.0, 2) == pytest.approx((1.0, 1.0))
    assert shares([(9.0, 9.5)], 10.0, 2) == (0.0, 0.0)


def timed_in(found: Timeline) -> tuple[float, float]:
    """Seconds in which the device computed, and in which the training waited."""
    return sum(found.busy) * PERIOD_S, sum(found.waiting) * PERIOD_S


@pytest.mark.parametrize("device", ["emulated:20ms", "cpu"])
def test_a_loader_that_stalls_once_an_epoch_leaves_the_device_idle_meanwhile(device: str) -> None:
    """However busy the machine is, a step takes 20 ms of an emulated device, and a stall half a second of waiting."""
    task = task_with(workers=0)
    task = replace(task, device=device_named(device), parts=replace(task.parts, dataset=lambda *_: Stalling()))
    found = timeline(task, {}, 4.0)
    busy_s, waiting_s = timed_in(found)
    assert len(found.busy) == len(found.waiting) == round(4.0 / PERIOD_S)
    if device.startswith("emulated"):
        assert busy_s == pytest.approx(found.steps * STEP_S, abs=2 * STEP_S)
    stalls = found.steps // EPOCH
    assert stalls >= 2
    assert waiting_s >= (stalls - 1) * STALL_S
    assert sum(one < 0.05 for one in found.busy) >= stalls - 1  # half a second holds two whole periods


def test_a_steady_loader_shares_the_time_with_the_device() -> None:
    """As long to load as to compute, one after the other."""
    task = replace(task_with(workers=0), device=device_named("emulated:16ms"))
    found = timeline(task, {}, 2.0)
    busy_s, waiting_s = timed_in(found)
    assert BATCH * ITEM_S == 0.016
    assert busy_s == pytest.approx(found.steps * 0.016, abs=2 * 0.016)
    assert waiting_s >= (found.steps - 2) * BATCH * ITEM_S


def test_a_driver_is_asked_once_a_period() -> None:
    answers = iter([37, 0, 100, 50])
    told = SimpleNamespace(
        nvmlDeviceGetUtilizationRates=lambda _: SimpleNamespace(gpu=next(answers)), NVMLError=OSError,
        NVMLLibraryMismatchError=OSError,
    )  # fmt: skip
    with _asked(Driver(told, 1), 3) as shown:
        time.sleep(4 * PERIOD_S)
    assert shown == [0.0, 1.0, 0.5]  # the first answer only says that there is one
    with _asked(Driver(), 3) as shown:
        time.sleep(PERIOD_S)
    assert shown == []


def test_a_timeline_reads_as_bars_and_counts_idle_and_full_periods() -> None:
    busy = (0.0, 1.0, 0.5, 0.04) * 20
    found = Timeline(period_s=PERIOD_S, busy=busy, waiting=tuple(1 - one for one in busy), steps=7, inactive=())
    first, second = lines(found)
    assert first.startswith("   0 s | █▄ ")
    assert second.startswith("  10 s |")
    assert "the device computes 38 % of the time, and 62 % of it" in summary(found)
    assert "Of 80 periods of 167 ms, the finest that nvidia-smi shows, 40 were idle and 20 full." in summary(found)
    drawn = figure("leak on a device", found)
    assert drawn.startswith("<!-- Written by `./speedmatrix timeline`. -->\n<svg")
    assert drawn.count("<title>") == 1
    assert "leak on a device" in drawn


# Memory by kind.


class Pairs(Dataset[tuple[Tensor, Tensor]]):
    """Four numbers and two."""

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return torch.full((4,), float(index)), torch.zeros(2)


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(4, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2))


def measured(**choices: object) -> dict[str, int]:
    task = task_with(**choices)
    parts = Parts(
        model=lambda *_: network(), loss=lambda *_: nn.MSELoss(), dataset=lambda *_: Pairs(),
        optimizer=lambda parameters, kernel: torch.optim.Adam(parameters, lr=1e-3, **kernel),
    )  # fmt: skip
    session = open_session(replace(task, parts=parts))
    session.step()()
    found = memory_by_kind(session.trainee, session.feed.fetch())
    session.feed.close()
    return found


def test_every_byte_of_a_small_step_is_told_by_its_kind() -> None:
    numbers = 4 * WIDTH + WIDTH + 2 * WIDTH + 2
    tensors = 4
    assert measured() == {
        "weights": 4 * numbers,
        "gradients": 4 * numbers,
        "optimizer": 4 * (2 * numbers + tensors),  # both moments, and a step count for each tensor
        # What ReLU gave, which the second layer takes too, and what the loss was given.
        "kept for the backward pass": 4 * BATCH * (WIDTH + 2),
        "batch": 4 * BATCH * (4 + 2),
    }


def test_lower_precision_keeps_smaller_activations_and_copies_of_weights() -> None:
    """What ReLU gave, the second layer's weights and the input in 2 bytes; what the loss was given in 4."""
    lower = measured(autocast="bfloat16")
    assert lower["weights"] == measured()["weights"]
    assert lower["kept for the backward pass"] == 2 * (BATCH * WIDTH + 2 * WIDTH + BATCH * 4) + 4 * BATCH * 2
