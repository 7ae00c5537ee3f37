"""The order of a captured step, told on a CPU with a graph that notes what is asked of it."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from harness.core.configuration import inactive
from harness.core.recipe import ImpossibleRecipe, Recipe
from harness.core.workload import Parts
from harness.measure.cuda import Cuda
from harness.measure.observed_step import of_capture
from harness.measure.step import EAGER_STEPS, Bound, StepGraph, captured_step, shape_of_step, trained_by
from harness.measure.update import optimizer_of, plain_backward, update_of

CUDA = Cuda("cuda")


class Recording:
    """Stands in for CUDA: notes what is asked, and replays what was recorded."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.step: Any = None

    def wait_stream(self, _: Any) -> None:
        self.said.append("wait")

    def replay(self) -> None:
        self.said.append("replay")
        self.step()


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Recording:
    recording = Recording()

    @contextmanager
    def graph(_graph: Any, *, stream: Any, capture_error_mode: str) -> Iterator[None]:
        assert stream is recording
        assert capture_error_mode == "thread_local"
        recording.said.append("capture")
        yield

    for name in ("Stream", "CUDAGraph", "current_stream"):
        monkeypatch.setattr(torch.cuda, name, lambda *_: recording)
    monkeypatch.setattr(torch.cuda, "stream", lambda _: nullcontext())
    monkeypatch.setattr(torch.cuda, "graph", graph)
    return recording


def test_first_come_real_steps_then_one_is_captured_and_every_further_one_replayed(cuda: Recording) -> None:
    seen: list[tuple[float, float]] = []
    written = torch.zeros(())

    def train(inputs: Tensor, targets: Tensor) -> Tensor:
        cuda.step = lambda: (seen.append((float(inputs), float(targets))), written.copy_(inputs + targets))
        if "capture" not in cuda.said:
            cuda.step()
        return written

    graph = StepGraph(train, CUDA)
    losses = [float(graph(torch.tensor(float(number)), torch.tensor(10.0))) for number in range(6)]
    assert losses == [10.0, 11.0, 12.0, 13.0, 14.0, 15.0]  # every batch is trained on once, the captured one too
    assert seen == [(float(number), 10.0) for number in range(6)]
    assert cuda.said == ["wait", "wait"] * EAGER_STEPS + ["capture"] + ["replay"] * (6 - EAGER_STEPS)
    assert graph.replays == 6 - EAGER_STEPS


def test_what_is_captured_is_the_step_without_fetch_transfer_and_record() -> None:
    parameter = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([parameter], lr=0.5)

    bound = Bound(
        fetch=unused, transfer=unused, record=unused, update=unused,
        model=lambda inputs: inputs * parameter, loss=lambda outputs, targets: (outputs * targets).sum(),
        autocast=nullcontext, backward=plain_backward,
    )  # fmt: skip
    value = trained_by(bound, update_of(optimizer, Recipe()))(torch.tensor([3.0]), torch.tensor([1.0]))
    assert (value.item(), parameter.item()) == (3.0, -0.5)


def test_the_captured_shape_fetches_moves_runs_the_graph_and_records() -> None:
    said: list[Any] = []
    bound = Bound(
        fetch=lambda: "batch", transfer=lambda batch: (said.append(batch), "targets"), record=said.append,
        whole_step=lambda *batch: batch, model=said.append, loss=said.append, autocast=nullcontext,
        backward=said.append, update=said.append,
    )  # fmt: skip
    assert shape_of_step(1, captured=True) is captured_step
    assert captured_step(bound)() == (None, "targets")
    assert said == ["batch", (None, "targets")]


def test_compile_may_capture_graphs_of_its_own_or_be_captured() -> None:
    assert Recipe(cuda_graph=True, compile="default").compile == "default"
    with pytest.raises(ImpossibleRecipe, match="compile=reduce-overhead: it captures graphs of its own"):
        Recipe(cuda_graph=True, compile="reduce-overhead")


def unused(*_: Any) -> Any:
    raise AssertionError


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.Adam, torch.optim.SGD])
def test_optimizers_that_count_their_steps_count_them_on_the_device(kind: Any) -> None:
    parts = Parts(model=unused, loss=unused, dataset=unused, optimizer=lambda ones, _: kind(ones, 0.1))
    found = optimizer_of(parts, [nn.Parameter(torch.ones(1))], Recipe(cuda_graph=True)).param_groups[0]
    assert found.get("capturable", True) is True
    plain = optimizer_of(parts, [nn.Parameter(torch.ones(1))], Recipe()).param_groups[0]
    assert plain.get("capturable", False) is False


class Started:
    """A trainee whose graph is asked how far it came."""

    def __init__(self, graph: StepGraph | None) -> None:
        self.graph = graph


def test_a_capture_that_never_happened_is_not_engaged(cuda: Recording) -> None:
    graph = StepGraph(lambda inputs, _: inputs, CUDA)
    for _ in range(EAGER_STEPS):
        graph(torch.ones(()), torch.ones(()))
    for one in (None, graph):
        assert inactive({"cuda_graph": True}, of_capture(Started(one))) == ("cuda_graph is False, not True",)
    cuda.step = lambda: None
    graph(torch.ones(()), torch.ones(()))
    assert inactive({"cuda_graph": True}, of_capture(Started(graph))) == ()
