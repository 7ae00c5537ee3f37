"""The evaluation: top-1 accuracy in percent over the validation images."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from harness.core.recipe import Recipe
from harness.core.workload import Evaluation, Size
from workloads.imagenet.data import validation
from workloads.imagenet.views import Normalization

Forward = Callable[[Tensor], Tensor]  # images as the loader gave them to logits


def evaluate(model: nn.Module, folder: Path, size: Size, recipe: Recipe, device: torch.device) -> Evaluation:
    """Read, classify and score the validation images once, in batches or one by one as the recipe says.

    The real system gives its validation as many loader workers as its training. Here they start anew for each pass.
    """
    images = validation(folder, size, recipe)
    loader = _loader(images, size.batch if recipe.batched_evaluation else 1, recipe)
    gradients_off = torch.inference_mode() if recipe.inference_mode else torch.no_grad()
    with evaluating(model), gradients_off, _autocast(device, recipe)():
        forward = _forward(model, recipe, device)
        found = predict_at_once(forward, loader) if recipe.batched_evaluation else predict_one_by_one(forward, loader)
    labels = torch.tensor([one.label for one in images.files])
    return Evaluation(
        items=len(images), score=top_percent(found[:, None], labels), answers=tuple(map(float, found.tolist()))
    )


def predict_one_by_one(forward: Forward, loader: DataLoader[Any]) -> Tensor:
    """An image a forward pass, and a wait for the device after each: classes (images,)."""
    return torch.tensor([int(forward(pixels).argmax(1).item()) for pixels, _ in loader])


def predict_at_once(forward: Forward, loader: DataLoader[Any]) -> Tensor:
    """The same classes with a batch a forward pass and one wait at the end."""
    return torch.cat([forward(pixels).argmax(1) for pixels, _ in loader]).cpu()


def top_percent(ranked: Tensor, labels: Tensor) -> float:
    """How many percent of labels (images,) stand among the classes (images, k) ranked best; k is 1 or 5."""
    return 100 * int((ranked == labels[:, None]).any(1).sum()) / len(labels)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """The model in evaluation mode, and afterwards in the mode it had."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def _forward(model: nn.Module, recipe: Recipe, device: torch.device) -> Forward:
    memory_format = torch.channels_last if recipe.channels_last else torch.contiguous_format
    normalization = Normalization(device)

    def forward(pixels: Tensor) -> Tensor:
        moved = pixels.to(device, non_blocking=recipe.non_blocking, memory_format=memory_format)
        logits: Tensor = model(normalization(moved) if moved.dtype == torch.uint8 else moved)
        return logits

    return forward


def _loader(images: Any, batch: int, recipe: Recipe) -> DataLoader[Any]:
    method = {"multiprocessing_context": recipe.start_method} if recipe.workers else {}
    return DataLoader(images, batch, num_workers=recipe.workers, pin_memory=recipe.pin_memory, **method)  # type: ignore[arg-type]


def _autocast(device: torch.device, recipe: Recipe) -> Callable[[], AbstractContextManager[Any]]:
    if recipe.autocast is None:
        return nullcontext
    return partial(torch.autocast, device.type, dtype=getattr(torch, recipe.autocast))
