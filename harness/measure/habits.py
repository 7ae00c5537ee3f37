"""Habits: what a training script does after every step beside training, because the recipe says so."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from harness.core.recipe import Recipe
from harness.measure.update import DeferredMetrics, EagerMetrics

Habit = Callable[[Tensor], None]


def recording(metrics: EagerMetrics | DeferredMetrics, recipe: Recipe, device: torch.device) -> Habit:
    """What becomes of each step's loss: the metrics alone, or the metrics and then the recipe's habits in turn."""
    habits = [metrics.record, *_habits(recipe, device)]
    if len(habits) == 1:
        return habits[0]

    def record(value: Tensor) -> None:
        for habit in habits:
            habit(value)

    return record


def _habits(recipe: Recipe, device: torch.device) -> Iterator[Habit]:
    """The habits that the recipe asks for, each bound once."""
    yield from ()
