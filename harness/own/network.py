"""The network of a job on a few samples, and what fails in the user's code as a sentence."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.utils.flop_counter import FlopCounterMode

from harness.core.mistake import Mistake
from harness.core.recipe import Recipe
from harness.core.workload import Size
from harness.measure.session import into_training
from harness.own.items import Shape, first_line
from harness.own.parts import Builder, as_pair

if TYPE_CHECKING:
    from harness.own.job import Job


def device_here() -> torch.device:
    """Where a job is looked at: the GPU if there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@contextmanager
def in_words(what: str, remedy: str = "put it right, then measure") -> Iterator[None]:
    """A failure of the user's code as a sentence; raises Mistake."""
    try:
        yield
    except Mistake:
        raise
    except Exception as error:
        raise failure(error, what, remedy) from error


# What Lightning's modules say where no Trainer, or none of its loggers, is there.
OF_TRAINERS = ("attached to a `Trainer`", "'NoneType' object has no attribute 'experiment'")
TWICE = "backward through the graph a second time"
BEFORE_BACKWARD = (
    "training_step returns the loss before backward(); a step that updates by itself is from_loop(step, loader); what "
    "a model keeps from step to step needs detach()"
)


def failure(error: Exception, what: str, remedy: str = "put it right, then measure") -> Mistake:
    """The sentence for what the user's code has raised."""
    if "NVIDIA driver" in str(error) or "not compiled with CUDA" in str(error) or "No CUDA GPUs" in str(error):
        return Mistake(
            f"{what}, since it asks for CUDA and this machine has no GPU; leave out .cuda() and .to('cuda'): each "
            "arm is sent to its device."
        )
    if any(words in str(error) for words in OF_TRAINERS):
        return Mistake(
            f"{what}, since it asks for self.trainer or self.logger, which no job has; use self.log, or skip it where "
            "self._trainer is None."
        )
    remedy = BEFORE_BACKWARD if TWICE in str(error) else remedy
    return Mistake(f"{what} ({type(error).__name__}: {first_line(error)}); {remedy}.")


@dataclass(slots=True)
class Network:
    """A fresh model with its loss and optimizer, and a batch of few samples on the device."""

    model: nn.Module
    loss: nn.Module
    optimizer: torch.optim.Optimizer
    inputs: Any
    targets: Any
    kernel: dict[str, Any]

    @classmethod
    def of(cls, job: "Job", shape: Shape, tensors: tuple[Tensor, ...]) -> "Network":
        """Built from the seed 0."""
        builder = Builder(job=job, others={}, file=None)
        device, recipe = device_here(), Recipe(own=tuple((one.name, False) for one in job.options))
        size = Size(batch=1, epoch_steps=1, evaluation_items=0, data_bytes=0, shape={}, original_epoch_steps=1)
        torch.manual_seed(0)
        parts = builder.parts()
        with in_words("The model cannot be built"):
            model = parts.model(size, recipe).to(device)
        loss = parts.loss(size, recipe).to(device)
        if any(map(is_lazy, model.parameters())):
            raise Mistake(
                "The model has lazy layers, whose sizes a batch decides; give a factory that runs one through it."
            )
        parameters = [*model.parameters(), *loss.parameters()]
        if not any(one.requires_grad for one in parameters):
            raise Mistake("The model has no parameter that could be trained; leave requires_grad on for some of them.")
        remedy = f"put it right: it is given the {(given := job.optimizer_takes)} and no more, as lambda {given}: ..."
        with in_words("The optimizer cannot be built", remedy):
            optimizer = parts.optimizer(parameters, {"foreach": False, "fused": False})
        into_training(model)
        moved = tuple(one.to(device) for one in tensors)
        inputs, targets = moved if shape.pair else as_pair(moved)
        return cls(model, loss, optimizer, inputs, targets, builder.kernel)

    def value(self) -> Tensor:
        """The loss of the batch; raises Mistake where there is none that could be trained on."""
        with in_words("The model fails on a batch of your data"):
            outputs = self.model(self.inputs)
        with in_words("The loss fails on a batch of your data"):
            value = self.loss(outputs, self.targets)
        if not isinstance(value, Tensor):
            raise Mistake(
                f"The loss is a {type(value).__name__} and no tensor; let training_step (or the loss) return the loss "
                "alone, a tensor."
            )
        if value.numel() != 1:
            shape = f"a tensor of the shape {tuple(value.shape)}"
            raise Mistake(f"The loss is {shape} and no single number; give one with reduction='mean'.")
        if not value.requires_grad:
            raise Mistake("The loss has no gradient; leave out detach(), item() and torch.no_grad() on the way to it.")
        if not bool(torch.isfinite(value.detach())):
            raise Mistake("The loss of the first batch is not a finite number; look at its inputs and weights.")
        return value

    def step(self) -> None:
        """One training step."""
        self.backward()
        name, closure = type(self.optimizer).__name__, inspect.signature(self.optimizer.step).parameters.get("closure")
        if closure is not None and closure.default is closure.empty:
            raise Mistake(
                f"The optimizer {name} wants a closure, which this step has not; give one whose step() needs none."
            )
        if all(one.grad is None for group in self.optimizer.param_groups for one in group["params"]):
            raise Mistake(
                "The loss does not depend on the model that is trained; let training_step and loss use the model that "
                "they are given, since every arm has a copy of its own."
            )
        with in_words(f"The optimizer {name} fails in a step"):
            self.optimizer.step()
        self.optimizer.zero_grad()

    def backward(self) -> Tensor:
        """The loss of the batch, of which the gradients were worked out; raises Mistake where they cannot be."""
        value = self.value()
        with in_words("The backward pass fails on a batch of your data"):
            value.backward()
        return value

    def gradients(self) -> list[bytes]:
        """The bits of the loss and of every gradient."""
        torch.manual_seed(1)
        value = self.backward()
        grads = [one.grad for one in self.model.parameters() if one.grad is not None]
        return [one.detach().to_dense().cpu().float().numpy().tobytes() for one in (value, *grads)]

    def operations(self) -> int:
        """Multiplications and additions of products and convolutions, forward and backward; 0 where none are seen."""
        with FlopCounterMode(display=False) as counter:
            self.backward()
        self.optimizer.zero_grad()
        return int(counter.get_total_flops())
