"""The evaluation: top-1 accuracy in percent over the validation images, and top-5 beside it."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from harness.core.recipe import Recipe
from harness.core.workload import Evaluation, Size
from workloads._evaluation_reading import Reading
from workloads.imagenet.data import validation
from workloads.imagenet.views import Normalization

Forward = Callable[[Tensor], Tensor]  # images as the loader gave them to logits
Classes = npt.NDArray[np.int64]


def evaluate(model: nn.Module, folder: Path, size: Size, recipe: Recipe, device: torch.device) -> Evaluation:
    """Read, classify and score the validation images once, in batches or one by one as the recipe says.

    The real system gives its validation as many loader workers as its training, and copies and computes alike: so do
    the options of the training here, unless the evaluation has its own. Workers start anew for each pass unless they
    are told to stay.
    """
    images = validation(folder, size, recipe)
    own = replace(recipe, evaluation_autocast=recipe.evaluation_autocast or recipe.autocast)
    reading = Reading(
        model=model, recipe=own, device=device, workers=recipe.workers, pins=recipe.pin_memory, batches_read_once=True
    )  # fmt: skip
    batches = reading.through(images, size.batch if recipe.batched_evaluation else 1)
    predict = read_once if recipe.batched_evaluation or recipe.device_results else read_one_by_one
    with reading.mode():
        found = predict(_forward(model, recipe, device), batches)
    labels = np.array([one.label for one in images.files])
    ranked = np.array(found)
    return Evaluation(
        items=len(images),
        score=top_percent(ranked[:, :1], labels),
        answers=tuple(map(float, ranked[:, 0])),
        scores={"top-5 accuracy": top_percent(ranked, labels)},
        effective=reading.effective,
    )


def read_one_by_one(forward: Forward, batches: Iterable[Any]) -> list[list[int]]:
    """An image a forward pass, and a wait for the device after each: the best classes of each image."""
    return [classes for pixels, _ in batches for classes in best(forward(pixels)).tolist()]


def read_once(forward: Forward, batches: Iterable[Any]) -> list[list[int]]:
    """The same classes, whatever a batch holds, with one wait at the end."""
    classes: list[list[int]] = torch.cat([best(forward(pixels)) for pixels, _ in batches]).tolist()
    return classes


def best(logits: Tensor) -> Tensor:
    """The five classes with the largest logits, the best first: (images, classes) to (images, 5)."""
    return logits.topk(min(5, logits.shape[1]), dim=1).indices


def top_percent(ranked: Classes, labels: Classes) -> float:
    """How many percent of labels (images,) stand among the classes (images, k) ranked best; k is 1 or 5."""
    return 100 * int((ranked == labels[:, None]).any(1).sum()) / len(labels)


def _forward(model: nn.Module, recipe: Recipe, device: torch.device) -> Forward:
    memory_format = torch.channels_last if recipe.channels_last else torch.contiguous_format
    normalization = Normalization(device)

    def forward(pixels: Tensor) -> Tensor:
        ahead = recipe.non_blocking or recipe.evaluation_non_blocking
        moved = pixels.to(device, non_blocking=ahead, memory_format=memory_format)
        logits: Tensor = model(normalization(moved) if moved.dtype == torch.uint8 else moved)
        return logits

    return forward
