"""The parts of a step, counted: no foreign work in it, none missing."""

from contextlib import nullcontext
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from harness.core.recipe import Recipe
from harness.core.workload import Parts
from harness.measure import phases as measured
from harness.measure.phases import EventPhases, HostPhases
from harness.measure.step import Bound, shape_of_step
from harness.measure.update import (
    DeferredMetrics,
    EagerMetrics,
    WeightAverage,
    optimizer_of,
    plain_backward,
    scaled_backward,
    update_of,
)

LINEAR = Recipe(batch_scale=3, learning_rate_rule="linear")


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 1)
        self.forwards = self.backwards = 0

    def forward(self, inputs: Tensor) -> Tensor:
        self.forwards += 1
        output: Tensor = self.layer(inputs)
        output.register_hook(self._count)
        return output

    def _count(self, _: Tensor) -> None:
        self.backwards += 1


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_a_step_is_so_many_forwards_as_many_backwards_and_one_update(parts: int) -> None:
    model, updates, fetches = Counting(), [], []
    bound = Bound(
        fetch=lambda: fetches.append(1) or (torch.ones(2, 2), torch.zeros(2, 1)),
        transfer=lambda batch: batch,
        model=model,
        loss=nn.functional.mse_loss,
        autocast=nullcontext,
        backward=plain_backward,
        update=lambda: updates.append(1),
        record=lambda _: None,
        micro_batches=parts,
    )
    shape_of_step(parts)(bound)()
    assert (model.forwards, model.backwards, len(updates), len(fetches)) == (parts, parts, 1, parts)


@pytest.mark.parametrize("parts", [2, 4])
def test_micro_batches_add_up_to_the_whole_batch_s_gradient_and_loss(parts: int) -> None:
    inputs, targets = torch.rand(8, 3), torch.rand(8, 1)
    gradients, losses = [], []
    for count in (1, parts):
        torch.manual_seed(0)
        model = nn.Linear(3, 1)
        bound = Bound(
            fetch=iter(zip(inputs.chunk(count), targets.chunk(count), strict=True)).__next__,
            transfer=lambda batch: batch,
            model=model,
            loss=nn.functional.mse_loss,
            autocast=nullcontext,
            backward=plain_backward,
            update=lambda: None,
            record=lambda _: None,
            micro_batches=count,
        )
        losses.append(float(shape_of_step(count)(bound)()))
        gradients.append(model.weight.grad)
    assert losses[1] == pytest.approx(losses[0])
    torch.testing.assert_close(gradients[1], gradients[0])


def test_an_update_moves_the_parameters_and_clears_the_gradients() -> None:
    parameter = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([parameter], lr=0.5)
    plain_backward(parameter.sum())
    update_of(optimizer, Recipe(set_to_none=True))()
    assert parameter.tolist() == [0.5, 0.5]
    assert parameter.grad is None


class Captured(torch.autograd.Function):
    """A product whose gradient lies in memory that the next forward pass overwrites, as a CUDA graph's does."""

    pool = torch.zeros(2)

    @staticmethod
    def forward(context: Any, weight: Tensor) -> Tensor:
        Captured.pool.fill_(float("nan"))
        context.save_for_backward(weight)
        return weight.sum()

    @staticmethod
    def backward(_: Any, given: Tensor) -> Tensor:
        Captured.pool.fill_(1.0)
        return Captured.pool.mul_(given).detach()


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
@pytest.mark.parametrize(("passes", "set_to_none"), [(1, False), (1, True), (2, False)])
def test_gradients_outlive_the_memory_of_the_graphs_that_made_them(mode: str, passes: int, set_to_none: bool) -> None:
    parameter = nn.Parameter(torch.zeros(2))
    recipe = Recipe(compile=mode, micro_batches=passes, set_to_none=set_to_none)
    parts = Parts(
        model=_unused, loss=_unused, dataset=_unused, optimizer=lambda found, _: torch.optim.SGD(found, lr=1.0)
    )
    update = update_of(optimizer_of(parts, [parameter], recipe), recipe)
    for _ in range(3):
        for _ in range(passes):
            plain_backward(Captured.apply(parameter))
        update()
    assert parameter.tolist() == [-3.0 * passes] * 2


def test_scaling_leaves_the_update_as_it_is() -> None:
    parameter = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([parameter], lr=0.5)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    scaled_backward(scaler)(parameter.sum())
    assert parameter.grad is not None
    assert parameter.grad.tolist() == [1024.0, 1024.0]
    update_of(optimizer, Recipe(set_to_none=True), scaler)()
    assert parameter.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("kernel", ["loop", "foreach"])
@pytest.mark.parametrize("scaled", [False, True])
def test_gradients_are_clipped_to_the_norm_that_the_optimizer_sees(kernel: str, scaled: bool) -> None:
    parameter = nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0) if scaled else None
    (scaled_backward(scaler) if scaler else plain_backward)((parameter * torch.tensor([3.0, 4.0])).sum())
    update_of(optimizer, Recipe(clip_kernel=kernel), scaler, clip_norm=1.0)()
    assert parameter.tolist() == pytest.approx([-0.6, -0.8], rel=1e-4)


@pytest.mark.parametrize("kernel", ["loop", "foreach"])
def test_averaged_weights_follow_the_weights(kernel: str) -> None:
    parameter = nn.Parameter(torch.zeros(2))
    average = WeightAverage(torch.optim.SGD([parameter], lr=1.0), 0.75, foreach=kernel == "foreach")
    with torch.no_grad():
        parameter.fill_(4.0)
    average.follow()
    average.follow()
    assert average.averages[0].tolist() == [1.75, 1.75]


def test_metrics_agree_and_only_one_of_them_stays_on_the_device() -> None:
    eager, deferred = EagerMetrics(), DeferredMetrics()
    for value in (1.5, 2.25):
        eager.record(torch.tensor(value))
        deferred.record(torch.tensor(value))
    assert eager.total == float(deferred.total) == 3.75
    assert isinstance(deferred.total, Tensor)


def test_phases_are_read_once() -> None:
    phases = HostPhases()
    fetch = phases.waiting(lambda: sum(range(100_000)))
    fetch()
    first = phases.split()
    assert first.wait_s > 0
    assert first.copy_s == 0
    assert phases.split().wait_s == 0


class Event:
    """An event of a device, at its milliseconds."""

    def __init__(self, at_ms: float) -> None:
        self.at_ms = at_ms

    def elapsed_time(self, later: "Event") -> float:
        return later.at_ms - self.at_ms


def test_a_window_without_steps_tells_no_time_of_the_device() -> None:
    phases = EventPhases(clocked([]))
    assert phases.split().device_s is None  # an evaluation
    phases.begins.append(Event(1.0))
    phases.begins_ns.append(1_000_000)
    assert phases.split().device_s is None  # a loader alone
    phases.begins.append(Event(1.0))
    phases.begins_ns.append(1_000_000)
    phases.updates.append(Event(31.0))
    phases.updates_ns.append(2_000_000)
    assert phases.split().device_s == pytest.approx(0.03)


@dataclass
class Moment:
    """An event of a device whose clock is a list of milliseconds."""

    clock: list[float]
    at_ms: float = 0.0

    def record(self) -> None:
        self.at_ms = self.clock.pop(0)

    def elapsed_time(self, later: "Moment") -> float:
        return later.at_ms - self.at_ms


def clocked(clock: list[float]) -> Any:
    """A device whose events are recorded at these milliseconds."""
    return SimpleNamespace(event=lambda **_: Moment(clock))


@pytest.mark.parametrize(
    ("copies", "device_ms", "host_ms", "span_s", "queue_s"),
    [
        (1, [0, 2, 10, 10, 12, 20], [1, 3, 11, 13], 0.016, 0.004),  # the host queues a step in 2 ms of its 8
        (1, [0, 2, 10, 10, 12, 20], [2, 10, 12, 20], 0.016, 0.016),  # it takes as long as the device
        (2, [0, 1, 4, 5, 10], [1, 4, 6], 0.009, 0.005),  # a step of two micro-batches begins behind the first copy
    ],
)
def test_a_step_s_span_is_told_from_the_time_in_which_the_host_queues_it(
    copies: int,
    device_ms: list[float],
    host_ms: list[int],
    span_s: float,
    queue_s: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device, host = [*map(float, device_ms)], [one * 1_000_000 for one in host_ms]
    monkeypatch.setattr(measured, "perf_counter_ns", lambda: host.pop(0))
    phases = EventPhases(clocked(device))
    copy, update = phases.copying(lambda batch: batch), phases.finishing(lambda: None)
    while device:
        for _ in range(copies):
            copy("batch")
        update()
    split = phases.split()
    assert (split.device_s, split.queue_s) == (pytest.approx(span_s), pytest.approx(queue_s))
    assert phases.split().queue_s is None


def test_waiting_for_the_next_batch_in_a_step_is_no_queueing(monkeypatch: pytest.MonkeyPatch) -> None:
    device = [float(one) for one in range(20)]
    host = iter([0, 40, 41, 50, 80, 90])  # a fetch of 40, the step begins, a fetch of 30 for the next one, the update
    monkeypatch.setattr(measured, "perf_counter_ns", lambda: next(host) * 1_000_000)
    phases = EventPhases(clocked(device))
    fetch = phases.waiting(lambda: "batch")
    fetch()
    phases.copying(lambda batch: batch)("batch")
    fetch()
    phases.finishing(lambda: None)()
    split = phases.split()
    assert (split.wait_s, split.queue_s) == (pytest.approx(0.07), pytest.approx(0.019))


@pytest.mark.parametrize(("recipe", "rates"), [(Recipe(), [0.5, 0.1]), (LINEAR, [1.5, 0.3])])
def test_the_learning_rate_of_every_group_follows_the_batch_if_it_is_to(recipe: Recipe, rates: list[float]) -> None:
    def build(ones: list[nn.Parameter], kernel: Any) -> torch.optim.Optimizer:
        return torch.optim.SGD([{"params": ones[:1]}, {"params": ones[1:], "lr": 0.1}], lr=0.5, **kernel)

    parts = Parts(model=_unused, loss=_unused, dataset=_unused, optimizer=build)
    optimizer = optimizer_of(parts, [nn.Parameter(torch.ones(1)) for _ in range(2)], recipe)
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx(rates)


def _unused(*_: Any) -> Any:
    raise AssertionError


def test_what_ends_a_step_keeps_its_arguments_and_its_result() -> None:
    assert HostPhases().finishing(lambda one, other: one - other)(5, 3) == 2
