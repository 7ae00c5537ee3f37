"""What the habits of a step show: readings, collections, freed memory, histories, checks, marks, evaluations."""

import gc
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import ceil
from typing import Any

import torch
from torch import Tensor

from harness.core.recipe import Value
from harness.measure.habits import Diverged, GrowingHistory, Habit, Monitor, PreallocatedHistory
from harness.measure.interlude import Interlude
from harness.measure.marks import PARTS
from harness.measure.read_backs import ReadBacks


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What had been counted in this process at some moment."""

    collections: int  # of all of Python's objects, whoever asked for them
    device_frees: int  # calls that gave memory back to the driver


def tally(device: torch.device) -> Tally:
    """The counts of this moment."""
    frees = torch.cuda.memory_stats(device)["num_device_free"] if device.type == "cuda" else 0
    return Tally(collections=gc.get_stats()[2]["collections"], device_frees=frees)


def of_habits(habits: Iterable[Habit], before: Tally, after: Tally, steps: int) -> dict[str, Value]:
    """What all steps since the arm's first have left in its habits, and what was counted meanwhile."""
    kept = {type(one): one for one in habits}
    return {
        "monitoring_steps": _spacing(kept.get(Monitor), steps),
        "loss_history": _kind_of_history(kept, steps),
        "collection_each_step": after.collections - before.collections >= steps,
        "emptied_cache": after.device_frees - before.device_frees >= steps,
    }


def of_backward(backward: Callable[[Tensor], None], device: torch.device) -> dict[str, Value]:
    """Whether the step's backward pass reads the loss back and refuses one that is not a number."""
    reads = ReadBacks(device)
    reads.note_forward(torch.nn.Identity(), (), None)  # a loss is there
    with reads:
        backward(_loss(1.0, device))
    try:
        backward(_loss(float("nan"), device))
    except Diverged:
        return {"finite_check": reads.count == 1}
    return {"finite_check": False}


def of_marks(step: Callable[[], object], push: Callable[[str], Any]) -> dict[str, Value]:
    """Which parts of one step were marked by calls of `push`, a function written in Python."""
    seen: set[str] = set()

    def watch(frame: Any, event: str, _argument: Any) -> None:
        if event == "call" and frame.f_code is push.__code__:
            seen.update(str(value) for value in frame.f_locals.values())

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        step()
    finally:
        sys.setprofile(before)
    return {"marked_parts": ", ".join(name for name in PARTS if name in seen)}


def of_interlude(interlude: Interlude | None) -> dict[str, Value]:
    """How many epochs lay between evaluations in the whole interval that the warm-up ended with."""
    between = interlude.epochs_between() if interlude else None
    return {"evaluation_epochs": int(between) if between == round(between or 0) else between}


def _spacing(monitor: Any, steps: int) -> int | None:
    """Steps between readings; None unless every step was counted and every reading that was due was taken."""
    if not isinstance(monitor, Monitor) or not monitor.latest or not monitor.latest.host_bytes:
        return None
    due = ceil(steps / monitor.every)
    return monitor.every if (monitor.steps, monitor.readings) == (steps, due) else None


def _kind_of_history(kept: dict[type, Habit], steps: int) -> str | None:
    growing, preallocated = kept.get(GrowingHistory), kept.get(PreallocatedHistory)
    if isinstance(growing, GrowingHistory) and _room(growing.losses) == steps:
        return "growing"
    if isinstance(preallocated, PreallocatedHistory) and _room(preallocated.losses) > preallocated.count == steps:
        return "preallocated"
    return None


def _room(losses: Tensor) -> int:
    """Losses for which memory is there."""
    return losses.untyped_storage().nbytes() // losses.element_size()


def _loss(value: float, device: torch.device) -> Tensor:
    return torch.full((), value, device=device, requires_grad=True)
