"""The interlude: an evaluation between two steps, after every so many epochs of a training."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from harness.core.recipe import Value, patched
from harness.measure.session import Session

# Read-backs of an evaluation: how often the host asked for values that lie on the device.

ASKING = frozenset({"item", "tolist", "cpu", "__float__", "__int__", "__bool__"})  # methods that wait for the device


class ReadBacks(TorchFunctionMode):
    """Counts such calls while it is entered, from the model's first forward pass on: before it there are no results.

    It also looks at what is sent to the device, from the beginning on.

    Methods are counted as they are called from Python. A dispatch mode would not see them on a CPU, where `cpu` and
    `tolist` reach no kernel. There a value that is copied and then looked at counts twice, which no GPU would do.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.device = device
        self.forwards = 0
        self.count = 0
        self.pinned = 0  # copies to the device from pinned memory
        self.overlapping = 0  # and of these, without a wait

    def __torch_function__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        name = getattr(function, "__name__", "")
        self.count += self.forwards > 0 and self._asks(name, args, result)
        if name == "to" and isinstance(args[0], Tensor) and args[0].device.type == "cpu" != result.device.type:
            pinned = args[0].is_pinned()
            self.pinned += pinned
            self.overlapping += pinned and bool((kwargs or {}).get("non_blocking"))
        return result

    def note_forward(self, _module: nn.Module, _inputs: Any, _output: Any) -> None:
        """A hook for the model."""
        self.forwards += 1

    def _asks(self, name: str, args: Any, result: Any) -> bool:
        if not (args and isinstance(args[0], Tensor) and args[0].device.type == self.device.type):
            return False
        return name in ASKING or (name == "to" and result.device.type != self.device.type)


@contextmanager
def counting_read_backs(model: nn.Module, device: torch.device) -> Iterator[ReadBacks]:
    """Counts the forward passes and the read-backs within the block."""
    reads = ReadBacks(device)
    hook = model.register_forward_hook(reads.note_forward)
    try:
        with reads:
            yield reads
    finally:
        hook.remove()


def of_read_backs(reads: ReadBacks) -> dict[str, Value]:
    """What one counted pass over the evaluation set shows: results that stayed are asked for once, or seldom.

    Copies are pinned, and overlap, where there is at least one such copy for each forward pass.
    """
    return {
        "device_results": reads.count == 1 or 0 < reads.count < reads.forwards,
        "evaluation_read_backs": reads.count,
        "evaluation_pinned": reads.pinned >= reads.forwards > 0,
        "evaluation_overlapping_copies": reads.overlapping >= reads.forwards > 0,
    }


Result = TypeVar("Result")


@dataclass(slots=True, kw_only=True)
class Interlude:
    """An evaluation that comes round whenever so many batches have been taken since it was made.

    It is done as the workload does it between epochs, which may be less than what it does when a training ends.
    """

    session: Session
    batches: int  # of the loader, between two evaluations
    began_at: int = field(init=False)
    ended_at: list[int] = field(default_factory=list)  # batches taken when an evaluation had gone through items
    effective: Mapping[str, Value] = field(default_factory=dict)  # what the last evaluation showed of itself

    def __post_init__(self) -> None:
        """Counts from here; the loader stands at an epoch's end."""
        self.began_at = self.session.consumed

    def after(self, step: Callable[[], Result]) -> Callable[[], Result]:
        """The step, followed by an evaluation when one is due."""
        task = self.session.task
        recipe = patched(task.recipe, task.parts.between_epochs)

        def step_and_evaluation() -> Result:
            result = step()
            consumed = self.session.consumed
            if (consumed - self.began_at) % self.batches == 0:
                evaluation = self.session.evaluate(recipe)
                self.effective = evaluation.effective
                if evaluation.items:
                    self.ended_at.append(consumed)
            return result

        return step_and_evaluation

    def epochs_between(self) -> float | None:
        """Epochs gone through for each evaluation seen so far; None before the first."""
        if not self.ended_at:
            return None
        return (self.ended_at[-1] - self.began_at) / len(self.ended_at) / len(self.session.feed.order)
