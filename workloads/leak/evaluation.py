"""The evaluation: long segments vote whether a file leaks, and the files are scored by the F1 of LEAK."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from math import ceil
from pathlib import Path

import h5py
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from harness.core.recipe import Recipe
from harness.core.workload import Evaluation, Size
from workloads.leak.layouts import LABELS, MEL, VALIDATION
from workloads.leak.score import Verdicts, f1

THRESHOLD = 0.5  # probability from which a long segment votes for a leak

Files = npt.NDArray[np.int64]  # numbers of files, rising
Probabilities = npt.NDArray[np.float32]  # (files, longs)
Judged = Callable[["Judge", h5py.Dataset, Files], Probabilities]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """A model that tells how likely each long segment is a leak."""

    model: nn.Module
    leak: int  # number of LEAK among the model's classes
    device: torch.device
    passes: list[int] = field(default_factory=list)  # files in each pass so far

    def __call__(self, mel: Tensor) -> Tensor:
        """Probabilities (files, longs) of mel (files, longs, shorts, …): the mean over both heads and the shorts."""
        self.passes.append(len(mel))
        logits, leak_logit = self.model(mel.reshape(-1, 1, *mel.shape[-2:]))
        shorts: Tensor = 0.5 * (logits.softmax(1)[:, self.leak] + leak_logit.sigmoid())
        return shorts.reshape(mel.shape[:3]).mean(2)


def evaluate(model: nn.Module, folder: Path, size: Size, recipe: Recipe, device: torch.device) -> Evaluation:
    """Read, judge and score the validation files once, in the way that the recipe says."""
    judge = Judge(model=model, leak=1 if recipe.choice("classes") == "binary" else size.shape["leak"], device=device)
    judged = _way(recipe)
    gradients_off = torch.inference_mode() if recipe.inference_mode else torch.no_grad()
    with h5py.File(folder / VALIDATION, "r", libver="latest") as split, gradients_off:
        files = evenly_chosen(size.evaluation_items, len(split[LABELS]))
        longs = judged(judge, split[MEL], files)
        truth = split[LABELS][:][files] == size.shape["leak"]
    answers = tuple(longs.mean(1, dtype=np.float64).tolist())
    shown = {"files_per_batch": _files_per_batch(judge.passes, recipe)}
    return Evaluation(items=len(files), score=f1(verdicts(longs), truth), answers=answers, effective=shown)


def evenly_chosen(wanted: int, present: int) -> Files:
    """So many file numbers out of those present, evenly spaced, since real files may be sorted by class."""
    return np.arange(min(wanted, present)) * present // min(wanted, present)


def judged_one_by_one(judge: Judge, mel: h5py.Dataset, files: Files) -> Probabilities:
    """As found: a read, a forward pass and a wait for the device for each long segment of each file."""
    found = np.zeros((len(files), mel.shape[1]), np.float32)
    for row, block in enumerate(_blocks(mel, files, judge.device)):
        for column, probability in enumerate(judge(block)[0]):
            found[row, column] = probability.item()
    return found


def judged_and_kept(judge: Judge, mel: h5py.Dataset, files: Files) -> Probabilities:
    """The same reads and passes, without a wait: the probabilities stay on the device until the end."""
    longs: Probabilities = torch.cat([judge(block) for block in _blocks(mel, files, judge.device)]).cpu().numpy()
    return longs


def judged_at_once(judge: Judge, mel: h5py.Dataset, files: Files, together: int) -> Probabilities:
    """The same as one tensor program: many files in a pass, and one wait at the end."""
    found = []
    for start in range(0, len(files), together):
        blocks = torch.from_numpy(_read(mel, files[start : start + together]))
        found.append(judge(blocks.to(judge.device).float()))
    longs: Probabilities = torch.cat(found).cpu().numpy()
    return longs


def verdicts(longs: Probabilities, threshold: float = THRESHOLD) -> Verdicts:
    """Whether each file leaks: at least half of its long segments reach the threshold."""
    votes: Verdicts = (longs >= threshold).sum(1) >= ceil(longs.shape[1] / 2)
    return votes


def _way(recipe: Recipe) -> Judged:
    if recipe.batched_evaluation:
        return partial(judged_at_once, together=_chosen(recipe))
    return judged_and_kept if recipe.device_results else judged_one_by_one


def _chosen(recipe: Recipe) -> int:
    return int(recipe.choice("files_per_batch") or 1)


def _files_per_batch(passes: list[int], recipe: Recipe) -> int:
    """The files of the largest pass; of all that one pass may hold, where it held every file."""
    held_all = recipe.batched_evaluation and len(passes) == 1
    return _chosen(recipe) if held_all else max(passes, default=0)


def _blocks(mel: h5py.Dataset, files: Files, device: torch.device) -> Iterator[Tensor]:
    """The segments of one file after another, each (1, longs, shorts, …) on the device."""
    for file in files:
        yield torch.tensor(mel[file], dtype=torch.float32, device=device)[None]


def _read(mel: h5py.Dataset, files: Files) -> npt.NDArray[np.float16]:
    """Blocks of files; neighbours in one piece, because HDF5 takes a list of numbers one by one."""
    neighbours = files[-1] - files[0] == len(files) - 1
    blocks: npt.NDArray[np.float16] = mel[files[0] : files[-1] + 1] if neighbours else mel[files]
    return blocks
