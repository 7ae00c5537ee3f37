"""The evaluation: long segments vote whether a file leaks, and the files are scored by the F1 of LEAK."""

from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil
from pathlib import Path

import h5py
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from harness.core.recipe import Recipe
from harness.core.workload import Evaluation, Size
from workloads.leak.data import VALIDATION
from workloads.leak.signals import LEAK, LONGS

THRESHOLD = 0.5  # probability from which a long segment votes for a leak
MAJORITY = ceil(LONGS / 2)
CHUNK_FILES = {"cpu": 16, "cuda": 256}  # of 80 segments: what stays in a CPU's cache, and what fills a GPU

Votes = npt.NDArray[np.bool_]


def evaluate(model: nn.Module, folder: Path, size: Size, recipe: Recipe, device: torch.device) -> Evaluation:
    """Read, judge and score the validation files once, in the way that the recipe says."""
    judge = judge_at_once if recipe.batched_evaluation else judge_one_by_one
    gradients_off = torch.inference_mode() if recipe.inference_mode else torch.no_grad()
    with h5py.File(folder / VALIDATION, "r", libver="latest") as split, evaluating(model), gradients_off:
        leaks = judge(model, split, size.evaluation_items, device)
        truth = split["labels"][: size.evaluation_items] == LEAK
    return Evaluation(items=len(leaks), score=f1(leaks, truth))


def judge_one_by_one(model: nn.Module, split: h5py.File, files: int, device: torch.device) -> Votes:
    """As found: a read, a forward pass and forty waits for the device for each file."""
    leaks = np.zeros(files, dtype=np.bool_)
    for file in range(files):
        mel = torch.tensor(split["segments_mel"][file], dtype=torch.float32, device=device)
        longs = leak_probability(model, mel[None])[0]
        leaks[file] = sum(long.item() >= THRESHOLD for long in longs) >= MAJORITY
    return leaks


def judge_at_once(model: nn.Module, split: h5py.File, files: int, device: torch.device) -> Votes:
    """The same verdicts as one tensor program: many files in a pass, and one wait at the end."""
    leaks = []
    step = CHUNK_FILES[device.type]
    for start in range(0, files, step):
        mel = torch.from_numpy(split["segments_mel"][start : min(start + step, files)]).to(device).float()
        leaks.append((leak_probability(model, mel) >= THRESHOLD).sum(1) >= MAJORITY)
    return torch.cat(leaks).cpu().numpy()


def leak_probability(model: nn.Module, mel: Tensor) -> Tensor:
    """Probabilities (files, 40) of long segments: the mean over both heads and the short segments (files, 40, 2, …)."""
    logits, leak_logit = model(mel.reshape(-1, 1, *mel.shape[-2:]))
    shorts: Tensor = 0.5 * (logits.softmax(1)[:, LEAK] + leak_logit.sigmoid())
    return shorts.reshape(mel.shape[:3]).mean(2)


def f1(found: Votes, truth: Votes) -> float:
    """Harmonic mean of precision and recall; 0 where nothing is found or nothing was there."""
    agreed = int((found & truth).sum())
    return 2 * agreed / max(1, int(found.sum() + truth.sum()))


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """The model in evaluation mode, and afterwards in the mode it had."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)
