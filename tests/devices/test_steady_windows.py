"""Windows on a device that runs behind its host: each takes what a long training takes, and so does each half of it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from harness.core.optimization import Timing
from harness.core.protocol import UNTIMED
from harness.core.recipe import Recipe
from harness.core.records import Window
from harness.core.workload import Parts, Size
from harness.measure import devices
from harness.measure.session import Task
from harness.measure.trial import Trial, begin
from tests.devices.oracle import Loop
from tests.devices.test_emulated import MIXTURES, TIMES, HandMoved, of_hand
from tests.oracles.runner import Experiment, measure, rows_of
from tests.oracles.stages import PLAIN, Stages

BATCH, EPOCH, LEAD = 4, 16, 3
SHAPES = {  # loader, link, device and host
    "the device is the longest": (0.001, 0.003, 0.020, 0.002),
    "the loader is": (0.030, 0.003, 0.020, 0.002),
    "loader and device are equal": (0.020, 0.0, 0.020, 0.0),
    "the host's launches are": (0.001, 0.003, 0.002, 0.010),
    "the link is": (0.001, 0.003, 0.0005, 0.0),
}


@dataclass(frozen=True, slots=True)
class Slow(Dataset[tuple[Tensor, Tensor]]):
    """Items whose loading takes its time on a clock that only waits move."""

    spend: Callable[[], None]

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        self.spend()
        return torch.tensor([float(index)]), torch.tensor([0.0])


def trial_of(loop: Loop, clock: HandMoved, timing: Timing = Timing.STEP) -> Trial:
    """An arm that is warm, whose loader, link, device and launches take what the loop tells."""
    link_bytes_s = BATCH * 2 * 4 / loop.copy_s if loop.copy_s else 1e18
    device = of_hand(clock, replace(TIMES, step_s=loop.device_s, link_bytes_s=link_bytes_s))
    parts = Parts(
        model=lambda *_: nn.Linear(1, 1),
        loss=lambda *_: nn.MSELoss(),
        optimizer=lambda parameters, kernel: torch.optim.SGD(parameters, lr=1e-6, **kernel),
        dataset=lambda *_: Slow(lambda: clock.move(clock.now + loop.load_s / BATCH)),
        evaluate=lambda *_: pytest.fail("nobody asked for it"),
    )
    size = Size(batch=BATCH, epoch_steps=EPOCH, evaluation_items=1, data_bytes=1, shape={}, original_epoch_steps=EPOCH)
    recipe = Recipe(
        pin_memory=loop.pinned,
        non_blocking=loop.pinned,
        device_prefetch=loop.prefetched,
        deferred_metrics=loop.deferred,
    )
    endless = timing is not Timing.EPOCH
    task = Task(parts=parts, size=size, recipe=recipe, data=Path(), device=device, seed=0, endless=endless)
    trial, ready = begin(task, timing, UNTIMED, {}, other_seeds=False)
    device.times = replace(device.times, launch_s=loop.host_s / int(ready["effective"]["emulated_launches"]))
    return trial


def each_s(loop: Loop) -> float:
    """A step of a long training, by the simulation of every event."""
    return (loop.seconds(200) - loop.seconds(100)) / 100


@pytest.mark.parametrize("mixture", MIXTURES, ids=str)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_every_step_of_a_window_takes_what_one_of_a_long_training_takes(
    mixture: dict[str, bool], shape: tuple[float, float, float, float]
) -> None:
    load_s, copy_s, device_s, host_s = shape
    loop = Loop(load_s=load_s, copy_s=copy_s, device_s=device_s, host_s=host_s, **mixture)
    trial = trial_of(loop, HandMoved())
    for steps in (8, 25):
        window = trial.window(lead=LEAD, steps=steps)
        assert window["wall_s"] == pytest.approx(steps * each_s(loop), rel=1e-6)
        assert window["first_half_s"] == pytest.approx(steps // 2 * each_s(loop), rel=1e-6)
        assert window["quantiles_s"][0] == pytest.approx(window["slowest_s"][0], rel=1e-6), "all are alike"
        assert window["lead_s"] >= (LEAD - 1) * each_s(loop)
        assert window["wait_s"] <= window["wall_s"]


@pytest.mark.parametrize("deferred", [False, True], ids=["waiting", "deferred"])
def test_whole_epochs_take_what_their_steps_take(deferred: bool) -> None:
    loop = Loop(load_s=0.015, copy_s=0.0, device_s=0.020, deferred=deferred)
    window = trial_of(loop, HandMoved(), Timing.EPOCH).window(lead=LEAD, steps=2)
    assert window["steps"] == EPOCH
    assert window["wall_s"] == pytest.approx(EPOCH * each_s(loop), rel=1e-6)


@pytest.mark.parametrize("deferred", [False, True], ids=["waiting", "deferred"])
def test_a_loader_and_a_step_alone_take_their_own_time(deferred: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, clock = Loop(load_s=0.015, copy_s=0.003, device_s=0.020, deferred=deferred), HandMoved()
    computing = trial_of(loop, HandMoved(), Timing.COMPUTE).window(lead=LEAD, steps=8)["wall_s"]
    loader = trial_of(loop, clock, Timing.LOADER)
    monkeypatch.setattr(devices, "perf_counter", clock.read)  # a loader alone is timed by the host
    loading = loader.window(lead=LEAD, steps=8)["wall_s"]
    assert (loading, computing) == (pytest.approx(8 * loop.load_s), pytest.approx(8 * loop.device_s))


# By the real clock, through plan, processes and analysis.


@pytest.mark.alone
@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_a_loader_as_slow_as_the_device_hides_behind_it_wholly_once_nobody_waits_for_the_loss() -> None:
    experiment = Experiment(
        name="hidden",
        stages={PLAIN: Stages(load_s=0.02)},
        options=["deferred_metrics"],
        device="emulated:20ms",
    )
    found = measure(experiment)
    windows = [one for one in found.records if isinstance(one, Window) and one.arm.position == 1]
    assert min(one.wall_s / one.steps for one in windows) == pytest.approx(0.02, rel=0.02), "with a fill it is 21.2 ms"
    (row,) = rows_of([found])
    assert row.estimate, row.absence
    # Whoever sleeps wakes up late, and a neighbour on the cores only adds to that: both hide behind the device, too.
    assert row.estimate.low / 1.05 <= 2.0 <= row.estimate.high, row.estimate
