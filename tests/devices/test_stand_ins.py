"""Captures, batches sent ahead and phases on a CPU, with stand-ins for CUDA's streams, events and graphs."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from time import perf_counter

import pytest
import torch
from torch import Tensor

from harness.measure.cuda import Cuda
from harness.measure.delay import Delay
from harness.measure.devices import marked, moments, timed
from harness.measure.phases import EventPhases
from harness.measure.session import Task, open_trainee, step_of
from harness.measure.step import EAGER_STEPS
from harness.measure.transfer import Ahead, SideStream
from tests.devices.fakes import batch_of, smoke
from tests.devices.stand_ins import REFUSED, Device, Event, NotReady, Stream, install
from tests.measure.test_gpu import refused_capture

CUDA, NEARBY = Cuda("cuda"), Cuda("cpu")  # one that is not here, and one whose tensors lie on the CPU
STEPS = EAGER_STEPS + 3


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Device:
    return install(monkeypatch)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def losses_of(task: Task, batches: list[tuple[Tensor, ...]]) -> list[float]:
    trainee = open_trainee(replace(task, device=NEARBY), EventPhases(CUDA))
    step = step_of(trainee, cycle(batches).__next__)
    return [float(step()) for _ in range(STEPS)]


@pytest.mark.parametrize(
    ("workload", "stack"),
    [
        ("leak", ()),
        ("leak", ("set_to_none", "deferred_metrics", "foreach_optimizer", "foreach_clipping")),
        ("leak", ("fused_optimizer", "device_spec_augment", "growing_loss_history")),
        ("leak", ("data_on_device", "conv1d_rewrite", "in_place_activations")),
    ],
)
def test_a_captured_step_trains_as_the_written_one_does(
    workload: str, stack: tuple[str, ...], smoke_data: dict[str, Path], cuda: Device
) -> None:
    written, captured = smoke(workload, smoke_data, *stack), smoke(workload, smoke_data, "cuda_graph", *stack)
    first = batch_of(written)
    batches = [first, (first[0].flip(0), *first[1:])]  # a replay that read its first batch again would show
    expected, found = losses_of(written, batches), losses_of(captured, batches)
    assert found == pytest.approx(expected, rel=1e-4)
    assert len(set(found)) == STEPS
    assert cuda.said.count("replay") == STEPS - EAGER_STEPS
    assert [one for one in cuda.said if one.startswith("capture")] == ["capture thread_local"]


def test_a_step_that_reads_back_cannot_be_captured(smoke_data: dict[str, Path], cuda: Device) -> None:
    assert refused_capture(smoke_data["leak"], "cpu") == REFUSED


def test_a_mask_cannot_be_captured_and_numbers_can(cuda: Device) -> None:
    values, graph = torch.arange(4.0), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
        values[torch.tensor([0, 2])]
        with pytest.raises(RuntimeError, match=REFUSED):
            values[values > 1]


def test_a_replay_computes_on_the_storages_that_were_captured(cuda: Device) -> None:
    given, graph = torch.ones(3), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
        view = (given * 2).view(3)
        view += 1
        total = view.sum()
    given.copy_(torch.arange(3.0))
    assert float(total) == 9
    graph.replay()
    assert (view.tolist(), float(total)) == ([1.0, 3.0, 5.0], 9.0)
    given.fill_(5)
    graph.replay()
    assert float(total) == 33


def test_phases_are_read_when_somebody_has_waited_and_never_before(cuda: Device) -> None:
    phases = EventPhases(CUDA)
    copy, update = phases.copying(lambda batch: batch), phases.finishing(lambda: None)

    def step() -> None:
        copy((torch.ones(2),))
        update()

    step()
    with pytest.raises(NotReady):
        phases.split()
    assert timed(step, 3, CUDA) > 0
    split = phases.split()
    assert split.device_s is not None
    assert split.device_s > 0
    assert split.copy_s > 0
    assert phases.split().copy_s == 0


def test_marks_are_set_without_a_wait_and_read_after_one(cuda: Device) -> None:
    marks = marked(cuda.queue, 3, CUDA)
    assert cuda.done == 0
    with pytest.raises(NotReady):
        marks[0].elapsed_time(marks[-1])
    began = perf_counter()
    found = moments(marks, CUDA)
    assert found == sorted(found)
    assert found[-1] <= began
    assert found[-1] - found[0] == pytest.approx(marks[-1].seconds - marks[0].seconds)


def test_the_length_of_a_pause_is_read_when_the_device_has_been_waited_for(
    cuda: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "_sleep", lambda _cycles: cuda.queue())
    monkeypatch.setattr(torch.cuda, "device", lambda _: torch.no_grad())
    delay = Delay(place="device", share=0.1, device=CUDA)
    delay.begin(1.0)

    def step() -> None:
        delay.pause()  # another one while it is looked at

    assert len(delay.lengths(step, 3)) == 3


def test_a_batch_sent_ahead_is_waited_for_by_the_stream_that_computes(
    cuda: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tensor, "is_cuda", True)  # as it would be
    (main,) = cuda.streams
    road = SideStream(lambda batch: tuple(one.clone() for one in batch), CUDA, EventPhases(CUDA))
    ahead = Ahead(road, iter([[torch.full((2,), float(number)), torch.zeros(1)] for number in range(3)]).__next__)
    ahead.send()
    assert ahead.pending is not None
    assert road.is_apart(ahead.pending)
    copied = ahead.pending.copied
    assert isinstance(copied, Event)
    side: object = road.stream
    assert copied.stream is side
    assert main.waited == []
    inputs, _ = ahead.take()
    assert main.waited == [copied]
    assert cuda.said == ["record_stream"] * 2
    assert inputs.tolist() == [0.0, 0.0]
    cuda.synchronize()
    assert road.phases.split().copy_s > 0


def test_a_captured_step_takes_batches_that_were_sent_ahead(smoke_data: dict[str, Path], cuda: Device) -> None:
    task = smoke("leak", smoke_data, "cuda_graph")
    batch = batch_of(task)
    expected = losses_of(task, [batch])
    trainee = open_trainee(replace(task, device=NEARBY), EventPhases(CUDA))
    ahead = Ahead(SideStream(trainee.move, CUDA, EventPhases(CUDA)), lambda: batch)
    bound = ahead.bound(trainee.bound, trainee.device_stage)
    step, before = step_of(replace(trainee, bound=bound), bound.fetch), len(cuda.streams[0].waited)
    assert [float(step()) for _ in range(STEPS)] == pytest.approx(expected, rel=1e-6)
    assert sum(isinstance(one, Stream) for one in cuda.streams[0].waited[before:]) == EAGER_STEPS
