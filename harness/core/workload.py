"""Workloads: reference training systems, as facts that need no torch and parts that do."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.core.mistake import Mistake
from harness.core.recipe import Recipe, Value

if TYPE_CHECKING:
    import torch
    from torch.utils.data import Dataset


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How big one measurement of a workload is."""

    batch: int  # samples per optimizer step
    epoch_steps: int  # length of a timed epoch: after so many steps the same samples come round again
    evaluation_items: int
    data_bytes: int  # on disk, for the free-space check
    shape: Mapping[str, int]  # the workload's own numbers: files, speakers, classes
    original_epoch_steps: int  # in the real system, shown beside ours


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """One pass over the evaluation set."""

    items: int
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What needs torch: the callables that the harness trains with.

    `prepare` writes real files into a folder and yields the share that is done, from 0 to 1. `dataset` gives a
    map-style dataset of pairs (input, target) in an order that is already shuffled; an item depends on its index
    alone, so that any number of workers sees the same data. `model` and `loss` are built after a seed was set; the
    loss may have parameters. `optimizer` gets all parameters and the keywords that choose its kernel. `evaluate` runs
    one whole pass as the recipe says. `effective` tells how a dataset really reads, from its own handles.
    """

    prepare: Callable[[Path, Size], Iterator[float]]
    model: Callable[[Size], "torch.nn.Module"]
    loss: Callable[[Size], "torch.nn.Module"]
    optimizer: Callable[[list["torch.nn.Parameter"], Mapping[str, Any]], "torch.optim.Optimizer"]
    dataset: Callable[[Path, Size, Recipe], "Dataset[Any]"]
    evaluate: Callable[["torch.nn.Module", Path, Size, Recipe, "torch.device"], Evaluation]
    effective: Callable[["Dataset[Any]"], Mapping[str, Value]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A reference training system."""

    name: str
    title: str
    origin: str
    parameters: int
    traits: frozenset[str]
    sizes: Mapping[str, Size]
    parts: Callable[[], Parts]
    own: Mapping[str, Value] = field(default_factory=dict)  # its own choices, with the value of the real system
    as_found: tuple[str, ...] = ()
    score: str = ""
    data_version: int = 1  # raised when `prepare` writes other files than before
    path: str | None = None  # a file outside the package, when the workload is the user's own

    def at(self, size: str, batch: int) -> Size:
        """The facts of a size at another batch: as many samples in an epoch, in fewer or more steps; raises Mistake."""
        usual = self.sizes[size]
        steps = usual.batch * usual.epoch_steps // batch
        if not steps:
            most = usual.batch * usual.epoch_steps
            raise Mistake(
                f"{self.name} at size {size} has {most} samples in an epoch; choose a batch of at most {most}."
            )
        return replace(usual, batch=batch, epoch_steps=steps)
