"""Marks: named ranges around the parts of a step, for a profiler that draws a timeline."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from harness.core.recipe import Recipe
from harness.measure.step import Bound

Push = Callable[[str], Any]
Pop = Callable[[], Any]

PARTS = ("fetch", "transfer", "forward", "loss", "backward", "update")  # as they stand on the timeline


def marking(recipe: Recipe) -> Callable[[Bound], Bound]:
    """What the recipe does to the values of a step before it is bound: NVTX ranges around them, or nothing."""
    if not recipe.nvtx:
        return unmarked
    return lambda bound: marked(bound, torch.cuda.nvtx.range_push, torch.cuda.nvtx.range_pop)


def unmarked(bound: Bound) -> Bound:
    """The values as they are."""
    return bound


def marked(bound: Bound, push: Push, pop: Pop) -> Bound:
    """The same values, each in a range of its own: the step stays as it is written."""
    return replace(
        bound,
        fetch=_in_range("fetch", bound.fetch, push, pop),
        transfer=_in_range("transfer", bound.transfer, push, pop),
        model=_in_range("forward", bound.model, push, pop),
        loss=_in_range("loss", bound.loss, push, pop),
        backward=_in_range("backward", bound.backward, push, pop),
        update=_in_range("update", bound.update, push, pop),
    )


def _in_range(name: str, call: Callable[..., Any], push: Push, pop: Pop) -> Callable[..., Any]:
    def in_range(*given: Any) -> Any:
        push(name)
        try:
            return call(*given)
        finally:
            pop()

    return in_range
