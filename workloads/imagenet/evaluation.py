"""The evaluation: top-1 accuracy in percent over the validation images."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from harness.core.recipe import Recipe
from harness.core.workload import Evaluation, Size
from workloads.imagenet.data import validation
from workloads.imagenet.views import Normalization

Forward = Callable[[Tensor], Tensor]  # images as the loader gave them to logits
Classes = npt.NDArray[np.int64]


def evaluate(model: nn.Module, folder: Path, size: Size, recipe: Recipe, device: torch.device) -> Evaluation:
    """Read, classify and score the validation images once, in batches or one by one as the recipe says.

    The real system gives its validation as many loader workers as its training. Here they start anew for each pass.
    """
    images = validation(folder, size, recipe)
    loader = _loader(images, size.batch if recipe.batched_evaluation else 1, recipe)
    gradients_off = torch.inference_mode() if recipe.inference_mode else torch.no_grad()
    predict = read_once if recipe.batched_evaluation or recipe.device_results else read_one_by_one
    with gradients_off, _autocast(device, recipe)():
        found = predict(_forward(model, recipe, device), loader)
    labels = np.array([one.label for one in images.files])
    score = top_percent(np.array(found)[:, None], labels)
    return Evaluation(items=len(images), score=score, answers=tuple(map(float, found)))


def read_one_by_one(forward: Forward, loader: DataLoader[Any]) -> list[int]:
    """An image a forward pass, and a wait for the device after each: the class of each image."""
    return [int(forward(pixels).argmax(1).item()) for pixels, _ in loader]


def read_once(forward: Forward, loader: DataLoader[Any]) -> list[int]:
    """The same classes, whatever a batch holds, with one wait at the end."""
    classes: list[int] = torch.cat([forward(pixels).argmax(1) for pixels, _ in loader]).tolist()
    return classes


def top_percent(ranked: Classes, labels: Classes) -> float:
    """How many percent of labels (images,) stand among the classes (images, k) ranked best; k is 1 or 5."""
    return 100 * int((ranked == labels[:, None]).any(1).sum()) / len(labels)


def _forward(model: nn.Module, recipe: Recipe, device: torch.device) -> Forward:
    memory_format = torch.channels_last if recipe.channels_last else torch.contiguous_format
    normalization = Normalization(device)

    def forward(pixels: Tensor) -> Tensor:
        moved = pixels.to(device, non_blocking=recipe.non_blocking, memory_format=memory_format)
        logits: Tensor = model(normalization(moved) if moved.dtype == torch.uint8 else moved)
        return logits

    return forward


def _loader(images: Any, batch: int, recipe: Recipe) -> DataLoader[Any]:
    further: dict[str, Any] = {"multiprocessing_context": recipe.start_method} if recipe.workers else {}
    further["generator"] = torch.Generator()  # a loader takes a seed for its workers: not from the training's numbers
    return DataLoader(images, batch, num_workers=recipe.workers, pin_memory=recipe.pin_memory, **further)


def _autocast(device: torch.device, recipe: Recipe) -> Callable[[], AbstractContextManager[Any]]:
    if recipe.autocast is None:
        return nullcontext
    return partial(torch.autocast, device.type, dtype=getattr(torch, recipe.autocast))
