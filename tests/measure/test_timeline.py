"""The timeline against trainings whose idle times are known."""

import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor
from torch.utils.data import Dataset

from harness.core.workload import Timeline
from harness.measure.devices import device_named
from harness.measure.gpu import Driver
from harness.measure.timeline import PERIOD_S, _asked, shares, timeline
from harness.report.timeline import figure, lines, summary
from tests.measure.test_windows import BATCH, EPOCH, task_with

STEP_S, STALL_S = 0.020, 0.5


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


@pytest.mark.parametrize("device", ["emulated:20ms", "cpu"])
def test_a_loader_that_stalls_once_an_epoch_leaves_the_device_idle_meanwhile(device: str) -> None:
    """On the emulated device eight steps of 20 ms and half a second of nothing: 24 % busy. A CPU's steps are short."""
    task = task_with(workers=0)
    task = replace(task, device=device_named(device), parts=replace(task.parts, dataset=lambda *_: Stalling()))
    found = timeline(task, {}, 4.0)
    computing = EPOCH * STEP_S if device.startswith("emulated") else EPOCH * 0.002
    share = computing / (computing + STALL_S)
    assert len(found.busy) == len(found.waiting) == round(4.0 / PERIOD_S)
    assert sum(found.busy) / len(found.busy) == pytest.approx(share, abs=0.06)
    assert sum(found.waiting) / len(found.waiting) == pytest.approx(1 - share, abs=0.06)
    assert sum(one < 0.05 for one in found.busy) >= len(found.busy) / 3
    assert found.steps == pytest.approx(4.0 / (computing + STALL_S) * EPOCH, abs=1.5 * EPOCH)


def test_a_steady_loader_leaves_no_period_idle() -> None:
    """As long to load as to compute, one after the other: half of every period."""
    task = replace(task_with(workers=0), device=device_named("emulated:16ms"))
    found = timeline(task, {}, 2.0)
    assert min(found.busy) > 0.15
    assert sum(found.busy) / len(found.busy) == pytest.approx(0.5, abs=0.15)  # a busy machine delays both
    assert BATCH * 0.004 == 0.016


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
    assert drawn.startswith("<svg")
    assert drawn.count("<title>") == 1
    assert "leak on a device" in drawn
