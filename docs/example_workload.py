"""A workload of one's own: squares and frames in noise. ./speedmatrix run --workload docs/example_workload.py."""
# ruff: noqa: INP001  a user's own file belongs to no package

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from harness.core.recipe import Recipe
from harness.core.workload import Evaluation, Lesson, Parts, Size, Workload

TEST = 64  # the first pictures are kept for the evaluation
SMOKE = Size(batch=32, epoch_steps=8, evaluation_items=TEST, data_bytes=2_000_000, shape={}, original_epoch_steps=8)


def prepare(folder: Path, size: Size) -> Iterator[float]:
    """Writes all pictures into one file: a bright square in each, with a hole in every second one."""
    pictures = np.random.default_rng(0).normal(size=(TEST + size.batch * size.epoch_steps, 1, 32, 32))
    pictures[:, :, 8:24, 8:24] += 1.0
    pictures[1::2, :, 12:20, 12:20] -= 1.0
    np.save(folder / "pictures.npy", pictures.astype(np.float32))
    yield 1.0


class Pictures(Dataset[tuple[Tensor, int]]):
    """Pictures (1, 32, 32) and whether they have a hole, each read when it is asked for."""

    def __init__(self, folder: Path) -> None:
        self.pictures = np.load(folder / "pictures.npy", mmap_mode="r")

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.from_numpy(self.pictures[TEST + index].copy()), index % 2


def evaluate(model: nn.Module, folder: Path, _size: Size, recipe: Recipe, device: torch.device) -> Evaluation:
    """Share of the test pictures that are told rightly."""
    pictures = torch.from_numpy(Pictures(folder).pictures[:TEST].copy()).to(device)
    with torch.inference_mode() if recipe.inference_mode else torch.no_grad():
        said = model(pictures).argmax(1).cpu()
    right = said == torch.arange(TEST) % 2
    return Evaluation(items=TEST, score=float(right.float().mean()), answers=tuple(said.tolist()))


PARTS = Parts(
    prepare=prepare,
    model=lambda *_: nn.Sequential(nn.Conv2d(1, 8, 9), nn.ReLU(), nn.MaxPool2d(4), nn.Flatten(), nn.Linear(288, 2)),
    loss=lambda *_: nn.CrossEntropyLoss(),
    optimizer=lambda parameters, kernel: torch.optim.SGD(parameters, lr=0.01, **kernel),
    dataset=lambda folder, _size, _recipe: Pictures(folder),
    evaluate=evaluate,
)
WORKLOAD = Workload(
    name="pictures", title="Squares and frames", origin="invented", parameters=1_234, score="accuracy",
    traits=frozenset({"convolutions", "evaluation"}), sizes={"smoke": SMOKE}, parts=lambda: PARTS,
    lesson=Lesson(steps=100, chance=0.5, clear=0.8, better="more"),
)  # fmt: skip
