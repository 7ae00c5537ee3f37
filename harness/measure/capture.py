"""The captured step: everything between two batches as one CUDA graph, replayed on memory that stays where it is."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from harness.measure.step import Bound

# Before the capture: libraries and optimizers set themselves up in the first step, which no graph may hold. Not more,
# so that already the third loss, which every protocol compares, is that of a replay.
EAGER_STEPS = 2


@dataclass(slots=True)
class StepGraph:
    """Forward pass, loss, backward pass and update; called with a batch on the device, it gives the loss.

    The first steps run as written, on the stream that is captured later, and train like all others. The loss lies in
    memory of the graph: the next step overwrites it.
    """

    train: Callable[[Tensor, Tensor], Tensor]
    replays: int = 0
    run: Callable[[Tensor, Tensor], Tensor] = field(init=False)  # what a step does now: eager, capture or replay
    stream: torch.cuda.Stream = field(init=False)
    graph: torch.cuda.CUDAGraph = field(init=False)
    _eager_steps: int = 0
    _batch: tuple[Tensor, Tensor] = field(init=False)
    _value: Tensor = field(init=False)

    def __post_init__(self) -> None:
        """Nothing is captured before the first steps are done."""
        self.run, self.stream, self.graph = self._eager, torch.cuda.Stream(), torch.cuda.CUDAGraph()

    def __call__(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """One step on a batch."""
        return self.run(inputs, targets)

    def _eager(self, inputs: Tensor, targets: Tensor) -> Tensor:
        current = torch.cuda.current_stream()
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            value = self.train(inputs, targets).detach()
        current.wait_stream(self.stream)
        self._eager_steps += 1
        if self._eager_steps == EAGER_STEPS:
            self.run = self._capture
        return value

    def _capture(self, inputs: Tensor, targets: Tensor) -> Tensor:
        self._batch = (inputs.clone(), targets.clone())
        # Only this thread's calls are watched: the loader's pinning thread may allocate meanwhile.
        with torch.cuda.graph(self.graph, stream=self.stream, capture_error_mode="thread_local"):
            self._value = self.train(*self._batch).detach()
        self.run = self._replay
        return self._replay(inputs, targets)

    def _replay(self, inputs: Tensor, targets: Tensor) -> Tensor:
        into_inputs, into_targets = self._batch
        into_inputs.copy_(inputs)
        into_targets.copy_(targets)
        self.graph.replay()
        self.replays += 1
        return self._value


def trained_by(bound: Bound, update: Callable[[], None]) -> Callable[[Tensor, Tensor], Tensor]:
    """The part of a step that can be captured; `update` without the event that `bound` may have behind it."""
    model, loss, autocast, backward = bound.model, bound.loss, bound.autocast, bound.backward

    def train(inputs: Tensor, targets: Tensor) -> Tensor:
        with autocast():
            value = loss(model(inputs), targets)
        backward(value)
        update()
        return value

    return train
